"""Static word vectors, which are read from a file in GloVe's text format or learned with the network.

Row 0 of the table is padding (zero), row 1 is for unknown words (the mean of the others), and the words follow.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo.errors import InputError
from elmo.text.word_vectors import read_entries
from elmo_lab.tasks.inputs import PADDING, InputConfig, Inputs

LEARNED_SCALE = 0.1
"""The standard deviation of learned vectors before the first step."""


@dataclass(frozen=True)
class StaticVectors:
    """Words and the table of their vectors: row `i + 2` is that of `words[i]`."""

    words: tuple[str, ...]
    table: Float[Tensor, "V E"]
    file: Path | None = None
    """A file with vectors of more words; None for learned vectors, or if all words of the file were read."""
    absent: tuple[str, ...] = ()
    """The words of the examples that this file lacks."""


@dataclass(frozen=True)
class VectorsFile:
    """The file that a network's static vectors were read from."""

    file: Path
    words: tuple[str, ...] = field(repr=False)
    """The words that were read from the file."""
    dim: int
    sha256: str
    """The `content_hash` of what was read."""
    given: bool = False
    """Whether the user named the file, which must then be right; the file that the training named may be missing."""


def make_vectors(config: InputConfig, train: Iterable[Sequence[str]], other: Iterable[str]) -> StaticVectors:
    """Makes the vectors that `config` describes, for the words of the training sentences and all `other` tokens.

    For `min_count`, words are counted over distinct sentences, since examples share sentences. Learned vectors begin at
    random, always with the same numbers. Without static vectors, the table is (2, 0). Raises InputError if the file of
    vectors is damaged or has none of the words.
    """
    if not config.static:
        return StaticVectors((), torch.zeros(2, 0))
    tokens = (token for sentence in dict.fromkeys(map(tuple, train)) for token in sentence)
    if config.vectors is None:
        counts = Counter(spellings(tokens, config.lowercase))
        words = tuple(sorted(word for word, count in counts.items() if count >= config.min_count))
        draw = torch.Generator().manual_seed(0)
        table = torch.randn(2 + len(words), config.vectors_dim, generator=draw) * LEARNED_SCALE
        table[PADDING] = 0.0
        return StaticVectors(words, table)
    wanted = None if config.all_vectors else {*spellings(tokens, config.lowercase), *spellings(other, config.lowercase)}
    found = read(Path(config.vectors), wanted)
    if wanted is None:
        return found
    return replace(found, file=Path(config.vectors), absent=tuple(sorted(wanted.difference(found.words))))


def read(path: Path, wanted: Collection[str] | None = None) -> StaticVectors:
    """Reads the vectors of the `wanted` words, or of all if None, from lines of a word and its numbers.

    A first line of two numbers, as in word2vec's files, is skipped. Spaces separate the numbers, and a word may contain
    spaces, too; the first line of a repeated word counts. Raises InputError, which names file and line, if a line has
    more or fewer numbers than the first, or something other than numbers; also if the file has no wanted word.
    """
    rows: dict[str, np.ndarray] = {}
    for word, vector in read_entries(path, wanted):
        rows.setdefault(word, vector)
    if not rows:
        words = "no vectors" if wanted is None else f"none of the {len(wanted):,} words of the examples"
        raise InputError(f"{path}: {words} in the file; give GloVe's text format (lower-case words: inputs.lowercase)")
    vectors = np.stack(list(rows.values()))
    table = torch.from_numpy(np.concatenate([np.zeros_like(vectors[:1]), vectors.mean(0, keepdims=True), vectors]))
    return StaticVectors(tuple(rows), table)


def more_vectors(origin: VectorsFile, wanted: Collection[str]) -> StaticVectors:
    """Reads the vectors of the `wanted` words that the file has; the table has no other rows.

    Raises InputError if the file is missing, or is not the one that the network's vectors were read from.
    """
    rows: dict[str, np.ndarray] = {}
    for word, vector in read_entries(origin.file, {*origin.words, *wanted}):
        rows.setdefault(word, vector)
    known = [rows.pop(word) for word in origin.words if word in rows]
    is_same = len(known) == len(origin.words) and all(len(vector) == origin.dim for vector in known)
    if not is_same or origin.sha256 != content_hash(origin.words, np.array(known)):
        raise InputError(f"{origin.file}: not the word vectors that the network was trained with; give those")
    table = np.array(list(rows.values()), np.float32).reshape(len(rows), origin.dim)
    return StaticVectors(tuple(rows), torch.from_numpy(table))


def extend_inputs(inputs: Inputs, found: StaticVectors) -> None:
    """Adds the vectors of more words to the inputs of a trained network."""
    weight = inputs.vectors.weight.detach()
    table = torch.cat([weight, found.table.to(weight)])
    inputs.vectors = nn.Embedding.from_pretrained(table, padding_idx=PADDING)


def content_hash(words: Iterable[str], rows: Float[np.ndarray, "W E"]) -> str:
    """Returns a hash (sha256) of words and their vectors."""
    digest = hashlib.sha256("\n".join(words).encode())
    digest.update(np.ascontiguousarray(rows, np.float32).data)
    return digest.hexdigest()


def spellings(tokens: Iterable[str], lowercase: bool) -> Iterator[str]:
    """Returns the tokens as they are looked up: in lower case, or unchanged."""
    return (token.lower() for token in tokens) if lowercase else iter(tokens)
