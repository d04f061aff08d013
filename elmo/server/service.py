"""What all routes share: the model, its queue, the limits. No HTTP here.

The model runs in the thread of `Service.batcher`; the tokenizer has a thread, and so has the writing of large answers.
The rest runs in the server's event loop, whose routes wait for a future and cancel it after a timeout.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from elmo.embedding.embedder import Embedder, StatePolicy
from elmo.embedding.layers import Layers, keeps_layers, selection
from elmo.embedding.pooling import Pool, shaping
from elmo.errors import InputError
from elmo.formats import Model
from elmo.formats.source import open_model
from elmo.pretraining.scoring import Scorer
from elmo.search.index import Index
from elmo.server.batching import Batcher, Kind, Sentence
from elmo.server.metrics import Metrics
from elmo.text.characters import is_utf8
from elmo.text.tokenizer import WHITESPACE, Tokenizer

T = TypeVar("T")
Given = str | list[str]
"""A sentence as text or as tokens."""


@dataclass(frozen=True)
class ServeConfig:
    """What a server offers, and its limits."""

    model: str = "default"
    index: str | None = None
    """An output folder of `elmo index`, for /neighbors."""
    layers: Layers = "average"
    """Layers of /embed and /v1/embeddings, whose requests cannot choose them."""
    pool: Pool = "mean"
    """Pooling of /embed and /v1/embeddings."""
    wait: float = 0.005
    """Seconds that a request waits for others to share a batch."""
    timeout: float = 60.0
    """Seconds until a request fails."""
    sending: float = 30.0
    """Seconds for a client to send a request's head, to send its body, and to read the next part of a response."""
    drain: float = 30.0
    """Seconds to finish accepted requests after a signal to stop."""
    most_bytes: int = 4_000_000
    """Bytes of a request's body."""
    most_sentences: int = 1024
    """Sentences per request."""
    most_tokens: int = 32_768
    """Tokens per request, boundaries included."""
    most_numbers: int = 4_000_000
    """Numbers per answer in JSON, each of some 11 bytes."""
    queue_tokens: int = 262_144
    """Tokens of all waiting requests."""
    cors: tuple[str, ...] = ()
    """Origins that browsers may send requests from, such as https://example.org; * for all."""
    names: tuple[str, ...] = ()
    """Host names that requests may use; () for all. Prevents DNS rebinding: without a key, another site could point its
    own name at this machine's address."""


class TooLarge(Exception):
    """A request exceeds a limit; the message says which."""


class TimedOut(Exception):
    """A request was not answered in time."""


