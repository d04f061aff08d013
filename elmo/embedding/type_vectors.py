"""Makes one vector per distinct word, the mean over its occurrences in a text, and writes word2vec's text format.

The first line of the format has the numbers of words and of dimensions; then each line has a word and its numbers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np
from jaxtyping import Float

from elmo.disk.files import atomic_path
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import Layers, check_one_vector, vector_size
from elmo.errors import InputError, path_of
from elmo.text.records import TextRecord, as_records

FIRST_ROWS = 1024


@dataclass(frozen=True)
class DistinctWords:
    """Distinct words, in order of first occurrence."""

    words: list[str]
    counts: list[int]
    means: Float[np.ndarray, "V X"]
    source: str = "the text"
    """The name of the text in errors."""

    @property
    def dim(self) -> int:
        """The size of a vector."""
        return self.means.shape[1]


def average_types(
    embedder: Embedder,
    sentences: Iterable[Sequence[str] | TextRecord],
    layers: Layers = "average",
    lowercase: bool = False,
    progress: Callable[[int], None] | None = None,
    source: str | Path = "the text",
) -> DistinctWords:
    """Returns the mean vector of every distinct word of `sentences`; `layers` is any choice that gives one vector.

    `sentences` are lists of tokens, or records (`elmo.text.records`). With `lowercase`, words that differ only in case
    are merged, but they are embedded as written. Whitespace inside a word becomes `_`, since the format cannot hold it.
    The table takes 8 bytes per number. Raises InputError, which names `source`, if there is no word.
    """
    check_one_vector(layers, "word")
    rows: dict[str, int] = {}
    counts: list[int] = []
    sums = np.zeros((FIRST_ROWS, vector_size(layers, embedder.n_layers, embedder.dim)))
    read = 0
    embedded = embedder.embed_items(as_records(sentences), attrgetter("tokens"), layers)
    for number, (record, vectors) in enumerate(embedded, 1):
        names = ["_".join(token.split()) for token in record.tokens]
        names = [name.lower() for name in names] if lowercase else names
        places = [rows.setdefault(name, len(rows)) for name in names]
        counts.extend([0] * (len(rows) - len(counts)))
        for place in places:
            counts[place] += 1
        if (more := len(rows) - len(sums)) > 0:
            sums = np.concatenate([sums, np.zeros((max(more, len(sums)), sums.shape[1]))])
        np.add.at(sums, places, vectors)
        read += len(record.tokens)
        if progress is not None:
            progress(number)
    if not read:
        raise InputError(f"{source}: contains no words; give text")
    means = sums[: len(rows)] / np.array(counts)[:, None]
    return DistinctWords(list(rows), counts, means.astype(np.float32), str(source))


def write_word2vec(types: DistinctWords, path: str | Path, min_count: int = 1, overwrite: bool = False) -> int:
    """Writes the words that occur at least `min_count` times, the most frequent first, and returns their number."""
    path = path_of("the output", path)
    order = sorted(range(len(types.words)), key=lambda row: -types.counts[row])
    order = [row for row in order if types.counts[row] >= min_count and types.words[row]]
    if not order:
        most = max(types.counts)
        raise InputError(f"{types.source}: no word occurs {min_count} times, at most {most} times; lower min_count")
    with atomic_path(path, overwrite) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(order)} {types.dim}\n")
        for row in order:
            numbers = " ".join(map(str, types.means[row]))
            file.write(f"{types.words[row]} {numbers}\n")
    return len(order)
