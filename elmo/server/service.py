"""The parts that all routes share: the model, its queue and the limits.

The model runs in the thread of `Service.batcher`; the tokenizer has a thread, and so has the writing of large answers.
All three do long work in steps, between which they do the work of others. The rest runs in the server's event loop,
whose routes wait for a future; their timeout (`elmo.server.openapi`) cancels it.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from elmo.embedding.budget import MEMORY, tokens_within
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import Layers, check_one_vector, keeps_layers, layer_selector, vector_size
from elmo.embedding.pooling import Pool, unit_vectors, vector_shaper
from elmo.embedding.texts import LINE_END, SplitText
from elmo.errors import InputError
from elmo.forking import renew_at_fork
from elmo.formats import Model, examples
from elmo.formats.opened import open_model
from elmo.ops import Precision
from elmo.pretraining.scoring import Scorer
from elmo.search.index import Index
from elmo.server.answers import compressed_response
from elmo.server.batching import Batcher, BatchKind
from elmo.server.errors import EmptyRequest, RequestTooLarge
from elmo.server.metrics import Metrics
from elmo.text.marks import BOS, EOS
from elmo.text.tokenizer import WHITESPACE, Tokenizer

T = TypeVar("T")
Cut = Literal["Left", "Right", "left", "right"]
"""The side on which a long text is cut off."""
STEP = 0.01
"""The seconds of tokenizing after which other requests have their turn."""
LARGEST_LIMIT = 1_000_000_000
"""The largest limit of a server that the command line takes, in seconds, sentences or tokens."""
BATCH_TOKENS = 1024
"""The most tokens of a batch: larger ones are hardly faster on a CPU, and other requests wait for them."""


@dataclass(frozen=True)
class ServeConfig:
    """The model of a server, its options and its limits."""

    model: str = "default"
    index: str | None = None
    """The output folder of `elmo index` that /neighbors and /uses search."""
    layers: Layers = "average"
    """The layers of /embed and /v1/embeddings, whose requests cannot choose them."""
    pool: Pool = "mean"
    """The pooling of /embed and /v1/embeddings."""
    wait: float = 0.005
    """The seconds that a request waits for others to share a batch."""
    timeout: float = 60.0
    """The seconds after which a request fails."""
    sending: float = 30.0
    """The seconds that a client has to send the head of a request, to send its body, and to read part of a response."""
    drain: float = 30.0
    """The seconds to finish accepted requests after a signal to stop."""
    most_bytes: int = 4_000_000
    """The most bytes of a request's body."""
    most_sentences: int = 2048
    """The most sentences per request; OpenAI's API documents this number."""
    most_requests: int = 512
    """The most requests at work at the same time."""
    most_tokens: int = 32_768
    """The most tokens per request, boundaries included."""
    most_numbers: int = 4_000_000
    """The most numbers per answer in JSON, each of some 11 bytes."""
    queue_tokens: int = 262_144
    """The most tokens of all waiting requests."""
    device: str = "cpu"
    """The model's device as torch names it, such as cuda."""
    precision: Precision = "float32"
    """The precision of matrix products, as `Embedder` takes it."""
    cors: tuple[str, ...] = ()
    """The origins from which browsers may send requests, such as https://example.org; * for all."""
    names: tuple[str, ...] = ()
    """The host names that requests may use; () for all. They prevent DNS rebinding: without a key, another site could
    point its own name at this machine's address."""


