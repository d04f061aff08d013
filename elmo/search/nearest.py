"""Finds the places where a text uses a word as it is used here, for `elmo neighbors` and `elmo probe neighbors`.

- The query is a token in its sentence, which may or may not be in the text.
- The candidates are the same word's other occurrences, or all tokens.
- Cosines are exact, at every requested layer. The text is read in chunks, so memory does not grow with it
  (`elmo.search.index` stores the vectors instead).
- `static_neighbors` finds the nearest words by static vectors, which know no context, for comparison.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from elmo.embedding.embedder import Embedder
from elmo.embedding.pooling import unit_vectors
from elmo.embedding.texts import SplitText
from elmo.errors import InputError, check_whole, did_you_mean, is_whole, path_of, shown
from elmo.text.batching import in_parts
from elmo.text.given import check_outer, check_sentence
from elmo.text.records import Place, TextRecord, as_records
from elmo.text.tokenizer import Tokenizer, split_at_spaces
from elmo.text.word_vectors import read_entries

CHUNK = 256
"""The number of sentences whose vectors are in memory at a time."""
STATIC_CHUNK = 10_000
"""The number of static vectors that are in memory at a time."""


@dataclass(frozen=True)
class Neighbor:
    """A token of the text and its similarity to the query."""

    similarity: float
    """The cosine, from -1 to 1."""
    sentence_index: int
    token_index: int
    sentence: tuple[str, ...]
    place: Place = field(default_factory=Place)
    """Where the token stands, if the text was given as records."""

    def values(self) -> dict[str, Any]:
        """Returns the fields as JSON values, with those of the place: file, line, start and end."""
        values = dict(vars(self))
        return values | vars(values.pop("place"))


@dataclass(frozen=True)
class StaticNeighbor:
    """A word and the similarity of its static vector to another word's."""

    similarity: float
    word: str


@dataclass
class QueryResult:
    """The results of one query at one layer."""

    neighbors: list[Neighbor]
    """The neighbours, nearest first."""
    candidates: int
    """The number of tokens that the query was compared with."""


def find_occurrences(sentences: Iterable[Sequence[str] | TextRecord], word: str) -> list[tuple[int, int]]:
    """Returns every (sentence index, token index) of `word` with the same spelling, in text order.

    `sentences` are those of `search`. Raises InputError for a text, which is not split here.
    """
    records = enumerate(as_records(sentences))
    return [(s, t) for s, record in records for t, token in enumerate(record.tokens) if token == word]


def find_token(sentence: str, word: str) -> tuple[tuple[str, ...], int] | None:
    """Returns the tokens of `sentence`, separated by spaces, and the index of the first that is `word`, or None.

    A `word` that contains spaces is one token, as CoNLL-U may have it. Other white space, such as a no-break space,
    separates tokens only if `word` is not found otherwise.
    """
    if not word or word != word.strip():
        return None
    for split in (split_at_spaces, str.split):
        tokens, parts = (tuple(split(" ".join(text.splitlines()))) for text in (sentence, word))
        for place in range(len(tokens)):
            if tokens[place : place + len(parts)] == parts:
                return (*tokens[:place], word, *tokens[place + len(parts) :]), place
    return None


def find_in_text(text: str, word: str, tokenizer: Tokenizer) -> tuple[tuple[str, ...], int]:
    """Returns the tokens of the sentence in `text` that first has the token `word`, and the word's index in it.

    If no token of the tokenizer is `word`, the tokens are those of `find_token`. Raises InputError if there is none.
    """
    split = SplitText.of(text, tokenizer)
    if word in split.tokens:
        return split.part(split.tokens.index(word))
    found = find_token(text, word)
    if found is None:
        raise InputError(f"{word!r} is not a token of {shown(text)}{did_you_mean(word, split.tokens)}")
    return found


def search(
    embedder: Embedder,
    sentences: Iterable[Sequence[str] | TextRecord],
    queries: Sequence[tuple[Sequence[str], int]],
    layers: Sequence[int] = (-1,),
    k: int = 5,
    same_word: bool = True,
    progress: Callable[[int], object] | None = None,
) -> list[list[QueryResult]]:
    """Returns the `k` nearest tokens by layer and query; a query is a sentence and the index of a token in it.

    `sentences` are lists of tokens, or records (`elmo.text.records`), whose neighbours know their file, line and
    characters. Layers count from 0 (the word without context); -1 is the top. With `same_word` only occurrences of the
    query's word are candidates. The query itself (the same sentence and position) is never one. Ties keep text order.
    The text is read once for all layers and queries. `progress` is called with the number of sentences so far. Raises
    InputError if there is no query, or no such layer or token.
    """
    check_whole("k", k)
    layers = layer_numbers(layers, embedder.n_layers)
    sought = query_vectors(embedder, queries, layers)
    words = {sentence[index] for sentence, index in queries} if same_word else None
    best = [[QueryResult([], 0) for _ in queries] for _ in layers]
    numbered = enumerate(as_records(sentences))
    wanted = (pair for pair in numbered if (pair[1].tokens if words is None else words.intersection(pair[1].tokens)))
    for chunk in in_parts(wanted, CHUNK, lambda _: 1):
        embedded = embedder.embed([record.tokens for _, record in chunk], layers="all")
        places = [
            (number, t, tokens, record)
            for number, record in chunk
            for tokens in [tuple(record.tokens)]
            for t in range(len(tokens))
        ]
        candidates = [_candidates(places, tuple(sentence), index, same_word) for sentence, index in queries]
        for layer, vectors_of_queries, of_layer in zip(layers, sought, best, strict=True):
            vectors = unit_vectors(np.concatenate([array[layer] for array in embedded]))
            similarities = vectors_of_queries @ vectors.T  # its shape: queries, tokens of the chunk
            for row, allowed, found in zip(similarities, candidates, of_layer, strict=True):
                for i in allowed[np.argsort(-row[allowed], kind="stable")[:k]]:
                    number, t, tokens, record = places[i]
                    found.neighbors.append(Neighbor(float(row[i]), number, t, tokens, record.place(t)))
                found.neighbors.sort(key=lambda neighbor: -neighbor.similarity)
                del found.neighbors[k:]
                found.candidates += len(allowed)
        if progress is not None:
            progress(chunk[-1][0] + 1)
    return best


