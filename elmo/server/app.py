"""The application: routes, limits, keys, errors, logs. Every error is one JSON object that names the remedy."""

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Awaitable
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo import __version__
from elmo.errors import InputError
from elmo.server import embeddings, language, page, reference
from elmo.server.answers import NotAcceptable, json_response
from elmo.server.batching import Closed, Overloaded
from elmo.server.metrics import CONTENT_TYPE_LATEST
from elmo.server.service import Service, TimedOut, TooLarge

log = logging.getLogger("elmo.server")
OPEN = {"/health", "/docs", "/docs.css", *page.OPEN}
"""Paths that need no key: they reveal nothing about this server."""
ERRORS: dict[type[Exception], tuple[int, str, dict[str, str]]] = {
    InputError: (400, "", {}),
    TooLarge: (413, "", {}),
    NotAcceptable: (406, "", {}),
    Overloaded: (429, "too many requests wait already; try again in a second", {"retry-after": "1"}),
    Closed: (503, "the server is shutting down; try another one", {"retry-after": "10"}),
    TimedOut: (504, "no answer in time; send fewer sentences, or try again when there is less to do", {}),
}
"""Status, message (empty: the error's own) and headers."""
NO_JSON = "the body is not JSON in UTF-8; send an object, as /openapi.json describes it"
PORT = re.compile(r":\d+$")
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
        b" form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    ),
]


def create_app(service: Service, key: str | None = None) -> FastAPI:
    """The application for one service; with `key`, requests need the header `Authorization: Bearer KEY`."""
    app = FastAPI(title="elmo", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    for routes in (embeddings.router(service), language.router(service)):
        app.include_router(routes, responses={"default": {"description": "an error and its remedy", "model": Problem}})
    app.include_router(page.router())

    @app.head("/health", include_in_schema=False)
    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the server is up."""
        return {"status": "ok"}

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return HTMLResponse(reference.page(app.openapi(), str(request.base_url), key is not None))

    @app.get("/docs.css", include_in_schema=False)
    async def style() -> Response:
        return Response(reference.STYLE, media_type="text/css")

    for kind in (*ERRORS, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _handle)
    app.add_middleware(Guard, service=service, key=key)
    if origins := service.config.cors:  # before the key check, since a browser's preflight request carries no key
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    return app


class Problem(BaseModel):
    """An error response; on /v1 in OpenAI's format."""

    error: str
    error_type: str


class Guard:
    """Runs before all routes: checks the key, a body's size and time; adds security headers and a log line."""

    def __init__(self, app: ASGIApp, service: Service, key: str | None) -> None:
        self._app, self._service, self._key = app, service, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 499  # the client disconnected before the answer

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        request = Request(scope)
        try:
            body = await self._body(request, receive)
            await _while_there(self._app(scope, _once(body), answer), receive)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # at the end of a shutdown, for unfinished requests
            await failed(request, Closed())(scope, receive, answer)
        except Exception as error:
            await failed(request, error)(scope, receive, answer)
        finally:
            seconds = time.monotonic() - began
            route = getattr(scope.get("route"), "path", "other")
            self._service.metrics.requests.labels(route, status).inc()
            self._service.metrics.seconds.labels(route).observe(seconds)
            log.info("%s %s %d %.1f ms", scope["method"], route, status, 1000 * seconds)

    async def _body(self, request: Request, receive: Receive) -> bytes:
        """The whole body, if the host name and the key are right."""
        name = request.headers.get("host", "").lower()
        if (names := self._service.config.names) and PORT.sub("", name) not in names:
            raise HTTPException(
                421,
                "without a key this server accepts only local host names, such as localhost; start it with --no-auth",
            )
        # Not request.url.path: older versions of Starlette build it from the Host header.
        if self._key is not None and request.scope["path"] not in OPEN:
            given = request.headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self._key}".encode()):
                raise HTTPException(401, "the key is missing or wrong; send the header Authorization: Bearer KEY")
        most = self._service.config.most_bytes
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > most:
            raise TooLarge(
                f"the body has {int(announced):,} bytes; at most {most:,} are accepted: send fewer sentences"
            )
        try:
            return await asyncio.wait_for(_whole(receive, most), self._service.config.sending)
        except TimeoutError as error:
            message = f"the body was incomplete after {self._service.config.sending:g} seconds; send it again"
            raise HTTPException(408, message, {"connection": "close"}) from error


async def _whole(receive: Receive, most: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > most:
            raise TooLarge(f"the body has more than the limit of {most:,} bytes: send fewer sentences")
    return b"".join(parts)


def _once(body: bytes) -> Receive:
    """A body that has already been read."""

    async def whole() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return whole


async def _while_there(work: Awaitable[None], receive: Receive) -> None:
    """Runs the work, and cancels it if the client disconnects; what it waits for leaves the queue."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        await working
    finally:
        for task in (working, gone):
            task.cancel()


async def _handle(request: Request, error: Exception) -> Response:
    """The same in the event loop, since functions that are not async would run in threads, which stay."""
    return failed(request, error)


def failed(request: Request, error: Exception) -> Response:
    """The response to an error, in the format of the called API."""
    status, message, headers = _explained(error)
    if status == 500:
        log.exception("an error in %s", request.scope["path"], exc_info=error)
    if request.scope["path"].startswith("/v1/"):
        kind = "invalid_request_error" if status < 500 else "server_error"
        content: Any = {"error": {"message": message, "type": kind, "param": None, "code": None}}
    else:
        content = {"error": message, "error_type": "Validation" if status < 500 else "Backend"}
    return json_response(content, status, headers)


def _explained(error: Exception) -> tuple[int, str, dict[str, str]]:
    """Status, message and headers."""
    if isinstance(error, RequestValidationError):
        return 422, _invalid(error), {}
    if isinstance(error, HTTPException):
        headers = {"www-authenticate": "Bearer"} if error.status_code == 401 else dict(error.headers or {})
        return error.status_code, _remedy(error), headers
    for kind, (status, message, headers) in ERRORS.items():
        if isinstance(error, kind):
            return status, message or " ".join(str(error).split()), headers
    return 500, "an error of the server, which is in its log; the request can be sent again", {}


def _remedy(error: HTTPException) -> str:
    """The message of an error; of FastAPI's own ones, what to do."""
    if error.detail == "There was an error parsing the body":
        return NO_JSON
    if error.detail == "Not Found":
        return "no such route; /docs lists all of them"
    if error.status_code == 405:
        return f"this route has another method; send {(error.headers or {}).get('Allow', 'POST')}"
    return str(error.detail)


def _invalid(error: RequestValidationError) -> str:
    """The first error in a body, in one line."""
    if isinstance(error.body, bytes):  # FastAPI parses no body of another type
        return "the header content-type is not application/json; send it with the body, as curl's -H does"
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return NO_JSON
    place = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    return f"{place}: {first['msg']}; /openapi.json has the fields"
