"""The parts that all routes share: the model, its queue, the limits.

The model runs in the thread of `Service.batcher`; the tokenizer has a thread, and so has the writing of large answers.
All three do long work in steps, between which they do the work of others. The rest runs in the server's event loop,
whose routes wait for a future and cancel it after a timeout.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from elmo.embedding.embedder import MEMORY, Embedder, StatePolicy, tokens_within
from elmo.embedding.layers import Layers, keeps_layers, layer_selector
from elmo.embedding.pooling import Pool, vector_shaper
from elmo.errors import InputError
from elmo.formats import Model
from elmo.formats.opened import open_model
from elmo.ops import Precision
from elmo.pretraining.scoring import Scorer
from elmo.search.index import Index
from elmo.server.answers import compressed_response
from elmo.server.batching import Batcher, BatchKind, Sentence
from elmo.server.errors import EmptyRequest, RequestTimedOut, RequestTooLarge
from elmo.server.metrics import Metrics
from elmo.text.tokenizer import WHITESPACE, Tokenizer

T = TypeVar("T")
Cut = Literal["Left", "Right", "left", "right"]
"""The end of a long text that is cut off."""
STEP = 0.01
"""Seconds of tokenizing until others have their turn."""
BATCH_TOKENS = 1024
"""At most: larger batches are hardly faster on a CPU, and others wait for them."""


@dataclass(frozen=True)
class ServeConfig:
    """The model of a server, its options and its limits."""

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
    most_sentences: int = 2048
    """Sentences per request; OpenAI's API documents so many."""
    most_requests: int = 512
    """Requests at work at the same time."""
    most_tokens: int = 32_768
    """Tokens per request, boundaries included."""
    most_numbers: int = 4_000_000
    """Numbers per answer in JSON, each of some 11 bytes."""
    queue_tokens: int = 262_144
    """Tokens of all waiting requests."""
    device: str = "cpu"
    """The model's device as torch names it, such as cuda."""
    precision: Precision = "float32"
    """The precision of matrix products, as `Embedder` takes it."""
    cors: tuple[str, ...] = ()
    """Origins that browsers may send requests from, such as https://example.org; * for all."""
    names: tuple[str, ...] = ()
    """Host names that requests may use; () for all. Prevents DNS rebinding: without a key, another site could point its
    own name at this machine's address."""


