"""The application in this process: what a client's requests cannot do to the server, the key, or others."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.datastructures import URL
from starlette.requests import Request
from tiny import tiny_model

from elmo.formats import native
from elmo.server.app import create_app
from elmo.server.service import ServeConfig, Service
from elmo.text.tokenizer import TextConfig

KEY = "a-key-of-some-length"


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Service]:
    """With a tiny model, the English tokenizer, and small limits."""
    folder = tmp_path_factory.mktemp("service") / "model"
    native.save(replace(tiny_model(), text=TextConfig()), folder)
    service = Service(ServeConfig(str(folder)))
    model = threading.Thread(target=service.batcher.run)
    model.start()
    yield service
    service.batcher.close()
    model.join(10)


Asking = Callable[[httpx.AsyncClient], Any]


def asked(service: Service, asking: Asking, key: str | None = None) -> Any:
    """What `asking` returns, of a client of the application."""

    async def run() -> Any:
        transport = httpx.ASGITransport(create_app(service, key))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await asking(client)

    return asyncio.run(run())


def post(service: Service, path: str, body: object) -> httpx.Response:
    return asked(service, lambda client: client.post(path, json=body))


def test_the_path_of_older_starlettes_does_not_replace_the_key(service, monkeypatch):
    """They build `request.url` from the Host header, so that it may name another path than the routes see."""
    monkeypatch.setattr(Request, "url", URL("http://x/health?/info"))
    answer = asked(service, lambda client: client.get("/info", headers={"host": "x/health?"}), KEY)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