class Service:
    """A model with its queue and tokenizer, and its softmax and index if it has them."""

    def __init__(self, config: ServeConfig) -> None:
        source = open_model(config.model)
        model: Model = source.model
        self.config, self.card = config, source.card()
        self.name = source.name
        self.examples = examples.page_examples(model.card)
        self.told = {name: value for name, value in model.card.items() if name != examples.KEY}
        """The card that the model's file has, without the page's examples."""
        options: dict[str, Any] = {"text": model.text, "vocabulary": model.inputs, "device": config.device}
        if config.device == "cpu":
            options["batch_tokens"] = min(BATCH_TOKENS, tokens_within(MEMORY, model.config))
        options["between"] = self._between
        self.embedder = Embedder(model.bilm(), **options, precision=config.precision, release=True)
        twice = Embedder(self.embedder.bilm, **options, precision=self.embedder.precision, state="echo")
        self.embedders = {"reset": self.embedder, "echo": twice}
        has_softmax = model.lm_head and model.vocabulary
        self.scorer = Scorer(model, self.embedder.bilm, self._between) if has_softmax else None
        self.vocabulary = model.vocabulary
        self.index = None if config.index is None else Index(Path(config.index))
        if self.index is not None:
            self.index.check_model(self.card)
        self.tokenizer = Tokenizer(model.text or WHITESPACE)
        self._begin_threads()
        renew_at_fork(self, Service._begin_threads)
        self.facts = {
            "layers": self.embedder.n_layers,
            "dim": self.embedder.dim,
            "scores": self.scorer is not None,
            "index_tokens": None if self.index is None else self.index.record.tokens,
            "language": examples.spoken(model.card, model.text),
            "tokens": self.tokenizer.config.tokens,
        }
        """The fields of /info that are not in its clients' schema."""
        self.metrics = Metrics()
        self.batcher = Batcher(
            self._embed, self.embedder.batch_tokens, config.queue_tokens, config.wait, self.metrics.batch
        )
        self.metrics.watch(lambda: self.batcher.waiting)
        check_one_vector(config.layers, "text")  # as /embed and /v1/embeddings promise
        self.pooled = BatchKind(config.layers, config.pool)
        """The layers and pooling of routes whose clients cannot choose them."""
        self.check(self.pooled)

    def _begin_threads(self) -> None:
        self._tokenizing = ThreadPoolExecutor(1, "elmo-tokenizer")  # the tokenizer must stay in one thread
        self._writing = ThreadPoolExecutor(1, "elmo-answers")

    def _between(self) -> None:
        self.batcher.between()

    def check(self, kind: BatchKind) -> None:
        """Raises InputError for unknown layers or pooling, and for more layers than there are."""
        layers, most = kind.layers, self.embedder.n_layers
        layer_selector(layers, most)
        if isinstance(layers, list) and len(layers) > most:  # an answer that is not JSON would have any size
            raise InputError(f"layers has {len(layers)} numbers; this model has {most} layers: name each once")
        vector_shaper(kind.layers, kind.pool)

    async def split(
        self, given: Sequence[str | list[str]], cut: Cut | None = None, lines: bool = False
    ) -> list[SplitText]:
        """Splits texts into sentences of tokens, as `Embedder.embed` does; a list of tokens is one sentence.

        With `lines`, a line of a text is one sentence. With `cut`, a text that is too long loses that end. Raises
        RequestTooLarge and EmptyRequest.
        """
        if not given:
            raise EmptyRequest("no sentences; at least one is expected")
        if len(given) > self.config.most_sentences:
            raise RequestTooLarge(
                f"{len(given):,} sentences; at most {self.config.most_sentences:,} are accepted: send fewer"
            )
        splits: list[SplitText] = []
        steps = self._split(given, cut, lines, splits)
        while await asyncio.wrap_future(self._tokenizing.submit(_step, steps)):
            pass
        return splits

    def _split(
        self, given: Sequence[str | list[str]], cut: Cut | None, lines: bool, splits: list[SplitText]
    ) -> Iterator[None]:
        """Appends each text, in steps, and stops at the limit, since spaCy takes long for some texts."""
        left = self.config.most_tokens - 2 * len(given)
        for each in given:
            growing = _Growing(self.config.most_tokens - 2, cut)
            for piece in self._pieces(each, lines) if isinstance(each, str) else [each]:
                for part in self.tokenizer.parts(piece) if isinstance(piece, str) else [piece]:
                    growing.add(part)
                    if len(growing.tokens) > left:
                        raise RequestTooLarge(f"more than the limit of {self.config.most_tokens:,} tokens: send fewer")
                    if growing.is_full:
                        break
                    yield
                growing.divide(self.tokenizer.divided if isinstance(piece, str) and not lines else None)
                if growing.is_full:
                    break
            left -= len(growing.tokens)
            splits.append(growing.split(each if isinstance(each, str) else ""))

    def _pieces(self, text: str, lines: bool) -> Iterator[str]:
        """Yields the lines of a text, or the pieces into which the tokenizer divides it."""
        for line in LINE_END.split(text):
            yield from [line] if lines else self.tokenizer.pieces(line)

    async def embedded(
        self, given: list[str], kind: BatchKind, truncate: bool | None = False, cut: Cut = "Right"
    ) -> tuple[list[SplitText], list[np.ndarray]]:
        """Returns the tokens and the vectors of texts. Raises InputError for a text without tokens."""
        splits = await self.split(given, cut if truncate else None)
        for number, split in enumerate(splits):
            if not split.tokens:
                raise InputError(f"input {number} is empty; a text with at least one token is expected")
        self.check_json(splits, kind)
        return splits, await self.vectors(splits, kind)

    async def one_each(
        self,
        given: list[str],
        dimensions: int | None,
        normalize: bool,
        truncate: bool | None = False,
        cut: Cut = "Right",
    ) -> tuple[list[SplitText], np.ndarray]:
        """Returns the tokens of texts and one vector for each, (texts, D), of length 1 with `normalize`.

        Raises InputError as `embedded` does, and if `dimensions` is another size than that of the vectors.
        """
        size = vector_size(self.config.layers, self.embedder.n_layers, self.embedder.dim)
        if dimensions not in (None, size):
            raise InputError(f"dimensions is {dimensions}; the vectors of this model have {size}: omit it")
        splits, found = await self.embedded(given, self.pooled, truncate, cut)
        rows = np.stack(found)
        return splits, unit_vectors(rows).astype(np.float32) if normalize else rows

    def placed(self, split: SplitText) -> list[dict[str, Any]]:
        """Returns each token with its id and its place in the text, as text-embeddings-inference writes them.

        The two boundaries of each sentence are returned as tokens, too.
        """
        rows, end = [], 0
        for first, last in split.sentences or [(0, 0)]:
            rows.append(self._row(BOS, True))
            for token in split.tokens[first:last]:
                start = split.text.find(token, end)
                end = start + len(token) if start >= 0 else end
                # A tokenizer may change letters, so that the text does not hold the token.
                rows.append(self._row(token, False, *((start, end) if start >= 0 else (None, None))))
            rows.append(self._row(EOS, True))
        return rows

    def _row(self, token: str, special: bool, start: int | None = None, stop: int | None = None) -> dict[str, Any]:
        number = None if self.vocabulary is None else self.vocabulary.id(token)
        return {"id": number, "text": token, "special": special, "start": start, "stop": stop}

    def check_json(self, splits: Sequence[SplitText], kind: BatchKind) -> None:
        """Raises RequestTooLarge if the vectors of the texts have too many numbers for JSON."""
        rows = sum(len(split.tokens) for split in splits) if kind.pool is None else len(splits)
        layers = self.embedder.n_layers if kind.layers in ("all", "concat") else 1
        if keeps_layers(kind.layers) and kind.layers != "all":
            layers = len(kind.layers)  # type: ignore[arg-type]
        if (numbers := rows * layers * self.embedder.dim) > self.config.most_numbers:
            raise RequestTooLarge(
                f"{numbers:,} numbers in JSON; at most {self.config.most_numbers:,} are accepted: send fewer sentences,"
                " or ask /vectors with pool, one of the layers, or accept: application/x-npz"
            )

    async def written(self, request: Request, function: Callable[..., Response], *given: Any) -> Response:
        """Calls `function` and compresses its answer if the client accepts that, in a thread, as both may take long.

        The answer names the model in a header, since another may answer the next request of a page that stays open.
        """
        accepts = request.headers.get("accept-encoding", "")
        response = await asyncio.wrap_future(
            self._writing.submit(lambda: compressed_response(function(*given), accepts))
        )
        response.headers["x-model-sha"] = self.card["sha256"]
        return response

    async def vectors(self, splits: Sequence[SplitText], kind: BatchKind) -> list[np.ndarray]:
        """Returns one array per text, as `Embedder.embed` does. Raises the errors of `Batcher.submit` and `answer`."""
        self.check(kind)
        return await self._accepted(self.batcher.submit(list(splits), kind, _size(splits)), splits)

    async def call(self, function: Callable[[], T], splits: Sequence[SplitText]) -> T:
        """Runs `function` in the model's thread and returns its result; `splits` give its size."""
        return await self._accepted(self.batcher.call(function, _size(splits)), splits)

    async def _accepted(self, future: "Future[T]", splits: Sequence[SplitText]) -> T:
        """Returns the answer to a request that the queue has accepted."""
        self.metrics.tokens.inc(sum(len(split.tokens) for split in splits))
        return await asyncio.wrap_future(future)

    def _embed(self, splits: list[SplitText], kind: BatchKind) -> list[np.ndarray]:
        return list(self.embedders[kind.state].embed_stream(splits, kind.layers, kind.pool))


