"""The application in this process: what a client's requests cannot do to the server, the key, or others."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from served import asked, running_service
from starlette.datastructures import URL
from starlette.requests import Request
from tiny import tiny_model

import elmo
from elmo.embedding.texts import SplitText
from elmo.formats import native
from elmo.search import nearest
from elmo.search.index import Index, Query
from elmo.server.answers import ARROW, NPY, NPZ, NotAcceptable, preferred_type
from elmo.server.answers import JSON as JSON_TYPE
from elmo.server.batching import Batcher, QueueFull
from elmo.server.service import ServeConfig, Service
from elmo.text.tokenizer import WHITESPACE, TextConfig, Tokenizer

KEY = "a-key-of-some-length"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Service]:
    """With a tiny model, the English tokenizer, and small limits."""
    model = replace(tiny_model(), text=TextConfig())
    with running_service(tmp_path_factory.mktemp("service") / "model", model) as service:
        yield service


def post(service: Service, path: str, body: object) -> httpx.Response:
    return asked(service, lambda client: client.post(path, json=body))


def test_the_path_of_older_starlettes_does_not_replace_the_key(service, monkeypatch):
    """They build `request.url` from the Host header, so that it may name another path than the routes see."""
    monkeypatch.setattr(Request, "url", URL("http://x/health?/info"))
    answer = asked(service, lambda client: client.get("/info", headers={"host": "x/health?"}), KEY)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


class Slow(Tokenizer):
    """A tokenizer that goes on only when it may, and never ends by itself."""

    def __init__(self) -> None:
        super().__init__(WHITESPACE)
        self.go, self.parts_read = threading.Event(), 0

    def parts(self, line: str) -> Iterator[list[str]]:
        while True:
            assert self.go.wait(30), "others should have been answered"
            self.parts_read += 1
            yield ["("] * 1000


def test_others_are_answered_while_a_text_is_tokenized_which_ends_at_the_limit(service, monkeypatch):
    slow = Slow()
    monkeypatch.setattr(service, "tokenizer", slow)

    async def asking(client: httpx.AsyncClient) -> tuple[httpx.Response, httpx.Response]:
        waiting = asyncio.ensure_future(client.post("/v1/embeddings", json={"input": "( " * 5000}))
        other = await client.get("/health")
        slow.go.set()
        return other, await waiting

    other, answer = asked(service, asking)
    assert other.status_code == 200
    assert answer.status_code == 413
    assert answer.json()["error"]["message"] == "more than the limit of 32,768 tokens: send fewer"
    assert slow.parts_read == 33


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "a \ud800"}),
        ("/embed", {"inputs": ["a", "\udc00\ud800"]}),
        ("/vectors", {"sentences": ["a"], "\ud800": 1}),
        ("/vectors", {"sentences": ["a"], "layers": "\ud800"}),
    ],
)
def test_half_a_character_is_refused(service, path, body):
    answer = asked(service, lambda client: client.post(path, content=json.dumps(body), headers=JSON))
    assert answer.status_code == 422
    assert "surrogate" in answer.text


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"layers": [1e308, 1e308, 1e308]}, "finite weights"),
        ({"layers": [1e5, 1e5, 1e5], "pool": "sum", "dtype": "float16"}, "range of float16"),
    ],
)
def test_vectors_that_their_type_cannot_hold_are_refused(service, body, word):
    answer = post(service, "/vectors", {"sentences": ["She wrote a play ."]} | body)
    assert answer.status_code == 400
    assert word in answer.json()["error"]


def test_a_long_text_is_cut_where_that_is_asked_for(service, monkeypatch):
    monkeypatch.setattr(service, "config", replace(service.config, most_tokens=5))
    text = "one two three four five"
    refused = post(service, "/embed", {"inputs": text})
    assert (refused.status_code, refused.json()["error_type"]) == (413, "Validation")
    for direction, kept in (("Right", "one two three"), ("left", "three four five")):
        given = {"inputs": text, "truncate": True, "truncation_direction": direction}
        assert post(service, "/embed", given).json() == post(service, "/embed", {"inputs": kept}).json()


@pytest.mark.parametrize(("direction", "kept"), [("Right", "a . b ."), ("left", "b . c d")])
def test_a_text_that_is_cut_has_the_sentences_that_are_left(service, monkeypatch, direction, kept):
    monkeypatch.setattr(service, "config", replace(service.config, most_tokens=6))
    monkeypatch.setattr(service, "tokenizer", Tokenizer(replace(WHITESPACE, sentences="rule")))
    given = {"inputs": "a . b . c d", "truncate": True, "truncation_direction": direction}
    two = SplitText("", tuple(kept.split()), None, ((0, 2), (2, 4)))
    vectors = service.embedder.embed([two], "average", "mean")
    answer = post(service, "/embed", given | {"normalize": False})
    np.testing.assert_allclose(answer.json(), np.stack(vectors), atol=1e-5)


def test_bodies_may_be_gzip(service):
    body = json.dumps({"inputs": ["a b"] * 300, "normalize": False}).encode()
    packed = gzip.compress(body)

    def sent(content: bytes, encoding: str) -> httpx.Response:
        headers = JSON | {"content-encoding": encoding, "accept-encoding": "gzip"}
        return asked(service, lambda client: client.post("/embed", content=content, headers=headers))

    answer = sent(packed, "gzip")
    assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip")
    for content in (body, packed[:-9], packed + packed):
        assert sent(content, "gzip").status_code == 400
    assert sent(body, "br").status_code == 415
    large = sent(gzip.compress(b" " * 5_000_000), "gzip")
    assert (large.status_code, "unpacked" in large.json()["error"]) == (413, True)


def test_answers_of_all_routes_are_compressed(service):
    pair = {"inputs": {"source_sentence": "a", "sentences": ["b"] * 300}}
    gets = [
        asked(service, lambda client, path=path: client.get(path)) for path in ("/docs", "/metrics", "/openapi.json")
    ]
    for answer in (post(service, "/similarity", pair), *gets):
        assert len(answer.content) > 1000
        assert answer.headers["content-encoding"] == "gzip", answer.url
        assert answer.headers["vary"].lower() == "accept-encoding"
    plain = asked(service, lambda client: client.get("/docs", headers={"accept-encoding": "identity"}))
    assert "content-encoding" not in plain.headers
    assert plain.text == gets[0].text


def test_an_error_names_all_methods_of_a_path(service):
    answer = asked(service, lambda client: client.delete("/"))
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert "GET, HEAD, POST" in answer.json()["error"]
    assert asked(service, lambda client: client.head("/")).status_code == 200


def test_files_of_the_page_are_sent_once(service):
    first = asked(service, lambda client: client.get("/static/main.js", headers={"accept-encoding": "gzip"}))
    assert (first.status_code, first.headers["content-encoding"]) == (200, "gzip")
    known = {"if-none-match": first.headers["etag"]}
    again = asked(service, lambda client: client.get("/static/main.js", headers=known))
    assert (again.status_code, again.content) == (304, b"")
    plain = asked(service, lambda client: client.get("/static/main.js", headers={"accept-encoding": "gzip;q=0"}))
    assert plain.text == first.text
    assert "content-encoding" not in plain.headers


def test_boundaries_count_and_as_much_as_the_limit_is_answered(service, monkeypatch):
    monkeypatch.setattr(service, "config", replace(service.config, most_sentences=2, most_tokens=10))
    for lengths, status in (((3, 3), 200), ((3, 4), 413), ((8,), 200), ((9,), 413), ((1, 1, 1), 413)):
        sentences = [["a"] * length for length in lengths]
        assert post(service, "/vectors", {"sentences": sentences}).status_code == status, lengths


class Asked(Index):
    """An index that was read with echo; it says what it was asked."""

    def __init__(self) -> None:
        self.record = SimpleNamespace(state="echo")  # type: ignore[assignment]

    def layer(self, layer: int | None = None) -> int:
        return 1

    def nearest(self, query: Query, *choices: Any) -> list[nearest.Neighbor]:  # type: ignore[override]
        self.vector, self.choices = query.vector, choices
        return []


def test_neighbours_are_sought_as_the_index_was_read(service, monkeypatch):
    index = Asked()
    monkeypatch.setattr(service, "index", index)
    body = {"sentence": ["a", "b"], "position": 1, "k": 3, "any_word": True}
    assert post(service, "/neighbors", body).status_code == 200
    assert index.choices == (1, 3, False)
    by_state = [
        nearest.query_vectors(service.embedders[state], [(["a", "b"], 1)], [1])[0, 0] for state in ("echo", "reset")
    ]
    assert np.allclose(index.vector, by_state[0])
    assert not np.allclose(index.vector, by_state[1])


def test_no_more_numbers_in_json_than_the_limit(service, monkeypatch):
    """Of a sentence of 5 tokens, 3 layers and 8 dimensions."""
    monkeypatch.setattr(service, "config", replace(service.config, most_numbers=40))
    sentences, text = [["a"] * 5], "a a a a a"
    for path, body, status in (
        ("/vectors", {"sentences": sentences, "layers": "average"}, 200),
        ("/vectors", {"sentences": sentences, "layers": "concat", "pool": "mean"}, 200),
        ("/vectors", {"sentences": sentences}, 413),
        ("/vectors", {"sentences": sentences * 2, "layers": 0}, 413),
        ("/vectors", {"sentences": sentences * 2, "layers": "all", "pool": "max"}, 413),
        ("/embed_all", {"inputs": text}, 200),
        ("/embed_all", {"inputs": [text, "a"]}, 413),
        ("/embed", {"inputs": ["a"] * 5}, 200),
        ("/v1/embeddings", {"input": ["a"] * 6}, 413),
    ):
        answer = post(service, path, body)
        assert answer.status_code == status, (path, body, answer.text)
        assert ("at most 40 are accepted" in answer.text) == (status == 413)
    answer = asked(
        service,
        lambda client: client.post("/vectors", json={"sentences": sentences}, headers={"accept": "application/x-npz"}),
    )
    assert answer.status_code == 200


def test_only_tokens_of_accepted_requests_are_counted(service, monkeypatch):
    def counted() -> float:
        return service.metrics.registry.get_sample_value("elmo_tokens_total")

    before, body = counted(), {"sentences": [["a"] * 5]}
    with monkeypatch.context() as small:
        small.setattr(service, "config", replace(service.config, most_numbers=40))
        assert post(service, "/vectors", body).status_code == 413

    def full(*_: Any) -> None:
        raise QueueFull

    with monkeypatch.context() as busy:
        busy.setattr(service.batcher, "submit", full)
        assert post(service, "/vectors", body).status_code == 429
    assert counted() == before
    assert post(service, "/vectors", body).status_code == 200
    assert counted() == before + 5


def test_the_length_of_the_queue_is_among_the_metrics(service, monkeypatch):
    monkeypatch.setattr(Batcher, "waiting", 7)
    assert service.metrics.registry.get_sample_value("elmo_queue_tokens") == 7


def test_what_is_not_answered_in_time_is_given_up(service, monkeypatch):
    never: Future = Future()
    monkeypatch.setattr(service.batcher, "submit", lambda *_: never)
    monkeypatch.setattr(service, "config", replace(service.config, timeout=0.2))
    answer = post(service, "/embed", {"inputs": "a"})
    assert (answer.status_code, answer.json()["error_type"]) == (504, "Backend")
    assert never.cancelled()


def test_the_time_of_a_request_is_that_of_all_its_steps(service, monkeypatch):
    """Each step of tokenizing is short, but there are many."""

    class Long(Tokenizer):
        def parts(self, line: str) -> Iterator[list[str]]:
            for _ in range(100):
                time.sleep(0.01)
                yield []

    monkeypatch.setattr(service, "tokenizer", Long(WHITESPACE))
    monkeypatch.setattr(service, "config", replace(service.config, timeout=0.2))
    assert post(service, "/embed", {"inputs": "a"}).status_code == 504


def test_an_error_of_the_server_itself_is_in_its_log_alone(service, monkeypatch, caplog):
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(service.batcher, "submit", broken)
    for path, body in (("/embed", {"inputs": "a"}), ("/v1/embeddings", {"input": "a"})):
        caplog.clear()
        answer = post(service, path, body)
        assert (answer.status_code, "secret" in answer.text, "log" in answer.text) == (500, False, True)
        assert "a secret" in caplog.text


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("", JSON_TYPE),
        ("*/*", JSON_TYPE),
        (f"text/csv, {NPZ}", NPZ),
        (f"{NPZ}, {NPY}", NPZ),
        (f"{NPZ};q=0.5, {NPY}", NPY),
        (f"{NPZ} ; Q=0.50 , */*; q=0.9", JSON_TYPE),
        (f"{JSON_TYPE};q=0, {ARROW}", ARROW),
        (f"{JSON_TYPE};q=0, */*", NPY),
        (f"{NPZ};q=much,", NPZ),
        ("*/*;q=0", None),
        (f"{NPZ};q=0.000", None),
    ],
)
def test_the_type_that_the_client_prefers(header, kind):
    if kind is not None:
        assert preferred_type(header) == kind
        return
    with pytest.raises(NotAcceptable):
        preferred_type(header)


def test_a_body_that_is_not_announced_as_json_is_told_the_header(service):
    """As curl sends it without -H."""
    form, body = {"content-type": "application/x-www-form-urlencoded"}, json.dumps({"sentences": ["a"]})
    answer = asked(service, lambda client: client.post("/vectors", content=body, headers=form))
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("the header content-type is not application/json")


@pytest.mark.parametrize(
    ("card", "text", "language", "tokens"),
    [
        ({}, None, None, "whitespace"),
        ({}, TextConfig(language="de"), "de", "spacy"),
        ({"language": "pt-BR"}, TextConfig("whitespace"), "pt-BR", "whitespace"),
        ({"language": "German"}, None, None, "whitespace"),
        ({"language": "German"}, TextConfig(language="de"), "de", "spacy"),
        ({"language": ["de", "fr"]}, TextConfig(language="xx"), None, "spacy"),
    ],
)
def test_info_says_how_the_model_reads_text(tmp_path, card, text, language, tokens):
    with running_service(tmp_path / "model", replace(tiny_model(), card=card, text=text)) as service:
        info = asked(service, lambda client: client.get("/info")).json()["elmo"]
    assert (info["language"], info["tokens"]) == (language, tokens)


@pytest.mark.parametrize("precision", ["bfloat16", "int8", "int8-weights"])
@pytest.mark.filterwarnings("ignore:precision")  # of processors that are faster with float32, which is used
def test_vectors_have_the_precision_that_was_asked_for(tmp_path, precision):
    native.save(tiny_model(), tmp_path / "model")
    service = Service(ServeConfig(str(tmp_path / "model"), precision=precision))
    bare = elmo.load(tmp_path / "model", device="cpu", precision=precision)
    for state, embedder in service.embedders.items():
        options: dict[str, Any] = {"precision": bare.precision, "state": state}
        expected = elmo.Embedder(bare.bilm, device="cpu", **options)
        assert embedder.precision == expected.precision
        found = embedder.embed([["a", "b"]], "average", "mean")
        np.testing.assert_array_equal(found, expected.embed([["a", "b"]], "average", "mean"))
    info = asked(service, lambda client: client.get("/info")).json()
    assert info["model_dtype"] == bare.precision
