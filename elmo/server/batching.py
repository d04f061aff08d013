"""Joins the requests of many clients into batches for the model, in the thread that runs `Batcher.run`.

- A request waits until a batch is full or its deadline is reached, whichever comes first.
- A batch holds whole requests of one `BatchKind`, in order of arrival.
- A request larger than a batch takes several steps. Between two of them, one batch of small requests is answered.
- A request for which nobody waits any more is not computed. If a batch fails, its requests are retried alone.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from elmo.embedding.layers import Layers
from elmo.embedding.pooling import Pool
from elmo.forking import renew_at_fork

IDLE_SECONDS = 0.5
"""The longest wait in seconds. On Windows before Python 3.14, Ctrl-C does not interrupt an endless wait."""


class BatchKind(NamedTuple):
    """The options that all requests of one batch share."""

    layers: Layers
    pool: Pool | None
    state: Literal["reset", "echo"] = "reset"


Embed = Callable[[list[Any], BatchKind], list[np.ndarray]]
"""A function that turns texts, in any form, into one array each."""


class QueueFull(Exception):
    """The queue is full."""


class QueueClosed(Exception):
    """The server is shutting down."""


class ClientGone(Exception):
    """Nobody waits for the work any more."""


@dataclass
class _Request:
    """Texts to embed in one batch, or a function to call between two batches."""

    future: Future
    tokens: int
    texts: list[Any] = field(default_factory=list)
    kind: BatchKind | None = None
    call: Callable[[], Any] | None = None
    arrived: float = field(default_factory=time.monotonic)


class Batcher:
    """A bounded queue in front of one model.

    `batch_tokens` is the size of a batch; a larger request is read alone, in steps: `embed` and `call`'s functions call
    `between` after each. `queue_tokens` limits the queue. `wait` is the most seconds that a request waits for others.
    `observe` is called with the tokens and the seconds of each batch.
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
        self._begin()
        renew_at_fork(self, Batcher._begin)

    def _begin(self) -> None:
        self._queue: deque[_Request] = deque()
        self._waiting = 0
        self._open = True
        self.changed = threading.Condition()
        self._at_work: list[list[_Request]] = []
        """The batch at work and, while it is interrupted, the batch that interrupts it."""

    @property
    def waiting(self) -> int:
        """The number of tokens in the queue."""
        return self._waiting

    def submit(self, texts: list[Any], kind: BatchKind, tokens: int) -> "Future[list[np.ndarray]]":
        """Returns the vectors of each text, in order; `tokens` is their size. The call may be cancelled.

        Raises QueueFull and QueueClosed.
        """
        return self._add(_Request(Future(), tokens, texts, kind))

    def call(self, function: Callable[[], Any], tokens: int) -> "Future[Any]":
        """Calls `function` between two batches and returns its result; `tokens` is its size in the queue."""
        return self._add(_Request(Future(), tokens, call=function))

    def close(self) -> None:
        """Refuses further requests; `run` returns when all accepted ones are done."""
        with self.changed:
            self._open = False
            self.changed.notify()

    def run(self) -> None:
        """Processes the queue until `close`."""
        while batch := self._next():
            self._work(batch)

    def between(self) -> None:
        """Answers a batch of small requests, if some wait. It must be called between two steps of the model's work.

        Raises ClientGone if nobody waits for that work any more.
        """
        if not self._at_work:
            return  # this is work of the server itself
        if all(request.future.cancelled() for request in self._at_work[-1]):
            raise ClientGone
        if len(self._at_work) == 1:
            with self.changed:
                batch = self._take(small=True)
            if batch:
                self._work(batch)

    def _add(self, request: _Request) -> Future:
        with self.changed:
            if not self._open:
                raise QueueClosed
            if self._waiting + request.tokens > self._queue_tokens:
                self._drop_cancelled()
                # A request larger than the whole queue is accepted if the queue is empty.
                if self._waiting and self._waiting + request.tokens > self._queue_tokens:
                    raise QueueFull
            self._queue.append(request)
            self._waiting += request.tokens
            self.changed.notify()
        return request.future

    def _next(self) -> list[_Request]:
        """Returns the next batch, which is empty when the queue is closed and empty."""
        with self.changed:
            while True:
                self._drop_cancelled()
                if not self._queue:
                    if not self._open:
                        return []
                    self.changed.wait(IDLE_SECONDS)
                    continue
                left = self._queue[0].arrived + self._wait - time.monotonic()
                if left > 0 and self._waiting < self._batch_tokens and self._open:
                    self.changed.wait(left)
                elif batch := self._take():
                    return batch

    def _drop_cancelled(self) -> None:
        self._queue = deque(request for request in self._queue if not request.future.cancelled())
        self._waiting = sum(request.tokens for request in self._queue)

    def _take(self, small: bool = False) -> list[_Request]:
        """Takes the first request and those that fit beside it; with `small`, large ones keep their place, too."""
        batch: list[_Request] = []
        tokens, others = 0, deque[_Request]()
        while self._queue:
            request = self._queue.popleft()
            if request.future.cancelled():
                self._waiting -= request.tokens
            elif self._fits(request, batch, tokens, small):
                batch.append(request)
                tokens += request.tokens
            else:
                others.append(request)
        self._queue = others
        self._waiting -= tokens
        return batch

    def _fits(self, request: _Request, batch: list[_Request], tokens: int, small: bool) -> bool:
        if not batch:
            return not small or request.tokens <= self._batch_tokens
        is_alike = request.kind == batch[0].kind and request.call is None and batch[0].call is None
        return is_alike and tokens + request.tokens <= self._batch_tokens

    def _work(self, batch: list[_Request]) -> None:
        self._at_work.append(batch)
        began = time.monotonic()
        try:
            self._answer(batch)
        finally:
            self._at_work.pop()
        self._observe(sum(request.tokens for request in batch), time.monotonic() - began)

    def _answer(self, batch: list[_Request]) -> None:
        try:
            call = batch[0].call
            results = self._embedded(batch) if call is None else [call()]
        except ClientGone:
            return
        except Exception as error:
            if len(batch) == 1:
                _set(batch[0].future, error=error)
                return
            for request in batch:
                self._at_work[-1] = [request]
                self._answer([request])
            return
        for request, result in zip(batch, results, strict=True):
            _set(request.future, result)

    def _embedded(self, batch: list[_Request]) -> list[list[np.ndarray]]:
        kind = batch[0].kind
        assert kind is not None
        vectors = iter(self._embed([text for request in batch for text in request.texts], kind))
        return [list(islice(vectors, len(request.texts))) for request in batch]


def _set(future: Future, result: Any = None, error: Exception | None = None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
