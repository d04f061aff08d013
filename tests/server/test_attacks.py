"""One client can neither stop the others nor take more than its share.

Bodies to refuse, long work, shutting down, clients that are too slow, and pages of other origins.
"""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest
import torch
from command import run
from refusals import refusal
from served import Served, asked, comes_back, held, running_service, start_tiny, stop
from tiny import tiny_model

import elmo
from elmo.pretraining.scoring import Scorer
from elmo.server.batching import ClientGone
from elmo.server.service import Service

SIZE = 3_900_000
HEAD = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
SIZED = HEAD + b"content-length: %d\r\n\r\n"
PAGE = "https://page.example"


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


def test_while_the_server_stops_kept_connections_are_answered_and_closed(served):
    body = b'{"inputs": "a b"}'
    whole = SIZED % len(body) + body
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


# Clients that are too slow, and pages of other origins


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("clients") / "log"


@pytest.fixture(scope="module")
def server(log) -> Iterator[Served]:
    """One that waits for half a second, and knows two origins."""
    served = start_tiny(log.parent, "--sending", "0.5", "--cors", PAGE, "--cors", "http://localhost:3000")
    yield served
    stop(served)
    assert "Traceback" not in log.read_text(encoding="utf-8")


def connected(served: Served) -> socket.socket:
    return socket.create_connection(served.address, timeout=60)


def goes_on(connection: socket.socket, more: bytes) -> bytes:
    """Sends a byte now and then until the server has closed the connection; what it answered."""
    answer = b""
    connection.settimeout(0.1)
    for number in range(600):
        try:
            if not (got := connection.recv(100_000)):
                return answer
            answer += got
        except TimeoutError:
            pass
        except ConnectionError:
            return answer
        try:
            connection.sendall(more[number % len(more) :][:1])
        except ConnectionError:
            return answer
    raise AssertionError("the connection is still open")


@pytest.mark.parametrize("begun", [b"GET /health HT", b"GET /health HTTP/1.1\r\nhost: "])
def test_who_never_ends_the_head_of_a_request_is_cut_off(server, begun):
    with connected(server) as connection:
        connection.sendall(begun)
        assert goes_on(connection, b"x") == b""


def test_who_is_silent_is_cut_off(server):
    with connected(server) as connection, suppress(ConnectionError):
        assert connection.recv(1) == b""


def test_a_second_request_has_no_more_time_than_the_first(server):
    with connected(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\nGET /hea")
        answer = goes_on(connection, b"x")
        assert answer.count(b"HTTP/1.1 200") == answer.count(b"HTTP/1.1 ") == 1


def test_a_body_that_is_never_whole_is_answered_and_cut_off(server):
    with connected(server) as connection:
        connection.sendall(SIZED % 1000 + b'{"inputs": "')
        answer = goes_on(connection, b"a ")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"incomplete after 0.5 seconds" in answer


def test_a_body_that_is_refused_does_not_go_on_for_ever(server):
    with connected(server) as connection:
        connection.sendall(SIZED % 5_000_000)
        assert goes_on(connection, b" ").startswith(b"HTTP/1.1 413")


def test_who_takes_nothing_of_an_answer_is_cut_off(server):
    httpx.post(server.url + "/embed", json={"inputs": "a b"})  # the first product starts the threads of torch
    before = held(server.process.pid)
    if before == (0, 0):
        pytest.skip("this system does not say which files a process has open")
    body = json.dumps({"sentences": ["a " * 100] * 300}).encode()
    request = (SIZED % len(body)).replace(b"/embed", b"/vectors") + body
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(server.address)
        connection.sendall(request)
        head = connection.recv(2000)
        assert comes_back(server.process.pid, before), "the connection is still open"
    announced = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
    assert announced > 5_000_000, "more than the system itself holds for a connection"


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_slow_sender_for_ever(tmp_path):
    served = start_tiny(tmp_path, "--drain", "1")
    with connected(served) as slow:
        slow.sendall(SIZED % 1000 + b'{"inputs": "')
        while httpx.get(served.url + "/health").status_code != 200:
            pass
        stop(served)
        assert slow.recv(100).startswith(b"HTTP/1.1 503")
    assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")


@pytest.mark.parametrize("origin", [PAGE, "http://localhost:3000"])
def test_pages_of_the_origins_that_were_named_may_ask(server, origin):
    asks = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, x-stainless-os",  # as OpenAI's client sends them
    }
    answer = httpx.options(server.url + "/embed", headers=asks)
    assert "x-stainless-os" in answer.headers["access-control-allow-headers"]
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
    for content, status in (({"inputs": "a"}, 200), ({}, 422)):
        answer = server.post("/embed", content, headers={"origin": origin})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, origin)
        assert answer.headers["access-control-expose-headers"] == "retry-after"
    assert "access-control-allow-credentials" not in answer.headers


def test_pages_of_other_origins_may_not(server):
    for origin in ("https://page.example.evil", "http://page.example", "null"):
        asks = {"origin": origin, "access-control-request-method": "POST"}
        for answer in (
            httpx.options(server.url + "/embed", headers=asks),
            httpx.get(server.url + "/info", headers=asks),
        ):
            assert "access-control-allow-origin" not in answer.headers


def test_what_is_no_origin_is_refused():
    done = run("serve", "--port", "0", "--cors", PAGE, "--cors", PAGE + "/")
    refusal(done, f"--cors is {PAGE + '/'!r}")
