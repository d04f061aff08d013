"""The `Embedder` turns texts or tokenised sentences into arrays of vectors.

- Batches hold sentences of similar length within a budget of tokens; the results have the order of the input.
- `embed_stream` takes any number of sentences, of any length, at constant memory.
- A policy, "reset", "echo", "carry" or "warm", sets the LSTM state before a sentence.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, overload

import numpy as np
import torch

from elmo import formats, ops
from elmo.embedding.budget import BATCHES_OF_A_CHUNK, GPU_MEMORY, MEMORY, parse_bytes, take_tokens, tokens_within
from elmo.embedding.graphs import GraphReader
from elmo.embedding.layers import Layers, Selection, check_one_vector, layer_selector
from elmo.embedding.pooling import Pool, vector_shaper
from elmo.embedding.reading import read_independent, read_sentences
from elmo.embedding.returned import Returned, cosine_similarities, given_vectors, returned_vectors
from elmo.embedding.texts import SplitText, TextVectors, embed_texts, split_texts, told_apart
from elmo.embedding.words import WordVectors, word_encoder
from elmo.errors import InputError, check_choice, check_flag, check_whole, did_you_mean, shown
from elmo.machine import usable_device
from elmo.model.bilm import BiLM
from elmo.terminal import Counter
from elmo.text.batching import by_length, pair_results
from elmo.text.given import TEXTS, check_outer, check_sentences
from elmo.text.lexicon import Lexicon
from elmo.text.tokenizer import TextConfig, Tokenizer, text_of
from elmo.text.vocabulary import Vocabulary
from elmo.types import Dtype, LstmState

StatePolicy = Literal["reset", "echo", "carry", "warm"]
Sentence = Sequence[str]
Item = TypeVar("Item")
Progress = bool | Callable[[int, int | None], object] | None

NEUTRAL_TEXT = (
    "The morning was quiet and the streets were still empty .",
    "A few people waited for the bus near the old bridge .",
    "It had rained during the night , but the sky was clear again .",
    "Some shops were open already , and others would open later .",
    "She asked how long the journey would take , and he said about an hour .",
    "Nothing unusual happened that day .",
)
"""The text that is read before every sentence with the policy "warm", by default."""

ROWS, GPU_ROWS = 96, 512
"""The rows of a batch on a CPU and on a GPU, where a step takes as long for a few rows as for hundreds."""


class Embedder:
    """Turns texts, or sentences that are tokenised, into vectors with one model.

    `state` sets the LSTM state at the start of each sentence:

    - "reset": zero. A sentence's vectors depend on the sentence alone.
    - "echo": the state after reading the same sentence, which is read twice, so each direction knows all of it
      (Springer et al. 2024, Echo embeddings). The vectors also depend on the sentence alone.
    - "carry": the state after the sentence `batch_size` places before, as in the published programs: consecutive
      batches of `batch_size` sentences in input order, where row i passes its state to row i. A smaller last batch uses
      and changes only the first rows. Every call starts from zero, or with `keep_state` from the end of the last call,
      until `reset_state`.
    - "warm": the state after a neutral text (`warm_text`, whitespace-separated tokens); the same for every sentence.

    `text` says how texts are split into sentences and tokens, and in what spelling tokens are read: as in training.

    `vocabulary` is required if the model reads words: the vocabulary of its table (other words are its `<UNK>`), or the
    lexicon of a model that reads words and code points.

    `precision` is that of matrix products. On a CPU, the weights are packed for the fastest library; `library` forces
    one. Where float32 is faster, as on a CPU without bfloat16 instructions, it is used, with a warning. "int8-weights"
    is the fastest for one sentence at a time. Packed weights stay as they were: after more training, make a new
    embedder.

    `memory` limits the bytes of vectors in progress, as a number or as "500MB"; the default is 160 MB on a CPU and 1 GB
    on a GPU. It does not include the model, 32 MB of known words, the encoder's buffers for 128 words, and the array of
    a long sentence. It determines `batch_tokens`, the tokens that are read at once, unless that is given; a longer
    sentence is read in parts. With `release`, the weights of `bilm` are freed while they are packed for a CPU: this
    halves the memory and makes `bilm` unusable. `between` is called between two steps of a long reading ("reset" and
    "echo"), for programs that do other work in the meantime; an exception that it raises ends the reading.

    `dtype` is "float32", or "float16" for arrays of half the size, which a GPU sends in half the time.

    Threads may share an embedder, unless it has `keep_state` or writes a file with `resume`: then each thread needs its
    own. Forked processes may use their parent's embedder on a CPU, with one thread each.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        text: TextConfig | None = None,
        vocabulary: Vocabulary | Lexicon | None = None,
        device: str | torch.device | None = None,
        precision: ops.Precision = "float32",
        library: ops.Library | None = None,
        state: StatePolicy = "reset",
        batch_tokens: int | None = None,
        memory: int | str | None = None,
        batch_size: int = 32,
        keep_state: bool = False,
        warm_text: Sequence[str] = NEUTRAL_TEXT,
        release: bool = False,
        between: Callable[[], object] | None = None,
        dtype: Dtype = "float32",
    ) -> None:
        check_choice("dtype", dtype, get_args(Dtype))
        check_choice("state", state, get_args(StatePolicy))
        check_choice("precision", precision, get_args(ops.Precision))
        check_flag("keep_state", keep_state)
        if between is not None and not callable(between):
            raise InputError(f"between is {shown(between)}; a function without arguments is expected")
        default = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = usable_device(default if device is None else device)
        on_cpu = self.device.type == "cpu"
        in_bytes = (MEMORY if on_cpu else GPU_MEMORY) if memory is None else parse_bytes(memory)
        batch_tokens = tokens_within(in_bytes, bilm.config) if batch_tokens is None else batch_tokens
        check_whole("batch_tokens", batch_tokens)
        check_whole("batch_size", batch_size)
        if precision in ("int8", "int8-weights") and not on_cpu:
            raise InputError(f"precision {precision} is for the CPU, but the device is {self.device}; use bfloat16")
        if bilm.packed_for is not None and not on_cpu:
            raise InputError(f"the model is packed for a CPU, but the device is {self.device}; load it again")
        self.bilm = bilm.packed(precision, library, release) if on_cpu else bilm.to(self.device).eval()
        self._bfloat16_on_gpu = precision == "bfloat16" and not on_cpu
        has_kernels = not on_cpu and ops.has_kernels(torch.zeros(1, device=self.device))
        computed = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self._reader = GraphReader(self.bilm, computed) if has_kernels else self.bilm
        normalize = () if text is None else text.normalize
        self.words = WordVectors(self._reader, word_encoder(bilm.config, vocabulary, normalize), self.device)
        """The cache of the words that have been read so far, with their vectors."""
        self.text = text
        self.vocabulary = vocabulary
        self.state: StatePolicy = state
        self.dtype: Dtype = dtype
        self.precision: ops.Precision = self.bilm.packed_for[0] if self.bilm.packed_for else precision
        self.batch_tokens = batch_tokens
        self._rows = ROWS if on_cpu else GPU_ROWS
        self.batch_size = batch_size
        self.keep_state = keep_state
        self.warm_text = _checked_texts(warm_text)
        self._carried: LstmState | None = None
        self._warm: LstmState | None = None
        self._between = between
        self._own = threading.local()  # a tokenizer serves one thread

    @classmethod
    def load(cls, path: str | Path | None = None, *, weights: str | Path | None = None, **options: Any) -> "Embedder":
        """Returns an embedder with the model at `path` (see `elmo.formats.load`); `options` are those of the class.

        `weights` names the weights of an options file if they are elsewhere.
        """
        known = signature(Embedder.__init__).parameters.keys() - {"self", "bilm", "text", "vocabulary", "release"}
        for name in sorted(options.keys() - known):
            meant = did_you_mean(name, known) or f"; it has {', '.join(sorted(known))}"
            raise InputError(f"load() has no option {name!r}{meant}")
        return cls.of(formats.load(path, weights), release=True, **options)

    @classmethod
    def of(cls, model: formats.Model, *, release: bool = False, **options: Any) -> "Embedder":
        """Returns an embedder with a model that is loaded already; `options` are those of the class.

        With `release`, the weights of `model` are freed, too, so it cannot be used any more.
        """
        bilm = model.bilm()
        if release:
            model.weights.clear()
            if model.lm_head is not None:
                model.lm_head.clear()
        own = {"text": model.text, "vocabulary": model.inputs, "release": release}
        return cls(bilm, **(own | options))

    def __repr__(self) -> str:
        vectors = f"{self.n_layers} layers of {self.dim} dimensions"
        return f"<Embedder: {vectors}, {self.precision}, state {self.state!r}, on {self.device}>"

    def __reduce__(self) -> Any:
        raise TypeError("an Embedder cannot be copied or pickled; share it, or call elmo.load(path) in each process")

    @property
    def n_layers(self) -> int:
        """The number of layers (N), the token layer included."""
        return self.bilm.config.lstm.n_layers + 1

    @property
    def dim(self) -> int:
        """The size of a vector (D)."""
        return 2 * self.bilm.config.lstm.projection_dim

    @overload
    def embed(  # pyright: ignore[reportOverlappingOverload]
        self, sentences: str, layers: Layers = ..., pool: Pool | None = ..., *, progress: Progress = ...
    ) -> TextVectors: ...
    @overload
    def embed(
        self, sentences: Iterable[str], layers: Layers = ..., pool: Pool | None = ..., *, progress: Progress = ...
    ) -> list[TextVectors]: ...
    @overload
    def embed(
        self, sentences: Iterable[Sentence], layers: Layers = ..., pool: Pool | None = ..., *, progress: Progress = ...
    ) -> list[np.ndarray]: ...
    @overload
    def embed(
        self, sentences: Any, layers: Layers = ..., pool: Pool | None = ..., *, progress: Progress = ..., to: Returned
    ) -> Any: ...
    def embed(
        self,
        sentences: Any,
        layers: Layers = "all",
        pool: Pool | None = None,
        *,
        progress: Progress = None,
        to: str = "numpy",
    ) -> Any:
        """Returns one float32 array per text: (N, T, D) for "all" or several layers, (T, D) for any other choice.

        `sentences` are texts (strings, such as a list or a column of a data frame), each split into sentences and
        tokens as the model's training text was, or sentences as lists of tokens, which are read as they are. A list of
        strings is a list of texts, whatever their length; one string is one text, and gives one array. The arrays of
        texts are `TextVectors`, which know their tokens, sentences and characters.

        T is the number of tokens; an empty text or sentence has T = 0. `layers` is "all", "average", "sum", "top",
        "concat" (all layers side by side: (T, N D)), a layer's number (0 is the token layer), a list of layers, or a
        mix: "mix=0.2,0.3,0.5", also given as a list of floats.
        `pool` ("mean", "max" or "sum" over tokens) removes the axis T; a text without tokens gives zeros. The arrays
        are float16 if the embedder has `dtype="float16"`.

        `progress` is True to show a bar, or a function that is called with the number of texts done and the total
        (None if unknown). `to` is "numpy", "torch" (tensors; with `pool` a single one for all texts) or "pandas": a
        data frame with one row per token, or one per text with `pool`.

        Raises InputError, with the row, for a text that is missing (None, NaN) or not a text.
        """
        if isinstance(sentences, np.ndarray) and sentences.ndim == 0:
            sentences = sentences.item()
        if isinstance(sentences, str):
            found = self.embed([sentences], layers, pool, progress=progress, to=cast(Any, to))
            return found if to == "pandas" else found[0]
        check_choice("to", to, get_args(Returned))
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise InputError(f"progress is {shown(progress)}; True, or a function of (done, total), is expected")
        given: Any = list(sentences) if isinstance(sentences, Iterator) else sentences
        if to == "pandas" and isinstance(given, list | tuple):  # a frame names the tokens, which are read before
            given = [list(each) if isinstance(each, Iterator) else each for each in given]
        stream = self.embed_stream(given, layers, pool)
        if progress is not None and progress is not False:
            stream = _followed(stream, len(given) if hasattr(given, "__len__") else None, progress)
        found = returned_vectors(stream, given, pool, to)
        if to == "torch" and pool is not None and not len(found):  # a tensor of no texts has the sizes of one text
            alone = self._independent(iter([[]]), layer_selector(layers, self.n_layers))
            found = returned_vectors(map(vector_shaper(layers, pool), alone), [[]], pool, to)[:0]
        return found

    def embed_stream(self, sentences: Any, layers: Layers = "all", pool: Pool | None = None) -> Iterator[np.ndarray]:
        """Yields the arrays of `embed` one at a time and in order, for any number of sentences, at constant memory.

        Some sentences are read ahead, so that batches have sentences of similar length.
        """
        select, shape = layer_selector(layers, self.n_layers), vector_shaper(layers, pool)
        are_texts, rows = told_apart(sentences)
        alone = self._independent
        read = {"reset": alone, "echo": alone, "carry": self._in_order, "warm": self._warmed}[self.state]
        if not are_texts:
            return map(shape, read(check_sentences(rows, sentences), select))
        texts = split_texts(rows, sentences, self._tokenizer)
        return embed_texts(texts, lambda tokens: read(tokens, select), shape, pool is not None)

    def embed_items(
        self,
        items: Iterable[Item],
        tokens: Callable[[Item], Sentence | SplitText],
        layers: Layers = "all",
        pool: Pool | None = None,
    ) -> Iterator[tuple[Item, np.ndarray]]:
        """Yields every item with the vectors of its tokens or text, as `embed_stream` gives them."""
        return pair_results(items, tokens, lambda given: self.embed_stream(given, layers, pool))

    def split(self, text: str) -> list[list[str]]:
        """Splits a text as `embed` does, and returns the tokens of every sentence."""
        found = SplitText.of(text, self._tokenizer())
        return [list(found.tokens[begin:end]) for begin, end in found.sentences]

    def similarity(self, a: Any, b: Any, layers: Layers = "average", pool: Pool = "mean") -> Any:
        """Returns the cosines, -1 to 1, between `a` and `b`: a float for two vectors, (A, B) for lists of A and B.

        `a` and `b` are texts, lists of texts, or lists of tokenised sentences, which get one vector each by `layers`
        and `pool`; or they are vectors, such as `vectors.word("play")`: (D,) is one vector, and (T, D) are several.
        """
        return cosine_similarities(*(self._vectors_of(each, layers, pool) for each in (a, b)))

    def _vectors_of(self, given: Any, layers: Layers, pool: Pool) -> np.ndarray:
        """Returns given vectors as they are, and computes those of texts, (D,) or (B, D)."""
        check_one_vector(layers, "text")
        if pool is None:
            raise InputError("pool is None, but a similarity is of one vector each; try 'mean', or give vectors")
        vectors = given_vectors(given)
        return np.asarray(self.embed(given, layers, pool, to="numpy")) if vectors is None else vectors

    def _tokenizer(self) -> Tokenizer:
        """This thread's tokenizer. It is made only if there is text, since it imports spaCy."""
        if not hasattr(self._own, "tokenizer"):
            self._own.tokenizer = Tokenizer(text_of(self.text, pretokenized=False))
        return self._own.tokenizer

    def chunks(
        self, items: Iterator[Item], tokens: Callable[[Any], Sentence] = lambda sentence: sentence
    ) -> Iterator[list[Item]]:
        """Yields chunks of items, whose sentences are read ahead together.

        The last bits of a vector may depend on the other sentences of its chunk, and on nothing else.
        """
        while chunk := take_tokens(items, tokens, BATCHES_OF_A_CHUNK * self.batch_tokens):
            yield chunk

    def reset_state(self) -> None:
        """Resets the state that `keep_state` has kept from earlier calls."""
        self._carried = None

    def _independent(self, sentences: Iterator[Sentence], select: Selection) -> Iterator[np.ndarray]:
        """The arrays of sentences that each start from the zero state, chunk by chunk."""
        twice, dtype = self.state == "echo", getattr(torch, self.dtype)
        for number, chunk in enumerate(self.chunks(sentences)):
            if number and self._between is not None:
                self._between()
            with self._autocast():
                sizes = self.batch_tokens, self._rows
                arrays = read_independent(self._reader, self.words, chunk, select, *sizes, twice, self._between, dtype)
            yield from arrays

    def _warmed(self, sentences: Iterator[Sentence], select: Selection) -> Iterator[np.ndarray]:
        """The arrays of sentences that each start from the state after the neutral text, chunk by chunk."""
        for chunk in self.chunks(sentences):
            vectors: dict[int, np.ndarray] = {}
            for rows in by_length([len(sentence) + 2 for sentence in chunk], self.batch_tokens):
                state = LstmState(*(part.expand(-1, -1, len(rows), -1) for part in self._warm_state()))
                arrays, _ = self._run([chunk[row] for row in rows], select, state)
                vectors.update(zip(rows, arrays, strict=True))
            for row in range(len(chunk)):
                yield vectors.pop(row)

    def _in_order(self, sentences: Iterator[Sentence], select: Selection) -> Iterator[np.ndarray]:
        """The arrays of sentences in batches of `batch_size`, in input order, with carried state."""
        state = self._carried if self.keep_state else None
        state = state or self.bilm.initial_state(self.batch_size)
        while batch := list(islice(sentences, self.batch_size)):
            arrays, after = self._run(batch, select, LstmState(*(part[:, :, : len(batch)] for part in state)))
            parts = zip(after, state, strict=True)
            state = LstmState(*(torch.cat([new, old[:, :, len(batch) :]], dim=2) for new, old in parts))
            if self.keep_state:
                self._carried = state
            yield from arrays

    def _warm_state(self) -> LstmState:
        """The state of one row after the neutral text."""
        if self._warm is None:
            state = self.bilm.initial_state(1)
            for sentence in self.warm_text:
                _, state = self._run([sentence.split()], layer_selector("top", self.n_layers), state)
            self._warm = state
        return self._warm

    def _run(
        self, sentences: list[Sentence], select: Selection, state: LstmState
    ) -> tuple[list[np.ndarray], LstmState]:
        """The vectors of one batch without sentence boundaries, and the state after it."""
        with self._autocast():
            dtype = getattr(torch, self.dtype)
            return read_sentences(self._reader, self.words, sentences, select, state, self.batch_tokens, dtype)

    def _autocast(self) -> torch.autocast:
        """Sets the embedder's own precision, whatever the caller's autocast is."""
        kind = "cpu" if self.device.type == "cpu" else "cuda"
        return torch.autocast(kind, torch.bfloat16, enabled=self._bfloat16_on_gpu)


def _checked_texts(warm_text: Any) -> Sequence[str]:
    texts = [warm_text] if isinstance(warm_text, str) else warm_text
    for text in check_outer(texts, f"warm_text: {TEXTS}"):
        if not isinstance(text, str):
            raise InputError(f"warm_text has {shown(text)}; texts with spaces between tokens are expected")
    return texts


def _followed(
    stream: Iterator[np.ndarray], total: int | None, progress: Literal[True] | Callable[[int, int | None], object]
) -> Iterator[np.ndarray]:
    """Passes the arrays of a stream on, and reports how many have come."""
    with ExitStack() as stack:
        tell = stack.enter_context(Counter("texts", quiet=False)).update if progress is True else progress
        for done, vectors in enumerate(stream, 1):
            tell(done, total)
            yield vectors
