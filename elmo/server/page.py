"""The page of a server: `GET /` and its files. All are read when the server starts: no request's path opens a file."""

from pathlib import Path

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import Response

FOLDER = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FILES = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
OPEN = {"/", *(f"/static/{name}" for name in FILES)}
"""Paths that need no key; the page asks the user for it."""
FRESH = {"cache-control": "no-cache"}
"""Makes browsers revalidate, since another version of the server may answer next time."""


def router() -> APIRouter:
    """The routes of one server's page; OpenAPI omits them, since only the page needs them."""
    routes = APIRouter(include_in_schema=False)

    @routes.head("/")
    @routes.get("/")
    async def index() -> Response:
        return _file("index.html")

    @routes.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in FILES:
            raise HTTPException(404, "no such file; the page is at /")
        return _file(name)

    return routes


def _file(name: str) -> Response:
    return Response(FILES[name], media_type=TYPES[Path(name).suffix], headers=FRESH)
