"""Tests whether the nearest neighbour of a word, among the same word in other sentences, has the same sense.

- Labelled occurrences come from a TSV file (`word`, `sense`, `index` of the token, `sentence` of tokens separated by
  spaces, and `form`, the token, if a language inflects its words).
- Each occurrence is left out in turn and gets the sense of its nearest neighbour by cosine: one accuracy per layer.
- Ties for the nearest share the decision, so a layer that sees no context scores at chance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from elmo.embedding.embedder import Embedder
from elmo.embedding.pooling import unit_vectors
from elmo.errors import InputError, is_number, path_of, shown
from elmo.search.nearest import query_vectors
from elmo.search.picture import Panel, of_uses
from elmo.text.lines import numbered_lines
from elmo.text.tokenizer import split_at_spaces

VERSION = "1"
COLUMNS = ("word", "sense", "index", "sentence")
WITH_FORM = (*COLUMNS, "form")
"""The columns of a file whose words have other forms in the sentences."""
MOST_PANELS = 12
TIE = 1e-6
"""The difference below which cosines are equal: the same vector from two batches differs in its last bits."""


@dataclass(frozen=True)
class Occurrence:
    """A word in its sentence, with its sense as labelled by a person."""

    word: str
    """The word as a dictionary has it; the token of the sentence may be another form of it."""
    sense: str
    index: int
    sentence: tuple[str, ...]


@dataclass(frozen=True)
class SenseRow:
    """The scores of one layer."""

    layer: int
    accuracy: float
    """The accuracy over all occurrences, 0 to 1."""
    occurrences: int
    by_word: dict[str, float]
    """The accuracy over the occurrences of each word."""


def read_occurrences(path: str | Path) -> list[Occurrence]:
    """Reads the labelled occurrences of a TSV file with a header line: `COLUMNS`, or `WITH_FORM`.

    Raises InputError with the line if it is invalid.
    """
    lines = numbered_lines(path_of("the file of senses", path))
    _, head = next(lines, (1, ""))
    columns = tuple(head.split("\t"))
    if columns not in (COLUMNS, WITH_FORM):
        raise InputError(
            f"{path}: the first line is {shown(head)}; expected the tab-separated columns {', '.join(COLUMNS)},"
            " and form if words are inflected"
        )
    return [_occurrence(line, columns, f"{path}, line {number}") for number, line in lines if line.strip()]


def _occurrence(line: str, columns: tuple[str, ...], where: str) -> Occurrence:
    fields = line.split("\t")
    if len(fields) != len(columns) or not is_number(fields[2]):
        raise InputError(f"{where}: {shown(line)}; expected tab-separated {', '.join(columns)}: fix or remove the line")
    word, sense, index, tokens = fields[0], fields[1], int(fields[2]), tuple(split_at_spaces(fields[3]))
    form = fields[4] if columns == WITH_FORM else word
    if index >= len(tokens) or tokens[index] != form:
        raise InputError(f"{where}: token {index} of the sentence is not {form!r}; count the tokens from 0")
    return Occurrence(word, sense, index, tokens)


def sense_panels(embedder: Embedder, occurrences: Sequence[Occurrence]) -> list[Panel]:
    """Returns the uses of each of at most `MOST_PANELS` words in the plane of the top layer, marked by their senses."""
    found = []
    for word in list(dict.fromkeys(each.word for each in occurrences))[:MOST_PANELS]:
        mine = [each for each in occurrences if each.word == word]
        uses = [(each.sentence, each.index) for each in mine]
        (panel,) = of_uses(uses, query_vectors(embedder, uses, [-1]), [-1])
        found.append(replace(panel, title=word, groups=[each.sense for each in mine]))
    return found


def score_layers(
    embedder: Embedder, occurrences: Sequence[Occurrence], progress: Callable[[int, int], object] | None = None
) -> list[SenseRow]:
    """Returns one row per layer, layer 0 first; see `agreements` for the rest."""
    return rows_of(agreements(embedder, occurrences, progress), occurrences)


def agreements(
    embedder: Embedder, occurrences: Sequence[Occurrence], progress: Callable[[int, int], object] | None = None
) -> Float[np.ndarray, "L S"]:
    """Returns, for every layer and occurrence, the share of its nearest neighbours that have its sense, 0 to 1.

    These are one neighbour, or several in a tie. A word that occurs once has none, and counts as wrong. `progress` is
    called with the sentences done and the total. Raises InputError if there are no occurrences.
    """
    if not occurrences:
        raise InputError("no labelled occurrences; give a file with at least two occurrences of a word")
    arrays = embedder.embed_stream([list(occurrence.sentence) for occurrence in occurrences], layers="all")
    found = []
    for array, occurrence in zip(arrays, occurrences, strict=True):
        found.append(array[:, occurrence.index].copy())  # a view would keep the whole sentence
        if progress is not None:
            progress(len(found), len(occurrences))
    vectors = np.stack(found, axis=1)
    words = np.array([occurrence.word for occurrence in occurrences])
    senses = np.array([occurrence.sense for occurrence in occurrences])
    scores = np.zeros(vectors.shape[:2])
    for word in np.unique(words):
        mine = words == word
        scores[:, mine] = [_agreement(layer[mine], senses[mine]) for layer in vectors]
    return scores


def rows_of(scores: Float[np.ndarray, "L S"], occurrences: Sequence[Occurrence]) -> list[SenseRow]:
    """Returns the means of `agreements`, one row per layer."""
    words = np.array([occurrence.word for occurrence in occurrences])
    return [
        SenseRow(
            layer,
            float(own.mean()),
            len(words),
            {str(word): float(own[words == word].mean()) for word in np.unique(words)},
        )
        for layer, own in enumerate(scores)
    ]


def _agreement(vectors: Float[np.ndarray, "K D"], senses: np.ndarray) -> Float[np.ndarray, " K"]:
    """Returns the share of each occurrence's nearest neighbours (one, or several in a tie) that have its sense."""
    if len(vectors) < 2:
        return np.zeros(len(vectors))
    directions = unit_vectors(vectors)
    similarity = directions @ directions.T
    np.fill_diagonal(similarity, -np.inf)
    nearest = similarity >= similarity.max(axis=1, keepdims=True) - TIE
    same = senses[:, None] == senses[None, :]
    return (nearest & same).sum(axis=1) / nearest.sum(axis=1)
