"""The page of a server: `GET /`, its files, and the figures of results. All are read when the server starts, so a
request's path never opens a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import Response

from elmo.server.answers import json_response

FOLDER = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FILES = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
OPEN = {"/", *(f"/static/{name}" for name in FILES)}
"""Paths that need no key; the page asks the user for it."""
FRESH = {"cache-control": "no-cache"}
"""Makes browsers revalidate, since another version of the server may answer next time."""


@dataclass(frozen=True)
class Picture:
    """A figure of results, as SVG."""

    name: str
    """Unique; lower-case letters, digits and hyphens."""
    section: str
    caption: str
    alt: str
    """Alternative text."""
    light: bytes
    """For a light page."""
    dark: bytes


def router(pictures: Sequence[Picture] = ()) -> APIRouter:
    """The routes of one server's page; OpenAPI omits them, since only the page needs them."""
    routes = APIRouter(include_in_schema=False)
    drawn = {picture.name: picture for picture in pictures}

    @routes.head("/")
    @routes.get("/")
    async def index() -> Response:
        return _file("index.html")

    @routes.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in FILES:
            raise HTTPException(404, "no such file; the page is at /")
        return _file(name)

    @routes.get("/figures")
    async def figures() -> Response:
        shown = ("name", "section", "caption", "alt")
        return json_response([{part: getattr(picture, part) for part in shown} for picture in pictures])

    @routes.get("/figures/{name}/{scheme}")
    async def figure(name: str, scheme: Literal["light", "dark"]) -> Response:
        if name not in drawn:
            raise HTTPException(404, "no such figure; /figures lists them")
        return Response(getattr(drawn[name], scheme), media_type=TYPES[".svg"], headers=FRESH)

    return routes


def _file(name: str) -> Response:
    return Response(FILES[name], media_type=TYPES[Path(name).suffix], headers=FRESH)
