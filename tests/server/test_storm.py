"""A thousand requests, a fifth of them malformed, cut off or abandoned, and SIGTERM in the middle."""

import http.client
import json
import random
import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import numpy as np
import pytest
from served import Served, comes_back, held, kill, start_tiny

import elmo

SENTENCES = [[f"{word}{number}" for word in ("the", "storm", "is", "over", "and", "counted")] for number in range(9)]
ASKED = [SENTENCES[first : first + 3] for first in range(6)]
KINDS = [("average", "mean"), ("top", None), (0, "max")]
HEAD = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


@dataclass
class Storm:
    """What came back."""

    served: Served
    expected: dict[int, list[list[np.ndarray]]]
    right: int = 0
    refused: int = 0
    """Good requests with the answer 503, or without one."""
    unavailable: int = 0
    """Answers 503 to all requests."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set before the server is told to stop: until then, nothing is refused."""
    wrong: list[object] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def good(self, number: int) -> None:
        which, kind = number % len(ASKED), number % len(KINDS)
        layers, pool = KINDS[kind]
        connection = http.client.HTTPConnection(*self.served.address, timeout=30)
        try:
            body = json.dumps({"sentences": ASKED[which], "layers": layers, "pool": pool})
            connection.request("POST", "/vectors", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        except (OSError, http.client.BadStatusLine):  # nobody listens any more
            with self.lock:
                self.refused += 1
            return
        finally:
            connection.close()
        with self.lock:
            if status == 200 and self._is_right(content, self.expected[kind][which]):
                self.right += 1
            elif status == 503 and self.stopping.is_set():
                self.refused += 1
                self.unavailable += 1
            else:
                self.wrong.append((status, content))

    def stop(self) -> None:
        self.stopping.set()
        self.served.process.terminate()

    @staticmethod
    def _is_right(content: bytes, expected: list[np.ndarray]) -> bool:
        seen = [np.array(each["vectors"]) for each in json.loads(content)["sentences"]]
        return all(np.allclose(one, other, rtol=0, atol=1e-6) for one, other in zip(seen, expected, strict=True))

    def bad(self, number: int) -> None:
        request, cut = BAD[number % len(BAD)]
        try:
            with socket.create_connection(self.served.address, timeout=30) as connection:
                connection.sendall(request)
                answer = b"" if cut else connection.recv(100)
            with self.lock:
                if answer.startswith(b"HTTP/1.1 503") and self.stopping.is_set():
                    self.unavailable += 1
                elif answer and not answer.startswith(b"HTTP/1.1 4"):
                    self.wrong.append((request, answer))
        except OSError:
            pass  # nobody listens any more

    def blow(self, numbers: range, in_the_middle: Callable[[], None]) -> None:
        """All requests by 16 clients; what is done when half of them are answered."""
        # One of five is bad, in an order that repeats nowhere.
        tasks = [
            (self.good if number % 5 else self.bad, number // 5 if number % 5 == 0 else number) for number in numbers
        ]
        random.Random(7).shuffle(tasks)
        with ThreadPoolExecutor(16) as pool:
            futures = [pool.submit(task, number) for task, number in tasks]
            futures[len(futures) // 2].result()
            in_the_middle()
            for future in futures:
                future.result()


def whole(body: bytes, path: bytes = b"/embed") -> bytes:
    return HEAD % (path, len(body)) + body


BAD: list[tuple[bytes, bool]] = [
    (b"nonsense\r\n\r\n", False),
    (b"GET / HTTP/9.9\r\n\r\n", False),
    (whole(b'{"inputs": "a'), False),
    (whole(b'{"inputs": "\xff"}'), False),
    (whole(b'{"inputs": []}'), False),
    (whole(b'{"inputs": [["a"]]}'), False),
    (whole(b"{}", b"/nowhere"), False),
    (whole(b" " * 5_000_000)[:5000], False),
    (whole(b'{"inputs": "never whole"}')[:-9], True),
    (whole(b"{}")[:30], True),
    (whole(b'{"inputs": "who asks has gone"}', b"/embed_all"), True),
]
"""Requests, and whether the client goes away then."""


@pytest.fixture
def storm(tmp_path):
    """Over a tiny model; with what the bare embedder says."""
    served = start_tiny(tmp_path)
    bare = elmo.load(tmp_path / "model", device="cpu")
    expected = {kind: [bare.embed(sentences, *KINDS[kind]) for sentences in ASKED] for kind in range(len(KINDS))}
    yield Storm(served, expected)
    kill(served)


@pytest.mark.slow
def test_a_storm_leaves_nothing_behind_and_a_stop_finishes_what_was_accepted(storm, tmp_path):
    process, url = storm.served.process, storm.served.url
    for layers, pool in KINDS:  # whatever the process makes once, such as threads for large batches
        storm.served.post("/vectors", {"sentences": SENTENCES * 100, "layers": layers, "pool": pool}).raise_for_status()
    before = held(process.pid)

    storm.blow(range(500), lambda: None)
    assert (storm.refused, storm.wrong) == (0, [])
    assert storm.right == 400
    assert comes_back(process.pid, before), f"{held(process.pid)} files and threads; {before} before"
    metrics = httpx.get(url + "/metrics").text
    assert "\nelmo_queue_tokens 0.0\n" in metrics
    assert '\nelmo_requests_total{route="/vectors",status="200"} 403.0\n' in metrics

    storm.blow(range(500, 1000), storm.stop)
    assert process.wait(10) == 0
    assert storm.wrong == []
    assert storm.right + storm.refused == 800
    assert storm.right > 400 + 100
    assert storm.unavailable > 0, "while it stops, the server says so"
    log = (tmp_path / "log").read_text(encoding="utf-8")
    statuses = re.findall(r"POST /vectors (\d+)", log)
    assert statuses.count("200") == len(statuses) - statuses.count("503") == 3 + storm.right, (
        "what was accepted is answered"
    )
    assert "Traceback" not in log
