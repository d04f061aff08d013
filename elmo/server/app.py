"""The application, which serves the routes of this package behind the guard."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from elmo.server import embeddings, language, openai, page, reference, similar
from elmo.server.answers import json_response
from elmo.server.errors import ERRORS, handle_error
from elmo.server.guard import Guard, Traffic, needs_key
from elmo.server.metrics import CONTENT_TYPE_LATEST
from elmo.server.openapi import Route, openapi_document, starlette_routes
from elmo.server.service import Service


def create_app(service: Service, key: str | None = None, traffic: Traffic | None = None) -> Starlette:
    """Makes the application for one service; with `key`, requests need the header `Authorization: Bearer KEY`.

    `traffic` counts the requests at work, for a server that shuts down.
    """
    served = [each for part in (embeddings, openai, language, similar) for each in part.routes(service)]
    routes = [*served, *_own(service, served, key is not None), *page.routes(service.examples)]
    app = Starlette(routes=starlette_routes(routes, service.config.timeout))
    app.router.redirect_slashes = False
    for kind in (*ERRORS, HTTPException):
        app.add_exception_handler(kind, handle_error)
    app.add_middleware(Guard, service=service, key=key, traffic=traffic or Traffic(service.config.most_requests))
    if origins := service.config.cors:  # before the key check, since a browser's preflight request carries no key
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],  # OpenAI's client sends headers of its own, and a page of this origin may send any
            expose_headers=["retry-after"],
        )
    return app


def _own(service: Service, served: Sequence[Route], has_key: bool) -> Sequence[Route]:
    """Returns the routes about the server itself, and those that describe the routes in `served`."""

    async def health(request: Request) -> Response:
        """Whether the server is up."""
        return json_response({"status": "ok"})

    async def card(request: Request) -> Response:
        """The model's card: what it was trained on, and how well it predicts."""
        return json_response(service.card | service.told)

    async def metrics(request: Request) -> Response:
        """Returns the numbers for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def schema(request: Request) -> Response:
        return json_response(described)

    async def docs(request: Request) -> Response:
        return HTMLResponse(reference.reference_page(described, str(request.base_url), has_key))

    async def style(request: Request) -> Response:
        return Response(reference.STYLE, media_type="text/css")

    own = [
        Route("GET", "/health", health),
        Route("GET", "/ping", health),
        Route("GET", "/card", card),
        Route("GET", "/metrics", metrics, types=("text/plain",)),
        Route("GET", "/openapi.json", schema, shown=False),
        Route("GET", "/docs", docs, shown=False),
        Route("GET", "/docs.css", style, shown=False),
    ]
    described = openapi_document([*served, *own], needs_key if has_key else lambda method, path: False)
    return own
