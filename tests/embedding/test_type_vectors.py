"""Types: the mean over occurrences, in the format that word2vec's readers take."""

import numpy as np
import pytest
from refusals import refused
from tiny import DIM, LAYERS

from elmo.embedding import type_vectors
from elmo.embedding.type_vectors import average_types, write_word2vec

SENTENCES = [["The", "cat", "sat", "cat"], [], ["a", "cat"], ["New York", "the", "cat"], ["New York", "."]]


def read(path):
    """The format as its readers read it: split at spaces."""
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split(" ") for line in lines]
    words, size = map(int, head.split())
    assert len(rows) == words
    assert all(len(row) == size + 1 for row in rows)
    return {row[0]: np.array(row[1:], np.float32) for row in rows}


def expected(embedder, layers, lowercase=False):
    found: dict[str, list[np.ndarray]] = {}
    for sentence in SENTENCES:
        (vectors,) = embedder.embed([sentence], layers)
        for token, vector in zip(sentence, vectors, strict=True):
            name = token.replace(" ", "_")
            found.setdefault(name.lower() if lowercase else name, []).append(vector)
    return {word: np.mean(vectors, axis=0) for word, vectors in found.items()}


@pytest.mark.parametrize(("layers", "size"), [("average", DIM), ("concat", LAYERS * DIM), (0, DIM)])
def test_types_are_means_over_occurrences(embedder, tmp_path, layers, size, monkeypatch):
    monkeypatch.setattr(type_vectors, "FIRST_ROWS", 2)  # the table grows
    types = average_types(embedder, iter(SENTENCES), layers)
    assert (types.dim, sum(types.counts)) == (size, 11)
    assert write_word2vec(types, tmp_path / "v.txt") == 7
    found, wanted = read(tmp_path / "v.txt"), expected(embedder, layers)
    assert list(found)[:2] == ["cat", "New_York"]  # the most frequent first
    assert found.keys() == wanted.keys()
    for word, vector in wanted.items():
        np.testing.assert_allclose(found[word], vector, atol=1e-6)


def test_rare_words_are_left_out_and_capitals_may_be(embedder, tmp_path):
    types = average_types(embedder, SENTENCES, lowercase=True, source="mine.txt")
    assert write_word2vec(types, tmp_path / "v.txt", min_count=2) == 3
    with refused("mine.txt", "9 times", "4 times", "min_count"):
        write_word2vec(types, tmp_path / "w.txt", 9)
    found, wanted = read(tmp_path / "v.txt"), expected(embedder, "average", lowercase=True)
    assert set(found) == {"cat", "the", "new_york"}
    for word, vector in found.items():
        np.testing.assert_allclose(vector, wanted[word], atol=1e-6)


def test_what_gives_no_words_is_refused(embedder):
    with refused("mine.txt", "word"):
        average_types(embedder, [[], []], source="mine.txt")
    with refused("'concat'"):
        average_types(embedder, SENTENCES, "all")
