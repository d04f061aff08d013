"""One request can neither stop the others nor take more than its share: bodies to refuse, long work, shutting down."""

import asyncio
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
import torch
from served import Served, asked, running_service, start_tiny, stop
from tiny import tiny_model

import elmo
from elmo.pretraining.scoring import Scorer
from elmo.server import bodies
from elmo.server.batching import ClientGone
from elmo.server.service import Service

SIZE = 3_900_000
KINDS = {"/vectors": bodies.Vectors, "/embed": bodies.Embed, "/v1/embeddings": bodies.Embeddings, "/": bodies.Root}


def many(begin: bytes, part: bytes, end: bytes = b"]}") -> bytes:
    """A body of as many parts as the limit allows."""
    return begin + b",".join([part] * ((SIZE - 100) // (len(part) + 1))) + end


ATTACKS = {
    "floats": ("/v1/embeddings", many(b'{"input": [', b"1.5")),
    "token ids": ("/v1/embeddings", many(b'{"input": [', b"1")),
    "lists of token ids": ("/v1/embeddings", many(b'{"input": [', b"[1,1]")),
    "numbers": ("/embed", many(b'{"inputs": [', b"1")),
    "lists of numbers": ("/vectors", many(b'{"sentences": [', b"[1,1]")),
    "short lists": ("/vectors", many(b'{"sentences": [', b'["a"]')),
    "tokens": ("/vectors", many(b'{"sentences": [[', b'"a"', b"]]}")),
    "tokens and a number": ("/vectors", many(b'{"sentences": [[', b'"a"', b",1]]}")),
    "texts": ("/", many(b'{"inputs": [', b'"a"')),
    "weights": ("/vectors", many(b'{"sentences": ["a"], "layers": [', b"1e5")),
    "names": ("/vectors", many(b'{"sentences": ["a"], "layers": [', b'"a"')),
    "a name": ("/vectors", b'{"sentences": ["a"], "layers": "' + b"a" * SIZE + b'"}'),
    "unknown keys": ("/vectors", many(b'{"sentences": ["a"], ', b'"key": 1', b"}")),
    "ignored keys": ("/embed", many(b'{"inputs": "a", ', b'"key": [1]', b"}")),
    "depth": ("/vectors", b'{"sentences": ' + b"[" * SIZE),
    "depth of what is ignored": ("/embed", b'{"inputs": "a", "x": ' + b'{"a":' * (SIZE // 5)),
    "a long number": ("/vectors", b'{"sentences": ["a"], "layers": ' + b"9" * SIZE + b"}"),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("attacks") / "model", tiny_model()) as service:
        yield service


@pytest.mark.parametrize("name", ATTACKS)
def test_no_body_holds_the_event_loop(service, name):
    """The processor's time in the loop's thread, to which no other process adds; the best of three."""
    path, body = ATTACKS[name]
    seconds = []

    async def asking(client: httpx.AsyncClient) -> httpx.Response:
        began = time.thread_time()
        answer = await client.post(path, content=body, headers={"content-type": "application/json"})
        seconds.append(time.thread_time() - began)
        return answer

    for _ in range(3):
        answer = asked(service, asking)
        assert answer.status_code in (400, 413, 422), answer.text
        assert len(answer.content) < 1000
        if min(seconds) < 0.2:
            return
    raise AssertionError(f"{min(seconds):.2f} s")


# Long work


def test_long_sentences_and_many_are_read_in_steps_with_the_same_result():
    model = tiny_model()
    calls = []
    stepping = elmo.Embedder(model.bilm(), device="cpu", batch_tokens=64, between=lambda: calls.append(1))
    plain = elmo.Embedder(model.bilm(), device="cpu")
    for sentences in ([["a", "b", "c"] * 400], [["a", "b"]] * 300):
        calls.clear()
        found = stepping.embed(sentences)
        assert len(calls) > 3
        for seen, expected in zip(found, plain.embed(sentences), strict=True):
            torch.testing.assert_close(torch.tensor(seen), torch.tensor(expected), rtol=0, atol=1e-5)


def test_a_reading_ends_when_nobody_waits_for_it():
    def gone() -> None:
        raise ClientGone

    embedder = elmo.Embedder(tiny_model().bilm(), device="cpu", batch_tokens=64, between=gone)
    with pytest.raises(ClientGone):
        embedder.embed([["a"] * 1000])
    assert len(embedder.embed([["a"]])) == 1


def test_long_sentences_are_scored_in_steps_with_the_same_result(monkeypatch):
    from brute_force import random_model

    model, calls = random_model(), []
    sentences = [["oak", "elm", "pine"] * 20, ["ash"], [], ["oak"] * 7]
    expected = list(Scorer(model).score(sentences))
    for name in ("STEPS", "WORDS", "SOFTMAX_ROWS"):
        monkeypatch.setattr(f"elmo.pretraining.scoring.{name}", 2)
    found = list(Scorer(model, between=lambda: calls.append(1)).score(sentences))
    assert len(calls) > 60
    for seen, one in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.tensor(seen.forward), torch.tensor(one.forward), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(torch.tensor(seen.backward), torch.tensor(one.backward), rtol=1e-5, atol=1e-6)


# Too many, and shutting down


def test_more_requests_than_the_limit_are_refused(service, monkeypatch):
    monkeypatch.setattr(service, "config", replace(service.config, most_requests=1))

    async def asking(client: httpx.AsyncClient) -> list[httpx.Response]:
        return await asyncio.gather(*(client.post("/embed", json={"inputs": "a"}) for _ in range(2)))

    assert sorted(answer.status_code for answer in asked(service, asking)) == [200, 429]


@pytest.fixture
def served(tmp_path) -> Iterator[Served]:
    served = start_tiny(tmp_path, "--drain", "20")
    yield served
    stop(served)


HEAD = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def test_while_the_server_stops_kept_connections_are_answered_and_closed(served):
    body = b'{"inputs": "a b"}'
    whole = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(served.address, timeout=30) as slow, httpx.Client(base_url=served.url) as kept:
        assert kept.post("/embed", json={"inputs": "a"}).status_code == 200
        slow.sendall(whole[:-5])  # an accepted request, which is finished
        assert kept.get("/health").status_code == 200
        served.process.terminate()
        end = time.monotonic() + 10
        while (answer := kept.get("/health")).status_code == 200:
            assert time.monotonic() < end
        assert (answer.status_code, answer.headers["connection"]) == (503, "close")
        answer = httpx.post(served.url + "/embed", json={"inputs": "a"}, timeout=30)  # a new connection
        assert (answer.status_code, answer.headers["connection"]) == (503, "close")
        assert answer.json()["error_type"] == "Unhealthy"
        slow.sendall(whole[-5:])
        assert slow.recv(100).startswith(b"HTTP/1.1 200")


def test_a_body_of_two_lengths_ends_the_connection(served):
    with socket.create_connection(served.address, timeout=30) as connection:
        connection.sendall(HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")
        answer = b""
        while part := connection.recv(1000):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"connection: close" in answer.lower()
