"""Computes the vectors of sentences some steps at a time, so that no sentence is too long for the memory.

- A row of the batch is one sentence, or several that are read in turn, each from the zero state. So all rows stay busy
  until the end, and each step reads the weights for many rows.
- A layer needs only the layer below at the same position and direction. So both directions run through all layers for
  their first steps (the forward one reads the beginnings of the sentences, the backward one their ends), and then
  continue from the resulting state. This gives exactly what one pass over whole sentences gives.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from elmo.embedding.graphs import GraphReader
from elmo.embedding.layers import Selection
from elmo.embedding.words import WordVectors
from elmo.model.bilm import BiLM
from elmo.text.marks import BOS, EOS
from elmo.types import LstmState

Sentence = Sequence[str]
MOST_STEPS = 256
"""The most steps between two interruptions: a step of one long sentence takes almost as long as one of many rows."""


@dataclass
class _Row:
    """The tokens of a row of the batch, in the reading order of each direction."""

    forward: list[str] = field(default_factory=list)
    backward: list[str] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """The steps at which sentences begin, which are the same in both directions."""
    sentences: list[tuple[int, int]] = field(default_factory=list)
    """The number of each sentence, and the position of the boundary before the tokens whose vectors are kept."""

    def append(self, number: int, sentence: Sentence, twice: bool = False) -> None:
        self.begins.append(len(self.forward))
        if twice:  # as between sentences in pretraining, no direction reads the boundary in between
            self.forward += (BOS, *sentence)
            self.backward += (EOS, *reversed(sentence))
        self.sentences.append((number, len(self.forward)))
        self.forward += (BOS, *sentence, EOS)
        self.backward += (EOS, *reversed(sentence), BOS)

    def __len__(self) -> int:
        return len(self.forward)


def read_sentences(
    bilm: BiLM | GraphReader,
    words: WordVectors,
    sentences: Sequence[Sentence],
    select: Selection,
    state: LstmState | None = None,
    max_tokens: int = 2048,
    numbers: torch.dtype = torch.float32,
) -> tuple[list[np.ndarray], LstmState]:
    """Returns an array (N, T, D) or (T, D) per sentence, without its boundaries, and the state after its last token.

    At most `max_tokens` tokens (at least one per sentence) are processed at once; apart from the arrays, the memory
    depends only on that number.
    """
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    rows = [_Row() for _ in order]
    for row, number in zip(rows, order, strict=True):
        row.append(number, sentences[number])
    state = bilm.initial_state(len(rows)) if state is None else state
    arrays, state = _read(
        bilm, words, rows, select, LstmState(*(part[:, :, order].clone() for part in state)), max_tokens, numbers
    )
    back = np.argsort(order)
    return arrays, LstmState(*(part[:, :, back] for part in state))


def read_independent(
    bilm: BiLM | GraphReader,
    words: WordVectors,
    sentences: Sequence[Sentence],
    select: Selection,
    max_tokens: int,
    max_rows: int,
    twice: bool = False,
    between: Callable[[], object] | None = None,
    numbers: torch.dtype = torch.float32,
) -> list[np.ndarray]:
    """Returns the arrays of `read_sentences` for sentences that all start from the zero state, in at most `max_rows`.

    With `twice`, every sentence is read twice, and the arrays are those of the second reading. `between` is called now
    and then; an exception that it raises ends the reading.
    """
    rows = _pack(sentences, min(max_rows, max_tokens), twice)
    arrays, _ = _read(bilm, words, rows, select, bilm.initial_state(len(rows)), max_tokens, numbers, between)
    return arrays


def _pack(sentences: Sequence[Sentence], max_rows: int, twice: bool) -> list[_Row]:
    """Packs sentences into rows of similar length: each sentence, longest first, goes to the shortest row."""
    rows = [_Row() for _ in range(min(max_rows, len(sentences)))]
    lengths = [(0, number) for number in range(len(rows))]
    for number in sorted(range(len(sentences)), key=lambda number: -len(sentences[number])):
        _, row = lengths[0]
        rows[row].append(number, sentences[number], twice)
        heapq.heapreplace(lengths, (len(rows[row]), row))
    return sorted(rows, key=len, reverse=True)


@torch.inference_mode()
def _read(
    bilm: BiLM | GraphReader,
    words: WordVectors,
    rows: list[_Row],
    select: Selection,
    state: LstmState,
    max_tokens: int,
    numbers: torch.dtype,
    between: Callable[[], object] | None = None,
) -> tuple[list[np.ndarray], LstmState]:
    """The arrays of all sentences in `rows` (longest first) by number, and the state, which is changed in place."""
    lengths = np.array([len(row) for row in rows])
    arrays: list[np.ndarray] = []
    coming: list[_Coming] = []
    start = 0

    def put(parts: list[_Coming]) -> None:
        for part in parts:
            selected = part.array()
            arrays.extend([] if arrays else _empty(selected, rows))
            _put(selected, rows[: selected.shape[-2]], arrays, part.start, part.direction)

    while start < lengths.max(initial=0):
        going = int((lengths > start).sum())  # the first rows; the others have ended
        end = min(start + max(1, max_tokens // going), int(lengths[0]))
        if between is not None:
            end = min(end, start + MOST_STEPS)
        active = (lengths[:, None] > np.arange(start, end)).sum(0).tolist()
        inputs, same = _token_vectors(words, rows[:going], start, end)
        keep = _keep(rows[:going], start, end).to(inputs.device)
        outputs, after = bilm.read(
            inputs, LstmState(*(part[:, :, :going] for part in state)), active, keep.expand(2, -1, -1), same=same
        )
        for part, new in zip(state, after, strict=True):
            part[:, :, :going] = new
        for direction in range(2):
            layers = torch.cat([inputs[None, direction], outputs[:, direction]])  # N T B P
            part = _Coming.of(select(layers).to(numbers), start, direction)
            if part.arrived is None:
                put([part])
            else:
                coming.append(part)
            del layers, part
        del inputs, outputs
        put(coming[:-2])  # the earlier vectors are copied while a GPU reads on
        del coming[:-2]
        start = end
        if between is not None and start < lengths.max():
            between()
    put(coming)
    return arrays, state


@dataclass(frozen=True)
class _Coming:
    """Vectors of one direction's steps from `start` on, on their way from a GPU."""

    numbers: Tensor
    arrived: torch.cuda.Event | None
    start: int
    direction: int

    @classmethod
    def of(cls, selected: Tensor, start: int, direction: int) -> "_Coming":
        if not selected.is_cuda:
            return cls(selected.cpu(), None, start, direction)
        there = torch.empty(selected.shape, dtype=selected.dtype, device="cpu", pin_memory=True)  # copied to at once
        there.copy_(selected, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(selected.device))
        return cls(there, arrived, start, direction)

    def array(self) -> np.ndarray:
        """Waits until the vectors have arrived, and returns them."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.numbers.numpy()


def _token_vectors(
    words: WordVectors, rows: list[_Row], start: int, end: int
) -> tuple[Float[Tensor, "2 T B P"], Int[Tensor, "2 T B"]]:
    """The word vectors of the steps from `start` to `end`, in the reading order of each direction, and word ids."""
    places: dict[str, int] = {}
    index: Int[np.ndarray, "2 B T"] = np.zeros((2, len(rows), end - start), np.int64)
    for number, row in enumerate(rows):
        for direction, tokens in enumerate((row.forward, row.backward)):
            found = [places.setdefault(word, len(places)) for word in tokens[start:end]]
            index[direction, number, : len(found)] = found
    vectors = words(list(places))
    places_of_tokens = torch.from_numpy(index.transpose(0, 2, 1)).to(vectors.device)
    return vectors[places_of_tokens], places_of_tokens


def _keep(rows: list[_Row], start: int, end: int) -> Bool[Tensor, "T B"]:
    """A mask of the states to keep: False where a sentence follows another one in its row."""
    keep = torch.ones(end - start, len(rows), dtype=torch.bool, device="cpu")
    for number, row in enumerate(rows):
        for begin in row.begins[1:]:
            if start <= begin < end:
                keep[begin - start, number] = False
    return keep


def _empty(selected: Float[np.ndarray, "... T B P"], rows: list[_Row]) -> list[np.ndarray]:
    *layers, _, _, size = selected.shape
    tokens = {}
    for row in rows:
        ends = [*row.begins[1:], len(row)]
        tokens |= {number: end - begin - 2 for (number, begin), end in zip(row.sentences, ends, strict=True)}
    return [np.empty((*layers, tokens[number], 2 * size), selected.dtype) for number in range(len(tokens))]


def _put(
    selected: Float[np.ndarray, "... T B P"], rows: list[_Row], arrays: list[np.ndarray], start: int, direction: int
) -> None:
    """Writes the vectors of one direction's steps from `start` on to their tokens' places."""
    end, size = start + selected.shape[-3], selected.shape[-1]
    for place, row in enumerate(rows):
        for number, begin in row.sentences:
            tokens = arrays[number].shape[-2]
            # A sentence's first and last steps are its boundaries, in both directions.
            first, last = max(start, begin + 1), min(end, begin + tokens + 1)
            if first >= last:
                continue
            steps = selected[..., first - start : last - start, place, :]
            low, high = first - begin - 1, last - begin - 1
            if direction == 0:
                arrays[number][..., low:high, :size] = steps
            else:
                arrays[number][..., tokens - high : tokens - low, size:] = steps[..., ::-1, :]
