"""An HTTP server on this machine that misbehaves as told: `BadServer` counts requests and serves by path."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Resource:
    """What is served at one path, and how."""

    content: bytes
    ranges: bool = True
    """False: every answer is the whole file, with status 200."""
    etag: str | None = '"v1"'
    drop_after: list[int] = field(default_factory=list)
    """The first answers end after so many bytes, one entry an answer."""
    claimed_length: int | None = None
    """A Content-Length that is not true."""
    chunked: bool = False
    """No Content-Length."""
    failures: list[int] = field(default_factory=list)
    """The first answers have these statuses."""
    redirect: str | None = None
    checks_version: bool = True
    """False: a range of another version than asked for (`If-Range`) is sent as if it were the same."""
    wrong_range: bool = False
    """A request for a range is answered with another one."""
    requests: list[dict[str, str]] = field(default_factory=list)
    """The headers of every request so far."""
    on_request: Callable[["Resource"], None] = lambda resource: None


class BadServer:
    """`add` puts something at a path and returns its address."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.resources: dict[str, Resource] = {}

    def add(self, path: str, content: bytes, **how: object) -> str:
        self.resources[path] = Resource(content, **how)  # type: ignore[arg-type]
        return self.address + path

    def at(self, url: str) -> Resource:
        return self.resources[url.removeprefix(self.address)]


@contextmanager
def serving() -> Iterator[BadServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self, bad.resources.get(self.path))

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *arguments: object) -> None:
            """A client that hangs up is no error of the test."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    bad = BadServer(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield bad
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answer(handler: BaseHTTPRequestHandler, resource: Resource | None) -> None:
    handler.close_connection = True
    if resource is None:
        return status(handler, 404)
    resource.requests.append(dict(handler.headers))
    resource.on_request(resource)
    if resource.failures:
        return status(handler, resource.failures.pop(0))
    if resource.redirect is not None:
        handler.send_response(302)
        handler.send_header("Location", resource.redirect)
        handler.send_header("Content-Length", "0")
        return handler.end_headers()
    start = first_byte(handler, resource)
    if start is not None and start >= len(resource.content):
        handler.send_response(416)
        handler.send_header("Content-Range", f"bytes */{len(resource.content)}")
        handler.send_header("Content-Length", "0")
        return handler.end_headers()
    if start is not None and resource.wrong_range:
        start += 1
    return send(handler, resource, start)


def first_byte(handler: BaseHTTPRequestHandler, resource: Resource) -> int | None:
    """Where the answer begins; None where it is the whole file."""
    asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    same = handler.headers.get("If-Range") in (None, resource.etag) or not resource.checks_version
    return int(asked[1]) if asked and resource.ranges and same else None


def send(handler: BaseHTTPRequestHandler, resource: Resource, start: int | None) -> None:
    body = resource.content[start or 0 :]
    handler.send_response(200 if start is None else 206)
    if start is not None:
        last, total = len(resource.content) - 1, len(resource.content)
        handler.send_header("Content-Range", f"bytes {start}-{last}/{total}")
    if resource.etag is not None:
        handler.send_header("ETag", resource.etag)
    if resource.chunked:
        handler.send_header("Transfer-Encoding", "chunked")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    else:
        handler.send_header("Content-Length", str(resource.claimed_length or len(body)))
    handler.end_headers()
    handler.wfile.write(body[: resource.drop_after.pop(0)] if resource.drop_after else body)


def status(handler: BaseHTTPRequestHandler, code: int) -> None:
    handler.send_response(code)
    handler.send_header("Content-Length", "0")
    handler.end_headers()
