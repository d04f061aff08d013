"""The answers to errors: each is one JSON object that names the remedy, in the format of the called API."""

import logging
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from elmo.errors import InputError, in_one_line
from elmo.server.answers import NotAcceptable, json_response
from elmo.server.batching import QueueClosed, QueueFull

log = logging.getLogger("elmo.server")
MOST_CHARACTERS = 500
"""The most characters of a message; a longer one may quote what was sent, so its middle is cut out."""


class InvalidBody(Exception):
    """A body has other fields or types than its route; the message says where."""


class RequestTooLarge(Exception):
    """A request exceeds a limit; the message says which."""


class RequestTimedOut(Exception):
    """A request was not answered in time."""


class EmptyRequest(InputError):
    """A request has no inputs."""


class ErrorResponse(msgspec.Struct):
    """The answer to an error, except on /v1, where it has OpenAI's format."""

    error: str
    error_type: str


class OpenAIError(msgspec.Struct):
    """An error, as in OpenAI's API."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIErrorResponse(msgspec.Struct):
    """The answer to an error on /v1."""

    error: OpenAIError


Row = tuple[int, str, str, dict[str, str]]
ERRORS: dict[type[Exception], Row] = {
    InvalidBody: (422, "Validation", "", {}),
    EmptyRequest: (400, "Empty", "", {}),
    InputError: (400, "Validation", "", {}),
    RequestTooLarge: (413, "Validation", "", {}),
    NotAcceptable: (406, "Validation", "", {}),
    QueueFull: (429, "Overloaded", "too many requests wait already; try again in a second", {"retry-after": "1"}),
    QueueClosed: (503, "Unhealthy", "the server is shutting down; try another one", {"retry-after": "10"}),
    RequestTimedOut: (
        504,
        "Backend",
        "no answer in time; send fewer sentences, or try again when there is less to do",
        {},
    ),
}
"""The status, the error type of text-embeddings-inference, the message (if empty, the error's own) and the headers."""
OPENAI = {401: ("invalid_request_error", "invalid_api_key"), 404: ("invalid_request_error", "model_not_found")} | {
    429: ("rate_limit_error", "rate_limit_exceeded")
}
"""OpenAI's types and codes of some statuses; other statuses have none of their own."""
NO_ROUTE = "Not Found"
"""Starlette's message for a path without a route."""


def is_of_openai(path: str) -> bool:
    """Returns whether the errors of a path have OpenAI's format."""
    return path.startswith("/v1/")


async def handle_error(request: Request, error: Exception) -> Response:
    """Answers an error of a route. It is a coroutine, since plain functions would run in threads, which stay."""
    return error_response(request, error)


def error_response(request: Request, error: Exception) -> Response:
    """Returns the response to an error, in the format of the called API."""
    status, kind, message, headers = _explained(error)
    if status == 500:
        log.exception("an error in %s", request.scope["path"], exc_info=error)
    if len(message) > MOST_CHARACTERS:
        message = f"{message[: MOST_CHARACTERS // 2]} ... {message[-MOST_CHARACTERS // 2 :]}"
    if is_of_openai(request.scope["path"]):
        own, code = OPENAI.get(status, ("invalid_request_error" if status < 500 else "server_error", None))
        code = None if isinstance(error, HTTPException) and error.detail == NO_ROUTE else code
        content: Any = {"error": {"message": message, "type": own, "param": None, "code": code}}
    else:
        content = {"error": message, "error_type": kind}
    return json_response(content, status, headers)


def _explained(error: Exception) -> Row:
    if isinstance(error, HTTPException):
        headers = {"www-authenticate": "Bearer"} if error.status_code == 401 else dict(error.headers or {})
        return error.status_code, "Validation", _remedy(error), headers
    for kind, (status, name, message, headers) in ERRORS.items():
        if isinstance(error, kind):
            return status, name, message or in_one_line(error), headers
    return 500, "Backend", "an error of the server, which is in its log; the request can be sent again", {}


def _remedy(error: HTTPException) -> str:
    """Returns the message of an error; for Starlette's own errors, it says what to do."""
    if error.detail == NO_ROUTE:
        return "no such route; /docs lists all of them"
    if error.status_code == 405:
        methods = sorted((error.headers or {}).get("Allow", "POST").split(", "))
        return f"this route has another method; send {', '.join(methods)}"
    return str(error.detail)
