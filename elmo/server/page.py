"""The page of a server: `GET /` and its files. All are read when the server starts: no request's path opens a file."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from elmo import config
from elmo.formats.examples import PageExamples
from elmo.server.openapi import Route

FOLDER = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


FILES = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
OPEN = {"/", *(f"/static/{name}" for name in FILES)}
"""The paths that need no key; the page asks the user for it."""


def routes(examples: PageExamples | None) -> list[Route]:
    """Returns the routes of the page; OpenAPI omits them, since only the page needs them.

    `examples` take the place of the page's own, which are English.
    """
    files = dict(FILES)
    if examples is not None:
        files["examples.js"] = f"export const EXAMPLES = {json.dumps(config.to_dict(examples))};\n".encode()

    async def index(request: Request) -> Response:
        return _answer(request, "index.html", files)

    async def static(request: Request) -> Response:
        return _answer(request, request.path_params["name"], files)

    return [
        Route("GET", "/", index, shown=False),
        Route("GET", "/static/{name}", static, shown=False),
    ]


def _answer(request: Request, name: str, files: Mapping[str, bytes]) -> Response:
    """Answers with a file of the page, or with nothing if the client has it already."""
    if name not in files:
        raise HTTPException(404, "no such file; the page is at /")
    # The tag is weak, since a file and its compressed form share it.
    tag = f'W/"{hashlib.sha256(files[name]).hexdigest()[:16]}"'
    known = {each.strip() for each in request.headers.get("if-none-match", "").split(",")}
    headers = {"etag": tag, "cache-control": "no-cache"}  # another version of the server may answer next time
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(files[name], media_type=TYPES[Path(name).suffix], headers=headers)
