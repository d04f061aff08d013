"""What a server says about its routes: examples that work, a page of commands that work, errors as they are."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from command import printed
from served import Served, start, stop

from elmo.cli.arguments import DEMO_TEXT
from elmo.server.reference import reference_page

KEY = "a-key-of-some-length"
ROUTES = {"/", "/vectors", "/embed", "/embed_all", "/similarity", "/tokenize", "/v1/embeddings"}
ROUTES |= {"/score", "/substitutes", "/neighbors", "/uses"}
RIGHT = {"authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Served]:
    """With all that there is: a softmax, an index, a key."""
    folder = tmp_path_factory.mktemp("reference")
    printed("index", str(DEMO_TEXT), "--output", str(folder / "index"))
    served = start(folder / "log", "--index", str(folder / "index"), ELMO_API_KEY=KEY)
    yield served
    stop(served)


@pytest.fixture(scope="module")
def description(server) -> dict:
    return httpx.get(server.url + "/openapi.json", headers=RIGHT).json()


def test_errors_are_described_as_they_are(server, description):
    schemas = description["components"]["schemas"]

    def told(schema: dict, answer: Any) -> None:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
        assert set(answer) == set(schema["required"]) == set(schema["properties"])
        for name, field in schema["properties"].items():
            if "$ref" in field:
                told(field, answer[name])

    for path in ROUTES:
        responses = description["paths"][path]["post"]["responses"]
        assert set(responses) == {"200", "default"}
        error = responses["default"]["content"]["application/json"]["schema"]
        told(error, server.post(path, {}, headers=RIGHT).json())
    types = description["paths"]["/vectors"]["post"]["responses"]["200"]["content"]
    for kind in types:
        asked = {"sentences": ["a b"], "pool": "mean"}
        answer = server.post("/vectors", asked, headers=RIGHT | {"accept": kind})
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)


def test_the_key_is_described_where_it_is_needed(server, description):
    assert description["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}
    keyless = set()
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            answer = httpx.request(method, server.url + path)
            assert ("security" in route) == (answer.status_code == 401), path
            if "security" not in route:
                keyless.add(path)
    assert keyless == {"/health", "/ping"}


def test_the_commands_of_the_page_work(server):
    """All examples of bodies are among them."""
    page = httpx.get(server.url + "/docs").text  # in a browser, which has no key
    commands = [unescape(each) for each in re.findall("<pre>(.*?)</pre>", page, re.DOTALL)]
    assert {urlsplit(command.split()[2]).path for command in commands if " -d " in command} == ROUTES
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, env=os.environ | {"ELMO_API_KEY": KEY}, check=True
        )
        assert done.stdout, command
        assert b'"error"' not in done.stdout, command
        if not command.split()[2].endswith("/metrics"):
            json.loads(done.stdout)


def test_the_page_is_whole_and_loads_nothing_from_elsewhere(server):
    loaded, opened = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            loaded.extend(value for name, value in attrs if name in ("src", "href"))
            if tag not in ("meta", "link"):
                opened.append(tag)

        def handle_endtag(self, tag):
            assert opened.pop() == tag

    page = httpx.get(server.url + "/docs")
    Reader().feed(page.text)
    assert opened == []
    assert sorted(loaded) == ["/docs.css", "/openapi.json"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert httpx.get(server.url + "/docs.css").headers["content-type"].startswith("text/css")


def test_an_address_that_is_none_stays_text(description):
    """Older versions of Starlette take it from the Host header."""
    assert "<script" not in reference_page(description, "http://x';<script>/", key=False)
