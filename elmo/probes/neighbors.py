"""Neighbors: where in a text is a word used as it is used here? (Peters et al. 2018, Table 4)

- the query is a token in its sentence, from the text or not
- candidates are the same word's other occurrences, or every token
- exact cosine at one layer; the text is read in chunks, so memory does not grow with it
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Float

from elmo.embedding.embedder import Embedder
from elmo.errors import InputError

CHUNK = 256
"""Sentences whose vectors are held at a time."""


@dataclass(frozen=True)
class Neighbor:
    """A token of the text and how near it is to the query."""

    similarity: float
    """Cosine, -1 to 1."""
    sentence_index: int
    token_index: int
    sentence: tuple[str, ...]


def occurrences(sentences: Iterable[Sequence[str]], word: str) -> list[tuple[int, int]]:
    """Every (sentence index, token index) of `word`, as it is spelled, in the order of the text."""
    return [(s, t) for s, sentence in enumerate(sentences) for t, token in enumerate(sentence) if token == word]


def run(
    embedder: Embedder,
    sentences: Iterable[Sequence[str]],
    query: Sequence[str],
    index: int,
    layer: int = -1,
    k: int = 5,
    same_word: bool = True,
) -> list[Neighbor]:
    """The `k` nearest tokens of `sentences` to token `index` of the sentence `query`, nearest first.

    `layer` counts from 0 (the word without its context); -1 is the top. With `same_word` only occurrences of the
    query's word are candidates. The query itself (the same sentence and place) is never one. Ties keep the order of
    the text.
    """
    if not 0 <= index < len(query):
        raise InputError(f"token {index} is asked for, and the query has {len(query)} tokens; count from 0")
    word, sentence = query[index], tuple(query)
    layers = embedder.embed([list(query)], layers="all")[0]
    if not -len(layers) <= layer < len(layers):
        raise InputError(f"layer {layer} is asked for, and the model has layers 0 to {len(layers) - 1}")
    target = _unit(layers[layer, index][None])[0]

    best: list[Neighbor] = []
    for chunk in _chunks(enumerate(map(tuple, sentences)), word if same_word else None):
        embedded = embedder.embed([list(tokens) for _, tokens in chunk], layers="all")
        for (number, tokens), vectors in zip(chunk, embedded, strict=True):
            similarities = _unit(vectors[layer]) @ target
            for place, token in enumerate(tokens):
                if (same_word and token != word) or (place == index and tokens == sentence):
                    continue
                best.append(Neighbor(float(similarities[place]), number, place, tokens))
        best = sorted(best, key=lambda neighbor: -neighbor.similarity)[:k]
    return best


def _chunks(
    numbered: Iterator[tuple[int, tuple[str, ...]]], word: str | None
) -> Iterator[list[tuple[int, tuple[str, ...]]]]:
    """Up to `CHUNK` numbered sentences at a time: those with `word`, or all that have a token."""
    wanted = (pair for pair in numbered if (pair[1] if word is None else word in pair[1]))
    while chunk := list(islice(wanted, CHUNK)):
        yield chunk


def _unit(vectors: Float[np.ndarray, "T D"]) -> Float[np.ndarray, "T D"]:
    vectors = vectors.astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-12)
