"""The routes that give vectors: /vectors, and those of text-embeddings-inference for existing clients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from elmo import __version__
from elmo.embedding.layers import keeps_layers, written_layers
from elmo.embedding.returned import cosine_similarities
from elmo.server import bodies
from elmo.server.answers import JSON, TYPES, json_response, preferred_type, vectors_response
from elmo.server.batching import BatchKind
from elmo.server.errors import InvalidBody
from elmo.server.openapi import Route
from elmo.server.service import Service


def routes(service: Service) -> list[Route]:
    """Returns the routes of one server."""

    async def vectors(request: Request, body: bodies.Vectors) -> Response:
        """Vectors of all layers, of one, or mixed; per token, or pooled."""
        media = preferred_type(request.headers.get("accept", "*/*"))
        kind = _batch_kind(body)
        splits = await service.split(body.sentences, lines=body.lines)
        if media == JSON:
            service.check_json(splits, kind)
        found = await service.vectors(splits, kind)
        return await service.written(request, vectors_response, splits, found, media, body.dtype)

    async def embed(request: Request, body: bodies.Embed) -> Response:
        """One vector per input, as in text-embeddings-inference."""
        cut = body.truncate, body.truncation_direction
        _, rows = await service.one_each(input_texts(body.inputs), body.dimensions, body.normalize, *cut)
        return await service.written(request, json_response, rows)

    async def embed_all(request: Request, body: bodies.EmbedAll) -> Response:
        """One vector per token, as in text-embeddings-inference."""
        texts, kind = input_texts(body.inputs), BatchKind(service.config.layers, None)
        _, found = await service.embedded(texts, kind, body.truncate, body.truncation_direction)
        return await service.written(request, json_response, found)

    async def similarity(request: Request, body: bodies.Similarity) -> Response:
        """The cosine of one sentence with each of the others, as in text-embeddings-inference."""
        given = body.parameters or bodies.SimilarityParameters()
        inputs = [body.inputs.source_sentence, *body.inputs.sentences]
        _, found = await service.embedded(inputs, service.pooled, given.truncate, given.truncation_direction)
        cosines = cosine_similarities(found[0], np.array(found[1:])).tolist()
        return await service.written(request, json_response, cosines)

    async def root(request: Request, body: bodies.Root) -> Response:
        """Answers like /embed, or like /similarity for its inputs: Hugging Face's clients send their requests here."""
        if isinstance(body.inputs, bodies.Pair):
            return await similarity(request, bodies.Similarity(body.inputs, body.parameters))
        return await embed(request, body)

    async def tokenize(request: Request, body: bodies.Tokenize) -> Response:
        """The tokens of each input: ids in the vocabulary, and places; as in text-embeddings-inference."""
        rows = [service.placed(split) for split in await service.split(input_texts(body.inputs))]
        if not body.add_special_tokens:
            rows = [[token for token in row if not token["special"]] for row in rows]
        return await service.written(request, json_response, rows)

    async def info(request: Request) -> Response:
        """The model and the limits, with the names of text-embeddings-inference and more."""
        return json_response(_about(service))

    return [
        Route("POST", "/vectors", vectors, bodies.Vectors, TYPES),
        Route("POST", "/embed", embed, bodies.Embed),
        Route("POST", "/embed_all", embed_all, bodies.EmbedAll),
        Route("POST", "/similarity", similarity, bodies.Similarity),
        Route("POST", "/tokenize", tokenize, bodies.Tokenize),
        Route("POST", "/", root, bodies.Root),
        Route("GET", "/info", info),
    ]


def _batch_kind(body: bodies.Vectors) -> BatchKind:
    # A mix is written as text, since [0.0, 1.0], a mix, equals [0, 1], two layers.
    is_mix = isinstance(body.layers, list) and not keeps_layers(body.layers)
    return BatchKind(written_layers(body.layers) if is_mix else body.layers, body.pool, body.state)


def _about(service: Service) -> dict[str, Any]:
    """Returns what `/info` says."""
    config, embedder = service.config, service.embedder
    return {
        "model_id": service.name,
        "model_sha": service.card["sha256"],
        "model_dtype": embedder.precision,
        "model_type": {"embedding": {"pooling": config.pool}},
        "max_concurrent_requests": config.most_requests,
        "max_input_length": config.most_tokens,
        "max_batch_tokens": embedder.batch_tokens,
        "max_client_batch_size": config.most_sentences,
        "auto_truncate": False,
        "tokenization_workers": 1,
        "version": __version__,
        "elmo": service.facts,
    }


def input_texts(given: str | Sequence[str | list[int]]) -> list[str]:
    """Returns the inputs as a list. Raises InvalidBody for token ids."""
    listed = [given] if isinstance(given, str) else given
    found = [each for each in listed if isinstance(each, str)]
    if len(found) < len(listed):
        raise InvalidBody(f"inputs {bodies.TOKEN_IDS}")
    return found
