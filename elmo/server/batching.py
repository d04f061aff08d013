"""Requests of many clients -> batches for the model, in the thread that runs `Batcher.run`.

- a request waits until a batch is full or its deadline is reached, whichever comes first
- a batch holds whole requests of one `Kind`, in order of arrival
- a request whose client disconnects is dropped; if a batch fails, its requests are retried alone
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from elmo.embedding.layers import Layers
from elmo.embedding.pooling import Pool

Sentence = Sequence[str]
IDLE_SECONDS = 0.5
"""The longest wait: on Windows before Python 3.14, Ctrl-C does not interrupt one without an end."""


class Kind(NamedTuple):
    """What the requests of one batch have in common."""

    layers: Layers
    pool: Pool | None
    state: Literal["reset", "echo"] = "reset"


Embed = Callable[[list[Sentence], Kind], list[np.ndarray]]


class Overloaded(Exception):
    """The queue is full."""


class Closed(Exception):
    """The server is shutting down."""


@dataclass
class _Request:
    """Sentences to embed in one batch, or a function to call between two batches."""

    future: Future
    tokens: int
    sentences: list[Sentence] = field(default_factory=list)
    kind: Kind | None = None
    call: Callable[[], Any] | None = None
    arrived: float = field(default_factory=time.monotonic)


class Batcher:
    """A bounded queue in front of one model.

    `batch_tokens` is the size of a batch; a larger request is a batch of its own. `queue_tokens` limits the queue.
    `wait` is the most seconds that a request waits for others. `observe` is called with the tokens and the seconds
    of each batch.
    """

    def __init__(
        self,
        embed: Embed,
        batch_tokens: int,
        queue_tokens: int,
        wait: float = 0.005,
        observe: Callable[[int, float], object] = lambda tokens, seconds: None,
    ) -> None:
        self._embed, self._observe = embed, observe
        self._batch_tokens, self._queue_tokens, self._wait = batch_tokens, queue_tokens, wait
        self._queue: deque[_Request] = deque()
        self._waiting = 0
        self._open = True
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """Tokens in the queue."""
        return self._waiting

    def submit(self, sentences: list[Sentence], kind: Kind) -> "Future[list[np.ndarray]]":
        """The vectors of `sentences`, in order. Raises Overloaded and Closed; may be cancelled."""
        tokens = sum(len(sentence) + 2 for sentence in sentences)
        return self._add(_Request(Future(), tokens, sentences, kind))

    def call(self, function: Callable[[], Any], tokens: int) -> "Future[Any]":
        """What `function` returns, called between two batches; `tokens` is its size in the queue."""
        return self._add(_Request(Future(), tokens, call=function))

    def close(self) -> None:
        """Accepts nothing more; `run` returns when all accepted requests are done."""
        with self._changed:
            self._open = False
            self._changed.notify()

    def run(self) -> None:
        """Processes the queue until `close`."""
        while batch := self._next():
            began = time.monotonic()
            if batch[0].call is not None:
                _finish(batch[0], batch[0].call)
            else:
                self._work(batch)
            self._observe(sum(request.tokens for request in batch), time.monotonic() - began)

    def _add(self, request: _Request) -> Future:
        with self._changed:
            if not self._open:
                raise Closed
            if self._waiting + request.tokens > self._queue_tokens:
                self._drop_cancelled()
                # A request larger than the whole queue is accepted if the queue is empty.
                if self._waiting and self._waiting + request.tokens > self._queue_tokens:
                    raise Overloaded
            self._queue.append(request)
            self._waiting += request.tokens
            self._changed.notify()
        return request.future

    def _next(self) -> list[_Request]:
        """The next batch; empty when the queue is closed and empty."""
        with self._changed:
            while True:
                self._drop_cancelled()
                if not self._queue:
                    if not self._open:
                        return []
                    self._changed.wait(IDLE_SECONDS)
                    continue
                left = self._queue[0].arrived + self._wait - time.monotonic()
                if left > 0 and self._waiting < self._batch_tokens and self._open:
                    self._changed.wait(left)
                elif batch := self._take():
                    return batch

    def _drop_cancelled(self) -> None:
        self._queue = deque(request for request in self._queue if not request.future.cancelled())
        self._waiting = sum(request.tokens for request in self._queue)

    def _take(self) -> list[_Request]:
        """The first request and those that fit beside it; requests of another kind keep their place."""
        batch: list[_Request] = []
        tokens, others = 0, deque[_Request]()
        while self._queue:
            request = self._queue.popleft()
            fits = not batch or (request.kind == batch[0].kind and tokens + request.tokens <= self._batch_tokens)
            if batch and (batch[0].call is not None or not fits):
                others.append(request)
            elif request.future.set_running_or_notify_cancel():
                batch.append(request)
                tokens += request.tokens
            else:
                self._waiting -= request.tokens
        self._queue = others
        self._waiting -= tokens
        return batch

    def _work(self, batch: list[_Request]) -> None:
        sentences = [sentence for request in batch for sentence in request.sentences]
        kind = batch[0].kind
        assert kind is not None
        try:
            vectors = self._embed(sentences, kind)
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            for request in batch:
                _finish(request, lambda request=request: self._embed(request.sentences, kind))
            return
        for request in batch:
            count = len(request.sentences)
            request.future.set_result(vectors[:count])
            vectors = vectors[count:]


def _finish(request: _Request, function: Callable[[], Any]) -> None:
    try:
        request.future.set_result(function())
    except Exception as error:
        request.future.set_exception(error)
