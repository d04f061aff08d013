"""The sentences of a batch -> their vectors, some steps at a time, so that no sentence is too long for the memory.

A layer needs the layer below at the same position of the same direction only. So both directions go through all layers
of the first steps in their own reading order (forward the beginnings of the sentences, backward their ends), then of
the next steps from the state that was left: exactly what one go over whole sentences gives.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from elmo.embedding.layers import Selection
from elmo.embedding.words import WordVectors
from elmo.model.bilm import BiLM
from elmo.text.characters import BOS, EOS
from elmo.types import LstmState


@torch.inference_mode()
def read_sentences(
    bilm: BiLM,
    words: WordVectors,
    sentences: Sequence[Sequence[str]],
    select: Selection,
    state: LstmState | None = None,
    max_tokens: int = 2048,
) -> tuple[list[np.ndarray], LstmState]:
    """One array (N, T, D) or (T, D) for every sentence, boundaries dropped, and the state after its last token.

    At most `max_tokens` tokens (one of every sentence at least) are in work at once; besides the arrays, memory depends
    on them alone.
    """
    order = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))
    rows = [[BOS, *sentences[row], EOS] for row in order]
    lengths = np.array([len(row) for row in rows])
    state = bilm.initial_state(len(rows)) if state is None else state
    state = LstmState(*(part[:, :, order].clone() for part in state))
    arrays: list[np.ndarray] = []
    start = 0
    while start < lengths[0]:
        going = int((lengths > start).sum())  # the first rows; the others are at their ends
        end = min(start + max(1, max_tokens // going), int(lengths[0]))
        active = (lengths[:, None] > np.arange(start, end)).sum(0).tolist()
        inputs = _token_vectors(words, rows[:going], start, end)
        outputs, after = bilm.read(inputs, LstmState(*(part[:, :, :going] for part in state)), active)
        for part, new in zip(state, after, strict=True):
            part[:, :, :going] = new
        for direction in range(2):
            layers = torch.cat([inputs[None, direction], outputs[:, direction]])  # N T B P
            selected = select(layers).float().cpu().numpy()
            if not arrays:
                arrays = _empty(selected, lengths - 2)
            _put(selected, arrays, start, direction)
            del layers, selected
        del inputs, outputs
        start = end
    back = np.argsort(order)
    return [arrays[place] for place in back], LstmState(*(part[:, :, back] for part in state))


def _token_vectors(words: WordVectors, rows: list[list[str]], start: int, end: int) -> Float[Tensor, "2 T B P"]:
    """The word vectors of the steps from `start` to `end`, each direction in its own reading order."""
    places: dict[str, int] = {}
    index: Int[np.ndarray, "2 B T"] = np.zeros((2, len(rows), end - start), np.int64)
    for number, row in enumerate(rows):
        stop = min(end, len(row))
        forward, backward = row[start:stop], row[len(row) - stop : len(row) - start]
        for word in (*forward, *backward):
            places.setdefault(word, len(places))
        index[0, number, : stop - start] = [places[word] for word in forward]
        index[1, number, : stop - start] = [places[word] for word in reversed(backward)]
    vectors = words(list(places))
    return vectors[torch.from_numpy(index.transpose(0, 2, 1)).to(vectors.device)]


def _empty(selected: Float[np.ndarray, "... T B P"], lengths: Int[np.ndarray, " B"]) -> list[np.ndarray]:
    *layers, _, _, size = selected.shape
    return [np.empty((*layers, length, 2 * size), np.float32) for length in lengths.tolist()]


def _put(selected: Float[np.ndarray, "... T B P"], arrays: list[np.ndarray], start: int, direction: int) -> None:
    """Writes the vectors of one direction's steps from `start` on to where their tokens are."""
    size = selected.shape[-1]
    for number in range(selected.shape[-2]):
        tokens = arrays[number].shape[-2]
        # Step 0 and the last step are boundaries in either direction.
        first, last = max(start, 1), min(start + selected.shape[-3], tokens + 1)
        steps = selected[..., first - start : last - start, number, :]
        if direction == 0:
            arrays[number][..., first - 1 : last - 1, :size] = steps
        else:
            arrays[number][..., tokens + 1 - last : tokens + 1 - first, size:] = steps[..., ::-1, :]