class Service:
    """A model with its queue and tokenizer, and its softmax and index if it has them."""

    def __init__(self, config: ServeConfig) -> None:
        source = open_model(config.model)
        model: Model = source.model
        self.config, self.card = config, source.card()
        self.name = source.name
        self.told = dict(model.card)
        """The card that is in the model's file."""
        self.embedder = self._embedder(model)
        self.embedders = {"reset": self.embedder, "echo": self._sharing("echo")}
        has_softmax = model.lm_head and model.vocabulary
        self.scorer = Scorer(model, self.embedder.bilm, self._between) if has_softmax else None
        self.vocabulary = model.vocabulary
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
        self.pooled = BatchKind(config.layers, config.pool)
        """The layers and pooling of routes whose clients cannot choose them."""
        self.check(self.pooled)

    def _embedder(self, model: Model) -> Embedder:
        """The embedder, whose batches are small enough on a CPU for others to wait for."""
        bilm = model.bilm()
        given: dict[str, Any] = {"text": model.text, "vocabulary": model.inputs, "device": self.config.device}
        if self.config.device == "cpu":
            given["batch_tokens"] = min(BATCH_TOKENS, tokens_within(MEMORY, bilm.config))
        return Embedder(bilm, **given, precision=self.config.precision, release=True, between=self._between)

    def _sharing(self, state: StatePolicy) -> Embedder:
        mine = self.embedder
        return Embedder(
            mine.bilm,
            text=mine.text,
            vocabulary=mine.vocabulary,
            device=mine.device,
            precision=mine.precision,
            state=state,
            batch_tokens=mine.batch_tokens,
            between=self._between,
        )

    def _between(self) -> None:
        self.batcher.between()

    def check(self, kind: BatchKind) -> None:
        """Raises InputError for unknown layers or pooling."""
        layer_selector(kind.layers, self.embedder.n_layers)
        vector_shaper(kind.layers, kind.pool)

    def check_dimensions(self, dimensions: int | None, layers: Layers) -> None:
        """Raises InputError if a client asks for vectors of another size than the model's."""
        size = self.embedder.dim * (self.embedder.n_layers if layers == "concat" else 1)
        if dimensions not in (None, size):
            raise InputError(f"dimensions is {dimensions}; the vectors of this model have {size}: omit it")

    async def sentences(self, given: Sequence[str | list[str]], cut: Cut | None = None) -> list[list[str]]:
        """The tokens of each sentence, which is given as text or as tokens.

        With `cut`, a sentence that is too long loses its end. Raises RequestTooLarge, RequestTimedOut or EmptyRequest.
        """
        if not given:
            raise EmptyRequest("no sentences; at least one is expected")
        if len(given) > self.config.most_sentences:
            raise RequestTooLarge(
                f"{len(given):,} sentences; at most {self.config.most_sentences:,} are accepted: send fewer"
            )
        sentences: list[list[str]] = []
        steps = self._tokenized(given, cut, sentences)
        while await self._answer(self._tokenizing.submit(_step, steps)):
            pass
        return sentences

    def _tokenized(
        self, given: Sequence[str | list[str]], cut: Cut | None, sentences: list[list[str]]
    ) -> Iterator[None]:
        """Appends the tokens of each sentence, in steps; stops at the limit, since spaCy takes long for some texts."""
        total = 2 * len(given)
        most = self.config.most_tokens - 2
        for each in given:
            tokens: list[str] = []
            for part in self.tokenizer.parts(each) if isinstance(each, str) else [each]:
                tokens += part
                if cut is not None:
                    tokens = tokens[-most:] if cut.lower() == "left" else tokens[:most]
                if total + len(tokens) > self.config.most_tokens:
                    raise RequestTooLarge(f"more than the limit of {self.config.most_tokens:,} tokens: send fewer")
                if cut in ("Right", "right") and len(tokens) == most:
                    break
                yield
            total += len(tokens)
            sentences.append(tokens)

    async def embedded(
        self, given: list[str], kind: BatchKind, truncate: bool = False, cut: Cut = "Right"
    ) -> tuple[list[list[str]], list[np.ndarray]]:
        """The tokens and the vectors of texts. Raises InputError for a text without tokens."""
        sentences = await self.sentences(given, cut if truncate else None)
        for number, sentence in enumerate(sentences):
            if not sentence:
                raise InputError(f"input {number} is empty; a text with at least one token is expected")
        self.check_json(sentences, kind)
        return sentences, await self.vectors(sentences, kind)

    def placed(self, text: str, tokens: Sequence[str]) -> list[dict[str, Any]]:
        """Each token with its id and its place in the text, as text-embeddings-inference writes them."""
        found, end = [], 0
        for token in tokens:
            start = text.find(token, end)
            end = start + len(token) if start >= 0 else end
            place = (start, end) if start >= 0 else (None, None)  # a tokenizer may change letters
            number = None if self.vocabulary is None else self.vocabulary.id(token)
            found.append({"id": number, "text": token, "special": False, "start": place[0], "stop": place[1]})
        return found

    def boundary(self, token: str) -> dict[str, Any]:
        """A sentence's boundary in the same form."""
        number = None if self.vocabulary is None else self.vocabulary.id(token)
        return {"id": number, "text": token, "special": True, "start": None, "stop": None}

    def check_json(self, sentences: Sequence[Sentence], kind: BatchKind) -> None:
        """Raises RequestTooLarge if their vectors are too many numbers for JSON."""
        rows = sum(map(len, sentences)) if kind.pool is None else len(sentences)
        layers = self.embedder.n_layers if kind.layers in ("all", "concat") else 1
        if keeps_layers(kind.layers) and kind.layers != "all":
            layers = len(kind.layers)  # type: ignore[arg-type]
        if (numbers := rows * layers * self.embedder.dim) > self.config.most_numbers:
            raise RequestTooLarge(
                f"{numbers:,} numbers in JSON; at most {self.config.most_numbers:,} are accepted: send fewer sentences,"
                " or ask /vectors with pool, one of the layers, or accept: application/x-npz"
            )

    async def written(self, request: Request, function: Callable[..., Response], *given: Any) -> Response:
        """The answer that `function` returns, compressed if the client takes it: both may take long, in a thread."""
        accepts = request.headers.get("accept-encoding", "")
        return await asyncio.wrap_future(self._writing.submit(lambda: compressed_response(function(*given), accepts)))

    async def vectors(self, sentences: Sequence[Sentence], kind: BatchKind) -> list[np.ndarray]:
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
            raise RequestTimedOut from error

    def _embed(self, sentences: list[Sentence], kind: BatchKind) -> list[np.ndarray]:
        return self.embedders[kind.state].embed(sentences, kind.layers, kind.pool)


def _step(steps: Iterator[None]) -> bool:
    """Works for a moment; whether there is more to do."""
    end = time.monotonic() + STEP
    return any(time.monotonic() > end for _ in steps)


def normalize_rows(rows: np.ndarray) -> np.ndarray:
    """The rows scaled to length 1; zero stays zero."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(min=1e-12)


def with_limits(config: ServeConfig, **limits: Any) -> ServeConfig:
    """The configuration with other limits; None keeps one. Raises InputError for a limit that is not positive."""
    given = {name: value for name, value in limits.items() if value is not None}
    for name, value in given.items():
        if isinstance(value, int | float) and value <= 0:
            raise InputError(f"--{name.replace('_', '-')} is {value}; a number above 0 is expected")
    return replace(config, **given)
