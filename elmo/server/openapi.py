"""The routes as data, from which the application and /openapi.json are made."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette import routing
from starlette.requests import Request
from starlette.responses import Response

from elmo import __version__
from elmo.server.answers import JSON, compressed_response
from elmo.server.bodies import body_schemas, decode_body
from elmo.server.errors import ErrorResponse, InvalidBody, OpenAIErrorResponse, RequestTimedOut, is_of_openai

Answer = Callable[..., Awaitable[Response]]
"""A route's function: it takes the request, and the decoded body if the route has one."""
Endpoint = Callable[[Request], Awaitable[Response]]
"""A function of Starlette, which takes only the request."""


@dataclass(frozen=True)
class Route:
    """A route, whose description is the docstring of `answer`."""

    method: str
    path: str
    answer: Answer
    body: type[msgspec.Struct] | None = None
    types: tuple[str, ...] = (JSON,)
    """The media types of the answer."""
    shown: bool = True
    """Whether /openapi.json and /docs list the route."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """A working value for each parameter of the path."""

    @property
    def template(self) -> str:
        """The path as OpenAPI writes it: `{model}` where Starlette has `{model:path}`."""
        return re.sub(r":\w+}", "}", self.path)


def starlette_routes(routes: Sequence[Route], timeout: float) -> list[routing.Route]:
    """Converts the routes to those of Starlette, whose answers take at most `timeout` seconds.

    All methods of a path are one route of Starlette, which names them in its error 405.
    """
    by_path: dict[str, dict[str, Endpoint]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = _endpoint(route, timeout)
    return [routing.Route(path, _by_method(methods), methods=list(methods)) for path, methods in by_path.items()]


def _by_method(endpoints: Mapping[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


def _endpoint(route: Route, timeout: float) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        request.scope["elmo.route"] = route.template
        if route.body is None:
            return compressed_response(await route.answer(request), request.headers.get("accept-encoding", ""))
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON and not kind.endswith("+json"):  # a form of another site can send such a body without asking
            raise InvalidBody(
                "the header content-type is not application/json; send it with the body, as curl's -H does"
            )
        body = decode_body(await request.body(), route.body)
        try:
            async with asyncio.timeout(timeout):
                return await route.answer(request, body)
        except TimeoutError as error:
            raise RequestTimedOut from error

    return endpoint


def openapi_document(routes: Sequence[Route], needs_key: Callable[[str, str], bool]) -> dict[str, Any]:
    """Returns the content of /openapi.json; `needs_key` says of a method and a path whether they need the key."""
    shown = [route for route in routes if route.shown]
    bodies = [route.body for route in shown if route.body]
    components: dict[str, Any] = {"schemas": body_schemas([*bodies, ErrorResponse, OpenAIErrorResponse])}
    paths: dict[str, dict[str, Any]] = {}
    for route in shown:
        operation = paths.setdefault(route.template, {})[route.method.lower()] = _operation(route)
        if needs_key(route.method, route.path):
            operation["security"] = [{"key": []}]
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    about = {"title": "elmo", "version": __version__}
    return {"openapi": "3.1.0", "info": about, "paths": paths, "components": components}


def _operation(route: Route) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "the answer", "content": {kind: {} for kind in route.types}}
    error = _reference(OpenAIErrorResponse if is_of_openai(route.path) else ErrorResponse)
    problem = {"description": "an error and its remedy", "content": {JSON: {"schema": error}}}
    operation_id = f"{route.method.lower()}_{re.sub('[{}]', '', route.template.strip('/')).replace('/', '_')}"
    told = " ".join((route.answer.__doc__ or "").split())
    responses = {"200": good, "default": problem}
    operation: dict[str, Any] = {"operationId": operation_id, "description": told, "responses": responses}
    operation["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "example": route.examples[name]}
        for name in re.findall("{(.*?)}", route.template)
    ]
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _reference(route.body)}}}
    return operation


def _reference(kind: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
