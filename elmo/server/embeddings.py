"""Vectors: /vectors, and the routes of text-embeddings-inference and of OpenAI, for existing clients."""

import base64
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Header
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from elmo import __version__
from elmo.embedding.layers import keeps_layers, written_layers
from elmo.errors import InputError
from elmo.server.answers import JSON, TYPES, accepted, json_response, vectors_response
from elmo.server.batching import Kind
from elmo.server.service import Service

Text = Annotated[str, Field(strict=True)]


def shown(*examples: dict[str, Any], extra: Literal["forbid", "ignore"] = "forbid") -> ConfigDict:
    """Settings of a request's schema: working examples (a test sends them), and whether unknown keys are refused."""
    return ConfigDict(extra=extra, json_schema_extra={"examples": list(examples)})


class VectorsBody(BaseModel):
    model_config = shown(
        {"sentences": ["She wrote a play .", ["He", "can", "play", "."]], "layers": "average", "pool": "mean"},
        {"sentences": ["She wrote a play ."]},
    )

    sentences: list[Text | list[Text]] = Field(description="text, split by the model's own tokenizer, or tokens")
    layers: int | Text | list[int] | list[float] = Field(
        "all", description="all, average, top, concat, the number of one, a list of such, or a mix: mix=0.2,0.3,0.5"
    )
    pool: Literal["mean", "max", "sum"] | None = Field(None, description="over the tokens of a sentence")
    state: Literal["reset", "echo"] = Field("reset", description="echo reads every sentence twice")
    dtype: Literal["float32", "float16"] = "float32"


class InferenceBody(BaseModel):
    """As in text-embeddings-inference; its other fields have no meaning here."""

    model_config = shown({"inputs": ["She wrote a play .", "He can play ."]}, extra="ignore")

    inputs: Text | list[Text]
    normalize: bool = Field(True, description="to length 1")


class AllBody(BaseModel):
    model_config = shown({"inputs": "She wrote a play ."}, extra="ignore")

    inputs: Text | list[Text]


class OpenAIBody(BaseModel):
    """As in OpenAI's API."""

    model_config = shown({"input": ["She wrote a play ."], "model": "default"}, extra="ignore")

    input: Text | list[Text] | list[int] | list[list[int]] = Field(description="text; token ids are refused")
    model: str = Field("default", description="there is one, so that any name is taken")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, description="no others than the model has")
    user: str | None = None


def router(service: Service) -> APIRouter:
    """The routes of one server."""
    routes = APIRouter(tags=["vectors"])
    config = service.config
    pooled = Kind(config.layers, config.pool)

    async def embedded(given: list[str], kind: Kind) -> tuple[list[list[str]], list[np.ndarray]]:
        sentences = await service.sentences(given)
        for number, sentence in enumerate(sentences):
            if not sentence:
                raise InputError(f"input {number} is empty; a text with at least one token is expected")
        service.check_json(sentences, kind)
        return sentences, await service.vectors(sentences, kind)

    @routes.post("/vectors", response_class=Response, responses={200: {"content": {kind: {} for kind in TYPES}}})
    async def vectors(body: VectorsBody, accept: Annotated[str, Header()] = "*/*") -> Response:
        """Vectors of all layers, of one, or mixed; per token, or pooled."""
        # Written as text, since [0.0, 1.0], a mix, equals [0, 1], two layers.
        layers = (
            body.layers
            if not isinstance(body.layers, list) or keeps_layers(body.layers)
            else written_layers(body.layers)
        )
        media, kind = accepted(accept), Kind(layers, body.pool, body.state)
        sentences = await service.sentences(body.sentences)
        if media == JSON:
            service.check_json(sentences, kind)
        found = await service.vectors(sentences, kind)
        return await service.written(vectors_response, sentences, found, media, body.dtype)

    @routes.post("/embed", response_class=Response)
    async def embed(body: InferenceBody) -> Response:
        """One vector per input, as in text-embeddings-inference."""
        _, found = await embedded(_listed(body.inputs), pooled)
        rows = np.stack(found)
        if body.normalize:
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(min=1e-12)
        return await service.written(json_response, rows)

    @routes.post("/embed_all", response_class=Response)
    async def embed_all(body: AllBody) -> Response:
        """One vector per token."""
        _, found = await embedded(_listed(body.inputs), Kind(config.layers, None))
        return await service.written(json_response, found)

    @routes.post("/v1/embeddings", response_class=Response)
    async def embeddings(body: OpenAIBody) -> Response:
        """One vector per input, as in OpenAI's API."""
        if not isinstance(body.input, str) and any(not isinstance(each, str) for each in body.input):
            raise InputError(
                "input contains token ids; this model has its own tokenizer: send text (LangChain:"
                " check_embedding_ctx_length=False)"
            )
        sentences, found = await embedded(_listed(body.input), pooled)  # type: ignore[arg-type]
        size = found[0].shape[-1]
        if body.dimensions not in (None, size):
            raise InputError(f"dimensions is {body.dimensions}; the vectors of this model have {size}: omit it")
        data = [
            {"object": "embedding", "index": number, "embedding": _encoded(vector, body.encoding_format)}
            for number, vector in enumerate(found)
        ]
        tokens = sum(map(len, sentences))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        content = {"object": "list", "data": data, "model": service.name, "usage": usage}
        return await service.written(json_response, content)

    @routes.get("/v1/models")
    async def models() -> dict[str, Any]:
        """The only model."""
        about = {"id": service.name, "object": "model", "created": 0, "owned_by": "elmo-torch"}
        return {"object": "list", "data": [about]}

    @routes.get("/info")
    async def info() -> dict[str, Any]:
        """The model and the limits, with the names of text-embeddings-inference and more."""
        return {
            "model_id": service.name,
            "model_sha": service.card["sha256"],
            "model_dtype": service.dtype,
            "model_type": {"embedding": {"pooling": config.pool}},
            "max_concurrent_requests": config.queue_tokens,
            "max_input_length": config.most_tokens,
            "max_batch_tokens": service.embedder.batch_tokens,
            "max_client_batch_size": config.most_sentences,
            "tokenization_workers": 1,
            "version": __version__,
            "elmo": service.facts,
        }

    return routes


def _listed(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


def _encoded(vector: np.ndarray, encoding: str) -> np.ndarray | str:
    return vector if encoding == "float" else base64.b64encode(vector.astype("<f4").tobytes()).decode()
