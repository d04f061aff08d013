"""Computes the vectors of sentences some steps at a time, so that no sentence is too long for the memory.

- A row of the batch is one sentence, or several that are read in turn, each from the zero state. So all rows stay busy
  until the end, and each step reads the weights for many rows.
- A layer needs only the layer below at the same position and direction. So both directions run through all layers for
  their first steps (the forward one reads the beginnings of the sentences, the backward one their ends), and then
  continue from the resulting state. This gives exactly what one pass over whole sentences gives.
- The CPU writes the vectors of each part to the arrays of their sentences. A GPU collects them in one tensor, and sends
  it once.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
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
MOST_BYTES_ON_GPU = 1 << 30
"""The most bytes of vectors that a GPU keeps until all sentences are read."""


@dataclass(frozen=True)
class _Row:
    """A row of the batch, with what each direction reads at each of its t steps, in that direction's order."""

    words: Int[np.ndarray, "2 t"]
    """The numbers of the words; `<S>` is 0 and `</S>` is 1."""
    follows: Bool[np.ndarray, "1 t"]
    """True at the steps at which a sentence follows another one."""
    sentences: list[tuple[int, int]]
    """The number of each sentence, and the step of the boundary before the tokens whose vectors are kept."""

    @classmethod
    def of(cls, members: list[int], sentences: Sequence[list[int]], twice: bool) -> "_Row":
        """Makes the row of the sentences with these numbers. `twice` is that of `read_independent`."""
        words: tuple[list[int], list[int]] = ([], [])
        starts, places = [], []
        for number in members:
            starts.append(len(words[0]))
            for direction, own in enumerate(words):
                ordered = sentences[number][:: -1 if direction else 1]
                if twice:  # as between sentences in pretraining, no direction reads the boundary in between
                    own += (direction, *ordered)
                own += (direction, *ordered, 1 - direction)
            places.append((number, len(words[0]) - len(sentences[number]) - 2))
        follows = np.zeros((1, len(words[0])), bool)
        follows[0, starts[1:]] = True
        return cls(np.array(words, np.int64), follows, places)

    def __len__(self) -> int:
        return self.words.shape[1]


class _Here:
    """The arrays of all sentences, which the CPU fills."""

    def __init__(self, rows: list[_Row], counts: list[int], part: Float[Tensor, "... T B P"]) -> None:
        """Makes arrays for sentences of `counts` tokens, for vectors as in `part`."""
        self._rows = rows
        *layers, _, _, size = part.shape
        dtype = torch.empty(0, dtype=part.dtype, device="cpu").numpy().dtype
        self._arrays = [np.empty((*layers, count, 2 * size), dtype) for count in counts]

    def put(self, start: int, direction: int, part: Float[Tensor, "... T B P"]) -> None:
        """Writes the vectors of one direction's steps from `start` on to their tokens' places."""
        selected = part.cpu().numpy()
        end, size = start + selected.shape[-3], selected.shape[-1]
        for place, row in enumerate(self._rows[: selected.shape[-2]]):
            for number, begin in row.sentences:
                array = self._arrays[number]
                tokens = array.shape[-2]
                # A sentence's first and last steps are its boundaries, in both directions.
                first, last = max(start, begin + 1), min(end, begin + tokens + 1)
                if first >= last:
                    continue
                steps = selected[..., first - start : last - start, place, :]
                low, high = first - begin - 1, last - begin - 1
                if direction == 0:
                    array[..., low:high, :size] = steps
                else:
                    array[..., tokens - high : tokens - low, size:] = steps[..., ::-1, :]

    def arrays(self) -> Iterator[np.ndarray]:
        """Yields the arrays, and forgets each."""
        self._arrays.reverse()
        while self._arrays:
            yield self._arrays.pop()


