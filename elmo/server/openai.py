"""The routes of OpenAI's API, for existing clients."""

import base64
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from elmo.embedding.texts import SplitText
from elmo.errors import InputError
from elmo.server import bodies
from elmo.server.answers import json_response
from elmo.server.openapi import Route
from elmo.server.service import Service


def routes(service: Service) -> list[Route]:
    """Returns the routes of one server."""
    about = {"id": service.name, "object": "model", "created": 0, "owned_by": "elmo-torch"}

    async def embeddings(request: Request, body: bodies.Embeddings) -> Response:
        """One vector of length 1 per input, as in OpenAI's API."""
        inputs = [body.input] if isinstance(body.input, str) else body.input
        if any(not isinstance(each, str) for each in inputs):
            raise InputError(f"input {bodies.TOKEN_IDS} (LangChain: check_embedding_ctx_length=False)")
        splits, rows = await service.one_each([str(each) for each in inputs], body.dimensions, body.normalize)
        return await service.written(request, _response, service.name, rows, body.encoding_format, splits)

    async def models(request: Request) -> Response:
        """The only model, as in OpenAI's API."""
        return json_response({"object": "list", "data": [about]})

    async def model(request: Request) -> Response:
        """The model of this name, as in OpenAI's API."""
        name = request.path_params["model"]
        if name not in (service.name, "default"):
            raise HTTPException(404, f"there is no model {name[:80]!r}; this server has {service.name!r}")
        return json_response(about)

    return [
        Route("POST", "/v1/embeddings", embeddings, bodies.Embeddings),
        Route("GET", "/v1/models", models),
        Route("GET", "/v1/models/{model:path}", model, examples={"model": "default"}),
    ]


def _response(name: str, rows: np.ndarray, encoding: str, splits: list[SplitText]) -> Response:
    data: list[dict[str, Any]] = [
        {"object": "embedding", "index": number, "embedding": row if encoding == "float" else _base64(row)}
        for number, row in enumerate(rows)
    ]
    tokens = sum(len(split.tokens) for split in splits)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_response({"object": "list", "data": data, "model": name, "usage": usage})


def _base64(vector: np.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
