"""The page of a server: `GET /` and its files. All are read when the server starts: no request's path opens a file."""

import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from elmo import config
from elmo.formats.examples import PageExamples
from elmo.server.answers import takes_gzip
from elmo.server.openapi import Route

FOLDER = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class _File(NamedTuple):
    """A file of the page, as it is sent."""

    content: bytes
    zipped: bytes
    tag: str
    """The entity tag, which is weak, since a file and its compressed form share it."""

    @classmethod
    def of(cls, content: bytes) -> "_File":
        return cls(content, gzip.compress(content, mtime=0), f'W/"{hashlib.sha256(content).hexdigest()[:16]}"')


FILES = {path.name: _File.of(path.read_bytes()) for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
OPEN = {"/", *(f"/static/{name}" for name in FILES)}
"""The paths that need no key; the page asks the user for it."""
FRESH = {"cache-control": "no-cache"}
"""Headers that make browsers revalidate, since another version of the server may answer next time."""


def routes(examples: PageExamples | None) -> list[Route]:
    """Returns the routes of the page; OpenAPI omits them, since only the page needs them.

    `examples` take the place of the page's own, which are English.
    """
    files = dict(FILES)
    if examples is not None:
        files["examples.js"] = _File.of(f"export const EXAMPLES = {json.dumps(config.to_dict(examples))};\n".encode())

    async def index(request: Request) -> Response:
        return _answer(request, "index.html", files)

    async def static(request: Request) -> Response:
        return _answer(request, request.path_params["name"], files)

    return [
        Route("GET", "/", index, shown=False),
        Route("GET", "/static/{name}", static, shown=False),
    ]


def _answer(request: Request, name: str, files: Mapping[str, _File]) -> Response:
    """Answers with a file of the page, compressed if the client accepts it, and empty if the client has it already."""
    if name not in files:
        raise HTTPException(404, "no such file; the page is at /")
    file = files[name]
    headers = FRESH | {"etag": file.tag, "vary": "accept-encoding"}
    known = {each.strip() for each in request.headers.get("if-none-match", "").split(",")}
    if file.tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    content = file.content
    if takes_gzip(request.headers.get("accept-encoding", "")):
        content, headers = file.zipped, headers | {"content-encoding": "gzip"}
    return Response(content, media_type=TYPES[Path(name).suffix], headers=headers)