class _There:
    """The vectors of all sentences on a GPU, sentence by sentence, which are sent to the CPU at once.

    The last place takes what is read at boundaries and after a row's end.
    """

    def __init__(self, rows: list[_Row], counts: list[int], part: Float[Tensor, "... T B P"]) -> None:
        """Makes room for the vectors of sentences of `counts` tokens, as in `part`."""
        self._counts, self._layers = counts, part.shape[:-3]
        layers, total = self._layers.numel(), sum(counts)
        self._vectors = part.new_empty(layers * total + 1, 2, part.shape[-1])
        firsts = np.cumsum([0, *counts])
        lowest = np.append(np.arange(total) + (layers - 1) * np.repeat(firsts[:-1], counts), layers * total)
        apart = np.append(np.repeat(counts, counts), 0)
        self._lowest, self._apart = (torch.from_numpy(each).to(part.device) for each in (lowest, apart))
        self._tokens = [np.full((2, len(row)), total) for row in rows]
        for tokens, row in zip(self._tokens, rows, strict=True):
            for number, begin in row.sentences:
                own = np.arange(firsts[number], firsts[number + 1])
                tokens[:, begin + 1 : begin + 1 + len(own)] = own, own[::-1]

    def put(self, start: int, direction: int, part: Float[Tensor, "... T B P"]) -> None:
        """Writes the vectors of one direction's steps from `start` on to their tokens' places."""
        steps, rows = part.shape[-3:-1]
        of_direction = [tokens[direction : direction + 1] for tokens in self._tokens[:rows]]
        tokens = torch.from_numpy(_steps(of_direction, start, start + steps, len(self._lowest) - 1)).to(part.device)
        layer = torch.arange(self._layers.numel(), device=part.device)[:, None, None]
        places = self._lowest[tokens] + layer * self._apart[tokens]
        self._vectors[places.flatten(), direction] = part.flatten(0, -2)

    def arrays(self) -> Iterator[np.ndarray]:
        """Yields copies of the arrays, so that none keeps the others in memory."""
        like = {"dtype": self._vectors.dtype, "device": "cpu", "pin_memory": self._vectors.is_cuda}
        there = torch.empty(self._vectors.shape, **like)
        vectors = there.copy_(self._vectors).flatten(1).numpy()
        begin = 0
        for count in self._counts:
            end = begin + self._layers.numel() * count
            yield vectors[begin:end].reshape(*self._layers, count, vectors.shape[1]).copy()
            begin = end


def read_sentences(
    bilm: BiLM | GraphReader,
    words: WordVectors,
    sentences: Sequence[Sentence],
    select: Selection,
    state: LstmState | None = None,
    max_tokens: int = 2048,
    dtype: torch.dtype = torch.float32,
) -> tuple[list[np.ndarray], LstmState]:
    """Returns an array (N, T, D) or (T, D) per sentence, without its boundaries, and the state after its last token.

    At most `max_tokens` tokens (at least one per sentence) are processed at once; apart from the arrays, the memory
    depends only on that number.
    """
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    state = bilm.initial_state(len(order)) if state is None else state
    state = LstmState(*(part[:, :, order].clone() for part in state))
    rows = [[number] for number in order]
    arrays, state = _read(bilm, words, sentences, rows, select, state, max_tokens, dtype)
    back = np.argsort(order)
    return list(arrays), LstmState(*(part[:, :, back] for part in state))


