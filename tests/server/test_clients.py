"""Clients that are too slow, and pages of other origins."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
from command import run
from refusals import refusal
from served import Served, comes_back, held, start_tiny, stop

HEAD = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
PAGE = "https://page.example"


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
        connection.sendall(HEAD % 1000 + b'{"inputs": "')
        answer = goes_on(connection, b"a ")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"incomplete after 0.5 seconds" in answer


def test_a_body_that_is_refused_does_not_go_on_for_ever(server):
    with connected(server) as connection:
        connection.sendall(HEAD % 5_000_000)
        assert goes_on(connection, b" ").startswith(b"HTTP/1.1 413")


def test_who_takes_nothing_of_an_answer_is_cut_off(server):
    httpx.post(server.url + "/embed", json={"inputs": "a b"})  # the first product starts the threads of torch
    before = held(server.process.pid)
    if before == (0, 0):
        pytest.skip("this system does not say which files a process has open")
    body = json.dumps({"sentences": ["a " * 100] * 300}).encode()
    request = (HEAD % len(body)).replace(b"/embed", b"/vectors") + body
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
        slow.sendall(HEAD % 1000 + b'{"inputs": "')
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
