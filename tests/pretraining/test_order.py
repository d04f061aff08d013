"""The order of documents: in pieces, shuffled, the same for all time."""

from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_files import many, write

from elmo.pretraining.ids import make_ids
from elmo.pretraining.order import document_pieces, shuffled_pieces
from elmo.text.tokenizer import WHITESPACE as LINES


@given(st.lists(st.integers(1, 30), min_size=1, max_size=20), st.integers(5, 60))
def test_a_long_document_comes_in_pieces(tmp_path_factory, sizes, limit):
    lines = ["x" * size for size in sizes]
    ids = make_ids([write(tmp_path_factory.mktemp("corpus"), [lines, ["y"]])], LINES)
    ((*found, last),) = document_pieces(ids, limit)
    texts = [[ids.words[word] for word in ids.tokens[piece.begin : piece.end] if word] for piece in found]
    assert list(chain.from_iterable(texts)) == lines
    assert all(sum(map(len, text)) <= max(limit, len(text[0])) for text in texts)
    assert [piece.characters for piece in found] == [len("\n".join(text)) for text in texts]
    assert [piece.is_continuation for piece in found] == [i > 0 for i in range(len(found))]
    assert not last.is_continuation
    assert all(after.follows(before) for before, after in pairwise(found))
    assert not found[0].follows(None)
    assert len(found) < 3 or not found[2].follows(found[0])


def test_shuffled_has_every_document_once_in_an_order_of_seed_and_epoch(tmp_path):
    paths = many(tmp_path)
    ids = make_ids(paths, LINES)
    in_order = list(chain.from_iterable(document_pieces(ids)))

    def order(seed, epoch):
        return list(shuffled_pieces(document_pieces(ids), ids.sizes, seed, epoch, 600))

    first = order(1, 0)
    assert order(1, 0) == first
    assert len(first) == len(set(first)) == len(in_order)
    assert set(first) == set(in_order)
    assert first != in_order
    assert order(1, 1) != first
    assert order(2, 0) != first
    assert {document.file for document in first[:15]} == {0, 1, 2}  # files are read side by side


def test_kinds_of_text_are_mixed_from_the_beginning_to_the_end(tmp_path):
    """Long documents in a few files, short ones in many: half of the text each, so half of every part of the order."""
    for number in range(2):
        (tmp_path / f"long-{number}.txt").write_text("\n\n".join(["novel " * 400] * 25))
    for number in range(8):
        (tmp_path / f"short-{number}.txt").write_text("\n\n".join(["article " * 6] * 300))
    paths = sorted(tmp_path.iterdir())
    ids = make_ids(paths, LINES)
    order = list(shuffled_pieces(document_pieces(ids), ids.sizes, 1, 0, 3_000))
    total = sum(document.characters for document in order)
    parts = [{"novel": 0, "article": 0} for _ in range(6)]
    seen = 0
    for document in order:
        parts[6 * seen // total][ids.words[ids.tokens[document.begin]]] += document.characters
        seen += document.characters
    for part in parts:
        assert part["novel"] / sum(part.values()) == pytest.approx(0.5, abs=0.15)


def test_shuffled_order_is_the_same_for_all_time(tmp_path):
    """A stored position means the same document in every version of Python, and of this package with this `ORDER`."""
    ids = make_ids(many(tmp_path, 2, 4), LINES)
    order = [(d.file, d.number) for d in shuffled_pieces(document_pieces(ids), ids.sizes, 7, 3, 60)]
    assert order == ORDER


ORDER = [(1, 0), (0, 1), (0, 0), (1, 1), (1, 2), (0, 3), (1, 3), (0, 2)]
