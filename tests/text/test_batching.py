"""Batches of sentences."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from elmo.text.batching import batch_to_ids, by_length, to_batch
from elmo.text.given import token_lists
from elmo.text.marks import BOS, EOS

WORDS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" "), min_size=1, max_size=30),
    st.text(st.characters(min_codepoint=0x1F300, max_codepoint=0x1F6FF), min_size=1, max_size=20),
    st.sampled_from([BOS, EOS, "a\ud800b", "x" * 10_000]),
)
SENTENCES = st.lists(st.lists(WORDS, max_size=6), max_size=5)


def published_ids(word: str, max_characters: int) -> list[int]:
    """One word by the rule as it is written down: begin word, bytes, end word, padding; every id + 1."""
    marks = {BOS: [256], EOS: [257]}
    middle = marks.get(word) or list(word.encode("utf-8", "ignore"))[: max_characters - 2]
    ids = [258, *middle, 259]
    return [i + 1 for i in ids + [260] * (max_characters - len(ids))]


@given(SENTENCES, st.sampled_from([3, 4, 10, 50]))
def test_ids_are_those_of_the_published_rule_and_zero_beside_sentences(sentences, max_characters):
    """`to_batch` puts boundaries around every sentence, `batch_to_ids` none."""
    batch = to_batch(sentences, max_characters)
    assert batch.char_ids.dtype == batch.lengths.dtype == torch.int64
    assert batch.lengths.tolist() == [len(sentence) + 2 for sentence in sentences]
    within = [[BOS, *sentence, EOS] for sentence in sentences]
    for ids, lists, most in ((batch.char_ids, within, max_characters), (batch_to_ids(sentences), sentences, 50)):
        assert ids.shape == (len(lists), max(map(len, lists), default=0), most)
        for row, words in zip(ids, lists, strict=True):
            assert row[: len(words)].tolist() == [published_ids(word, most) for word in words]
            assert not row[len(words) :].any()


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 100))
def test_by_length_keeps_the_budget_and_every_index(lengths, budget):
    batches = by_length(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) * max(lengths[i] for i in batch) <= budget or len(batch) == 1
    in_order = [lengths[i] for batch in batches for i in batch]
    assert in_order == sorted(in_order)


def test_iterators_are_read_as_lists_are():
    lists = [["a", "b"], [], ["c"]]
    for give in (iter, lambda _: map(iter, lists), lambda _: [iter(tokens) for tokens in lists]):
        assert to_batch(give(lists)).char_ids.equal(to_batch(lists).char_ids)
        assert batch_to_ids(give(lists)).equal(batch_to_ids(lists))
    with refused("sentence 1", "'two words'"):
        to_batch(iter([["fine"], "two words"]))


def test_only_the_first_text_that_is_not_split_is_told_of():
    with pytest.warns(UserWarning, match="sentence 1") as told:
        assert token_lists([["fine"], ["She wrote a play ."], ["He did not ."]])[1] == ["She wrote a play ."]
    assert len(told) == 1
    with pytest.warns(UserWarning, match="sentence 0"):
        token_lists([["She wrote a play .", "He did not ."], ["fine"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        token_lists([["viết văn", "."], []])
