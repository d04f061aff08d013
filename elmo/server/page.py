"""The page of a server: `GET /` and its files. All are read when the server starts: no request's path opens a file."""

import gzip
import hashlib
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from elmo.server.answers import takes_gzip
from elmo.server.openapi import Route

FOLDER = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FILES = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
ZIPPED = {name: gzip.compress(content, mtime=0) for name, content in FILES.items()}
TAGS = {name: f'W/"{hashlib.sha256(content).hexdigest()[:16]}"' for name, content in FILES.items()}
"""The entity tags, which are weak, since a file and its compressed form share one."""
OPEN = {"/", *(f"/static/{name}" for name in FILES)}
"""The paths that need no key; the page asks the user for it."""
FRESH = {"cache-control": "no-cache"}
"""Headers that make browsers revalidate, since another version of the server may answer next time."""


def routes() -> list[Route]:
    """The routes of the page; OpenAPI omits them, since only the page needs them."""

    async def index(request: Request) -> Response:
        return _file(request, "index.html")

    async def static(request: Request) -> Response:
        if (name := request.path_params["name"]) not in FILES:
            raise HTTPException(404, "no such file; the page is at /")
        return _file(request, name)

    return [
        Route("GET", "/", index, shown=False),
        Route("GET", "/static/{name}", static, shown=False),
    ]


def _file(request: Request, name: str) -> Response:
    """Answers with a file of the page, compressed if the client accepts it, and empty if the client has it already."""
    tag = TAGS[name]
    headers = FRESH | {"etag": tag, "vary": "accept-encoding"}
    known = {each.strip() for each in request.headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    content = FILES[name]
    if takes_gzip(request.headers.get("accept-encoding", "")):
        content, headers = ZIPPED[name], headers | {"content-encoding": "gzip"}
    return Response(content, media_type=TYPES[Path(name).suffix], headers=headers)