def read_independent(
    bilm: BiLM | GraphReader,
    words: WordVectors,
    sentences: Sequence[Sentence],
    select: Selection,
    max_tokens: int,
    max_rows: int,
    twice: bool = False,
    between: Callable[[], object] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Iterator[np.ndarray]:
    """Yields the arrays of `read_sentences` for sentences that all start from the zero state, in at most `max_rows`.

    With `twice`, every sentence is read twice, and the arrays are those of the second reading. `between` is called now
    and then; an exception that it raises ends the reading. All sentences are read before this function returns.
    """
    rows = _pack([len(sentence) for sentence in sentences], min(max_rows, max_tokens), twice)
    state = bilm.initial_state(len(rows))
    return _read(bilm, words, sentences, rows, select, state, max_tokens, dtype, twice, between)[0]


def _pack(counts: Sequence[int], max_rows: int, twice: bool) -> list[list[int]]:
    """Puts each sentence, longest first, into the shortest row; returns the numbers of each, the longest row first.

    `counts` are the numbers of their tokens.
    """
    rows: list[list[int]] = [[] for _ in range(min(max_rows, len(counts)))]
    steps = [(0, row) for row in range(len(rows))]
    for number in sorted(range(len(counts)), key=lambda number: -counts[number]):
        before, row = steps[0]
        rows[row].append(number)
        read = 2 * counts[number] + 3 if twice else counts[number] + 2
        heapq.heapreplace(steps, (before + read, row))
    return [rows[row] for _, row in sorted(steps, key=lambda each: (-each[0], each[1]))]


@torch.inference_mode()
def _read(
    bilm: BiLM | GraphReader,
    words: WordVectors,
    sentences: Sequence[Sentence],
    packed: list[list[int]],
    select: Selection,
    state: LstmState,
    max_tokens: int,
    dtype: torch.dtype,
    twice: bool = False,
    between: Callable[[], object] | None = None,
) -> tuple[Iterator[np.ndarray], LstmState]:
    """The arrays of all sentences, and the state, which is changed in place. `packed` are the sentences of each row."""
    numbers = {BOS: 0, EOS: 1}
    read = [[numbers.setdefault(word, len(numbers)) for word in sentence] for sentence in sentences]
    known, counts = list(numbers), list(map(len, sentences))
    rows = [_Row.of(members, read, twice) for members in packed]
    lengths = np.array([len(row) for row in rows])
    vectors: _Here | _There | None = None
    start = 0
    while start < lengths.max(initial=0):
        going = int((lengths > start).sum())  # the first rows; the others have ended
        end = min(start + max(1, max_tokens // going), int(lengths[0]))
        if between is not None:
            end = min(end, start + MOST_STEPS)
        active = (lengths[:, None] > np.arange(start, end)).sum(0).tolist()
        inputs, same = _token_vectors(words, known, _steps([row.words for row in rows[:going]], start, end))
        keep = torch.from_numpy(~_steps([row.follows for row in rows[:going]], start, end)).to(inputs.device)
        outputs, after = bilm.read(
            inputs, LstmState(*(part[:, :, :going] for part in state)), active, keep.expand(2, -1, -1), same=same
        )
        for part, new in zip(state, after, strict=True):
            part[:, :, :going] = new
        for direction in range(2):
            layers = torch.stack([inputs[direction], *(output[direction] for output in outputs)])  # N T B P
            selected = select(layers).to(dtype)
            if vectors is None:
                size = 2 * selected.shape[:-3].numel() * sum(counts) * selected.shape[-1] * selected.element_size()
                is_there = selected.device.type != "cpu" and size <= MOST_BYTES_ON_GPU
                vectors = (_There if is_there else _Here)(rows, counts, selected)
            vectors.put(start, direction, selected)
            del layers, selected
        del inputs, outputs
        start = end
        if between is not None and start < lengths.max():
            between()
    return iter(()) if vectors is None else vectors.arrays(), state


def _steps(rows: list[Shaped[np.ndarray, "d _"]], start: int, end: int, rest: int = 0) -> Shaped[np.ndarray, "d T B"]:
    """The steps from `start` to `end` of all rows; a row that has ended has `rest`."""
    found = np.full((rows[0].shape[0], len(rows), end - start), rest, rows[0].dtype)
    for number, row in enumerate(rows):
        part = row[:, start:end]
        found[:, number, : part.shape[1]] = part
    return found.transpose(0, 2, 1)


def _token_vectors(
    words: WordVectors, known: list[str], numbers: Int[np.ndarray, "2 T B"]
) -> tuple[Float[Tensor, "2 T B P"], Int[Tensor, "2 T B"]]:
    """The vectors of the words with these numbers, and numbers that are equal for equal words."""
    flat = numbers.ravel()
    order = np.arange(len(flat))
    first = np.empty(len(known), np.int64)
    first[flat[::-1]] = order[::-1]  # of equal places, the last assignment holds, so each word has its first one
    is_new = first[flat] == order
    index = (np.cumsum(is_new) - 1)[first[flat]]
    vectors = words([known[number] for number in flat[is_new]])
    places = torch.from_numpy(index.reshape(numbers.shape)).to(vectors.device)
    return vectors[places], places
