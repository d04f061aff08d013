"""Checks the key, the host name, and the size and time of the body before all routes; also shuts down and logs."""

import asyncio
import hmac
import logging
import re
import time
import zlib
from collections.abc import Awaitable
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo.server import page
from elmo.server.batching import QueueClosed, QueueFull
from elmo.server.errors import RequestTooLarge, error_response
from elmo.server.service import Service

log = logging.getLogger("elmo.server")
OPEN = {"/health", "/ping", "/docs", "/docs.css", "/openapi.json", *page.OPEN}
"""The paths that need no key to be read; they reveal nothing about this server's model."""
PORT = re.compile(r":\d+$")
BEARER = re.compile(r"bearer +", re.IGNORECASE)
QUIET = 0.25
"""The seconds without a request at work after which a server that shuts down closes its socket."""
CLOSE = {"connection": "close"}
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


def needs_key(method: str, path: str) -> bool:
    """Returns whether a server with a key asks for it. `GET /` is the page, but `POST /` embeds."""
    return path not in OPEN or method not in ("GET", "HEAD")


@dataclass
class Traffic:
    """The requests at work, and whether new ones are still accepted. Only the event loop may use it."""

    most: int
    draining: bool = False
    working: int = 0
    ended: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Raises QueueFull if too many requests are at work."""
        if self.working >= self.most:
            raise QueueFull
        self.working += 1

    def end(self) -> None:
        self.working -= 1
        self.ended = time.monotonic()

    def is_quiet(self) -> bool:
        """Returns whether all requests are answered, and a moment has passed in which late ones could be refused."""
        return not self.working and time.monotonic() - self.ended > QUIET


class Guard:
    """Checks a request and reads its body before its route sees it; adds security headers and a log line."""

    def __init__(self, app: ASGIApp, service: Service, key: str | None, traffic: Traffic) -> None:
        self._app, self._service, self._key, self._traffic = app, service, key, traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 499  # the client disconnected before the answer

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                closing = [(b"connection", b"close")] if self._traffic.draining else []
                message["headers"] = [*message.get("headers", []), *HEADERS, *closing]
            await send(message)

        request = Request(scope)
        try:
            await self._handle(request, receive, answer)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # a shutdown cancels unfinished requests at its end
            await error_response(request, QueueClosed())(scope, receive, answer)
        except Exception as error:
            await error_response(request, error)(scope, receive, answer)
        finally:
            seconds = time.monotonic() - began
            route = scope.get("elmo.route", "other")
            self._service.metrics.requests.labels(route, status).inc()
            self._service.metrics.seconds.labels(route).observe(seconds)
            log.info("%s %s %d %.1f ms", scope["method"], route, status, 1000 * seconds)

    async def _handle(self, request: Request, receive: Receive, send: Send) -> None:
        self._check(request)
        if self._traffic.draining:
            await self._body(request, receive)  # a client that still sends might not read the answer
            raise QueueClosed
        self._traffic.begin()
        try:
            body = await self._body(request, receive)
            await _while_there(self._app(request.scope, _once(body), send), receive)
        finally:
            self._traffic.end()

    def _check(self, request: Request) -> None:
        """Raises HTTPException for a wrong host name or key, and for a body of two lengths."""
        headers = request.headers
        name = headers.get("host", "").lower()
        if (names := self._service.config.names) and PORT.sub("", name) not in names:
            raise HTTPException(
                421,
                "without a key this server accepts only local host names, such as localhost; start it with --no-auth",
            )
        # Not request.url.path: older versions of Starlette build it from the Host header.
        if self._key is not None and needs_key(request.method, request.scope["path"]):
            given = headers.get("authorization", "")
            scheme = BEARER.match(given)
            if scheme is None or not hmac.compare_digest(given[scheme.end() :].encode(), self._key.encode()):
                raise HTTPException(401, "the key is missing or wrong; send the header Authorization: Bearer KEY")
        if "content-length" in headers and "transfer-encoding" in headers:  # RFC 9112, 6.1: this may smuggle a request
            raise HTTPException(400, "the body has Content-Length and Transfer-Encoding; send one of them", CLOSE)

    async def _body(self, request: Request, receive: Receive) -> bytes:
        """Reads the whole body and unpacks it."""
        most = self._service.config.most_bytes
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > most:
            raise RequestTooLarge(
                f"the body has {int(announced):,} bytes; at most {most:,} are accepted: send fewer sentences"
            )
        try:
            body = await asyncio.wait_for(_whole(receive, most), self._service.config.sending)
        except TimeoutError as error:
            message = f"the body was incomplete after {self._service.config.sending:g} seconds; send it again"
            raise HTTPException(408, message, CLOSE) from error
        return _unpacked(body, request.headers.get("content-encoding", "").strip().lower(), most)


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
            raise RequestTooLarge(f"the body has more than the limit of {most:,} bytes: send fewer sentences")
    return b"".join(parts)


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Removes the encoding of the body, and unpacks no more than is accepted."""
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise HTTPException(415, f"content-encoding is {encoding[:40]!r}; gzip or none is expected")
    unpacking = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        unpacked = unpacking.decompress(body, most + 1)
    except zlib.error as error:
        raise HTTPException(400, f"content-encoding says gzip, but the body is none ({error})") from error
    if len(unpacked) > most:
        raise RequestTooLarge(f"the unpacked body has more than the limit of {most:,} bytes: send fewer sentences")
    if not unpacking.eof or unpacking.unused_data:
        raise HTTPException(400, "the body is not one whole gzip stream; send it again")
    return unpacked


def _once(body: bytes) -> Receive:
    """Hands on a body that has already been read."""

    async def whole() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return whole


async def _while_there(work: Awaitable[None], receive: Receive) -> None:
    """Runs the work, and cancels it if the client disconnects; then its vectors are not computed."""
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