class Service:
    """A model with its queue and tokenizer, and its softmax and index if it has them."""

    def __init__(self, config: ServeConfig) -> None:
        source = open_model(config.model)
        model: Model = source.model
        self.config, self.card = config, source.card()
        self.name = source.name
        self.dtype = "float32"
        self.embedder = Embedder(model.bilm(), text=model.text, vocabulary=model.inputs, device="cpu", release=True)
        self.embedders = {"reset": self.embedder, "echo": self._sharing("echo")}
        self.scorer = Scorer(model, self.embedder.bilm) if model.lm_head and model.vocabulary else None
        self.index = None if config.index is None else Index(Path(config.index))
        if self.index is not None:
            self.index.check_model(self.card)
        self.tokenizer = Tokenizer(model.text or WHITESPACE)
        self._tokenizing = ThreadPoolExecutor(1, "elmo-tokenizer")  # one thread, as the tokenizer needs
        self._writing = ThreadPoolExecutor(1, "elmo-answers")
        self.facts = {
            "layers": self.embedder.n_layers,
            "dim": self.embedder.dim,
            "scores": self.scorer is not None,
            "index_tokens": None if self.index is None else self.index.record.tokens,
        }
        """The fields of /info that are not in its clients' schema."""
        self.metrics = Metrics()
        self.batcher = Batcher(
            self._embed, self.embedder.batch_tokens, config.queue_tokens, config.wait, self.metrics.batch
        )
        self.metrics.watch(lambda: self.batcher.waiting)
        if keeps_layers(config.layers):  # /embed and /v1/embeddings promise one vector
            raise InputError(f"--layers is {config.layers!r}, but clients expect one vector per input: try concat")
        self.check(Kind(config.layers, config.pool))

    def _sharing(self, state: StatePolicy) -> Embedder:
        mine = self.embedder
        return Embedder(mine.bilm, text=mine.text, vocabulary=mine.vocabulary, device="cpu", state=state)

    def check(self, kind: Kind) -> None:
        """Raises InputError for unknown layers or pooling."""
        selection(kind.layers, self.embedder.n_layers)
        shaping(kind.layers, kind.pool)

    async def sentences(self, given: Sequence[Given]) -> list[list[str]]:
        """The tokens of each sentence. Raises TooLarge, TimedOut, and InputError if there are no sentences."""
        if not given:
            raise InputError("no sentences; at least one is expected")
        if len(given) > self.config.most_sentences:
            raise TooLarge(f"{len(given):,} sentences; at most {self.config.most_sentences:,} are accepted: send fewer")
        return await self._answer(self._tokenizing.submit(self._tokens, given))

    def _tokens(self, given: Sequence[Given]) -> list[list[str]]:
        """Stops at the limit: spaCy needs seconds for a text of thousands of brackets."""
        sentences: list[list[str]] = []
        tokens = 2 * len(given)
        for number, each in enumerate(given):
            if not is_utf8(each if isinstance(each, str) else " ".join(each)):
                raise InputError(
                    f"input {number} has half of a surrogate pair (\\ud800 to \\udfff); send whole characters"
                )
            sentences.append([])
            for part in self.tokenizer.parts(each) if isinstance(each, str) else [each]:
                sentences[-1] += part
                tokens += len(part)
                if tokens > self.config.most_tokens:
                    raise TooLarge(f"more than the limit of {self.config.most_tokens:,} tokens: send fewer")
        return sentences

    def check_json(self, sentences: Sequence[Sentence], kind: Kind) -> None:
        """Raises TooLarge if their vectors are too many numbers for JSON."""
        rows = sum(map(len, sentences)) if kind.pool is None else len(sentences)
        layers = self.embedder.n_layers if kind.layers in ("all", "concat") else 1
        if keeps_layers(kind.layers) and kind.layers != "all":
            layers = len(kind.layers)  # type: ignore[arg-type]
        if (numbers := rows * layers * self.embedder.dim) > self.config.most_numbers:
            raise TooLarge(
                f"{numbers:,} numbers in JSON; at most {self.config.most_numbers:,} are accepted: send fewer sentences,"
                " or ask /vectors with pool, one of the layers, or accept: application/x-npz"
            )

    async def written(self, function: Callable[..., T], *given: Any) -> T:
        """What `function` returns, which may take long to write an answer: called in a thread."""
        return await asyncio.wrap_future(self._writing.submit(function, *given))

    async def vectors(self, sentences: Sequence[Sentence], kind: Kind) -> list[np.ndarray]:
        """One array per sentence, like `Embedder.embed`. Raises like `Batcher.submit` and `answer`."""
        self.check(kind)
        return await self._accepted(self.batcher.submit(list(sentences), kind), sentences)

    async def call(self, function: Callable[[], T], sentences: Sequence[Sentence]) -> T:
        """Runs `function` in the model's thread and returns its result; `sentences` give its size."""
        future = self.batcher.call(function, sum(len(sentence) + 2 for sentence in sentences))
        return await self._accepted(future, sentences)

    async def _accepted(self, future: "Future[T]", sentences: Sequence[Sentence]) -> T:
        """The answer to a request that the queue has taken."""
        self.metrics.tokens.inc(sum(map(len, sentences)))
        return await self._answer(future)

    async def _answer(self, future: "Future[T]") -> T:
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.config.timeout)
        except TimeoutError as error:
            raise TimedOut from error

    def _embed(self, sentences: list[Sentence], kind: Kind) -> list[np.ndarray]:
        return self.embedders[kind.state].embed(sentences, kind.layers, kind.pool)


def with_limits(config: ServeConfig, **limits: Any) -> ServeConfig:
    """The configuration with other limits; None keeps one. Raises InputError for a limit that is not positive."""
    given = {name: value for name, value in limits.items() if value is not None}
    for name, value in given.items():
        if isinstance(value, int | float) and value <= 0:
            raise InputError(f"--{name.replace('_', '-')} is {value}; a number above 0 is expected")
    return replace(config, **given)