def _candidates(
    places: Sequence[tuple[int, int, tuple[str, ...], TextRecord]], query: tuple[str, ...], index: int, same_word: bool
) -> Int[np.ndarray, " C"]:
    """Returns the indices of the positions that a query is compared with."""
    return np.array(
        [
            i
            for i, (_, t, tokens, _) in enumerate(places)
            if (not same_word or tokens[t] == query[index]) and (t, tokens) != (index, query)
        ],
        dtype=int,
    )


def static_neighbors(path: str | Path, word: str, k: int = 5) -> list[StaticNeighbor]:
    """Returns the `k` nearest words to `word`, nearest first, by the vectors of a file in GloVe's text format.

    If the file lacks the word as spelled, it is looked up in lower case; the list is empty if the file has neither. The
    file is read twice, so memory does not grow with it. Raises InputError as `word_vectors.read_entries` does.
    """
    path = path_of("the file of vectors", path)
    spelled: dict[str, np.ndarray] = {}
    for spelling, vector in read_entries(path, {word, word.lower()}):
        spelled.setdefault(spelling, vector)
    if not spelled:
        return []
    found = word if word in spelled else word.lower()
    target = unit_vectors(spelled[found][None])[0]
    best: list[StaticNeighbor] = []
    others = (entry for entry in read_entries(path) if entry[0] != found)
    for chunk in in_parts(others, STATIC_CHUNK, lambda _: 1):
        similarities = unit_vectors(np.stack([vector for _, vector in chunk])) @ target
        best += [StaticNeighbor(float(similarities[i]), chunk[i][0]) for i in np.argsort(-similarities)[:k]]
        best = sorted(best, key=lambda neighbor: (-neighbor.similarity, neighbor.word))[:k]
    return best


def query_vectors(
    embedder: Embedder, queries: Sequence[tuple[Sequence[str], int]], layers: Sequence[int]
) -> Float[np.ndarray, "L Q D"]:
    """Returns the unit vectors of the tokens of Q queries at L layers. Raises InputError as `search` does."""
    for number, query in enumerate(check_outer(queries, "a list of queries is expected, each (tokens, index)")):
        if not isinstance(query, list | tuple) or len(query) != 2:
            raise InputError(f"query {number} is {shown(query)}; its tokens and the index of one of them are expected")
        sentence, index = check_sentence(query[0], number), query[1]
        check_whole("token index", index, 0)
        if index >= len(sentence):
            raise InputError(f"token index is {index}; the query has {len(sentence)} tokens, counted from 0")
    if not queries:
        raise InputError("no query; give at least one sentence and the index of a token in it")
    embedded = embedder.embed([list(sentence) for sentence, _ in queries], layers="all")
    layers = layer_numbers(layers, embedder.n_layers)
    vectors = [array[layers, index] for array, (_, index) in zip(embedded, queries, strict=True)]
    return unit_vectors(np.stack(vectors, axis=1))


def layer_numbers(layers: int | Iterable[int], n_layers: int) -> list[int]:
    """Returns the numbers of layers, or of one layer, as a list; -1 is the top. Raises InputError for any other."""
    given: Any = layers
    chosen = [given] if is_whole(given) else given
    expected = f"the model has layers 0 to {n_layers - 1}, and -1 is the top"
    if isinstance(chosen, str | Mapping | Set) or not isinstance(chosen, Iterable) or not (chosen := list(chosen)):
        raise InputError(f"layers is {shown(layers)}; {expected}")
    for layer in chosen:
        if not is_whole(layer) or not -n_layers <= int(layer) < n_layers:
            raise InputError(f"layer is {shown(layer)}; {expected}")
    return [int(layer) for layer in chosen]


def in_context(sentence: Sequence[str], index: int, width: int = 50) -> str:
    """Returns a token in brackets, with whole tokens of at most `width` characters on either side."""
    before, after = sentence[:index], sentence[index + 1 :]
    left = _within(reversed(before), width)
    right = _within(after, width)
    parts = [*["..."][: len(left) < len(before)], *reversed(left), f"[{sentence[index]}]", *right]
    return " ".join([*parts, *["..."][: len(right) < len(after)]])


def _within(tokens: Iterable[str], width: int) -> list[str]:
    """Returns the first tokens whose characters and spaces are at most `width`."""
    taken: list[str] = []
    for token in tokens:
        width -= len(token) + 1
        if width < 0:
            break
        taken.append(token)
    return taken


def even_places(count: int, most: int) -> list[int]:
    """Returns the places of at most `most` of `count` things: the first and every n-th, evenly over all."""
    taken = min(count, most)
    return [number * count // taken for number in range(taken)]


def mark_token(sentence: Sequence[str], index: int) -> str:
    """Returns the sentence, with one of its tokens in brackets."""
    return " ".join(f"[{token}]" if place == index else token for place, token in enumerate(sentence))