def _size(splits: Sequence[SplitText]) -> int:
    """Returns the number of tokens that the model reads, with the two boundaries of each sentence."""
    return sum(len(split.tokens) + 2 * max(1, len(split.sentences)) for split in splits)


class _Growing:
    """The tokens of a text while they are found, at most `most` of them with `cut`, and where its sentences end."""

    def __init__(self, most: int, cut: Cut | None) -> None:
        self._most, self._cut = most, cut and cut.lower()
        self.tokens: list[str] = []
        self._ends: list[int] = []

    @property
    def is_full(self) -> bool:
        """Whether the rest of the text would be cut off."""
        return self._cut == "right" and len(self.tokens) == self._most

    def add(self, tokens: Sequence[str]) -> None:
        """Adds tokens of a sentence that has not ended."""
        self.tokens += tokens
        surplus = len(self.tokens) - self._most
        if surplus > 0 and self._cut == "left":
            del self.tokens[:surplus]
            self._ends = [end - surplus for end in self._ends if end > surplus]
        elif self._cut == "right":
            del self.tokens[self._most :]

    def divide(self, divided: Callable[[list[str]], list[list[str]]] | None) -> None:
        """Ends a sentence here. `divided` may divide the tokens since the last end into several sentences."""
        end = self._ends[-1] if self._ends else 0
        rest = self.tokens[end:]
        for sentence in [rest] if divided is None else divided(rest):
            end += len(sentence)
            self._ends += [end] if sentence else []

    def split(self, text: str) -> SplitText:
        """Returns the text so far."""
        return SplitText(text, tuple(self.tokens), None, tuple(pairwise([0, *self._ends])))


def _step(steps: Iterator[None]) -> bool:
    """Works for a moment; returns whether there is more to do."""
    end = time.monotonic() + STEP
    return any(time.monotonic() > end for _ in steps)


def with_limits(config: ServeConfig, **limits: float | None) -> ServeConfig:
    """Replaces limits of the configuration; None keeps a limit.

    Raises InputError if a limit is not above 0, or is beyond `LARGEST_LIMIT`, as infinity is.
    """
    given = {name: value for name, value in limits.items() if value is not None}
    for name, value in given.items():
        if not 0 < value <= LARGEST_LIMIT:
            raise InputError(
                f"--{name.replace('_', '-')} is {value}; a number above 0, up to {LARGEST_LIMIT:,}, is expected"
            )
    return replace(config, **given)  # type: ignore[arg-type]
