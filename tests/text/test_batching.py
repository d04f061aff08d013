"""Batches of sentences."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from elmo.text.batching import batch_to_ids, by_length, to_batch
from elmo.text.characters import encode_words
from elmo.text.given import token_lists
from elmo.text.marks import BOS, EOS

SENTENCES = st.lists(st.lists(st.text(min_size=1, max_size=4), max_size=6), max_size=5)


@given(SENTENCES, st.sampled_from([5, 50]))
def test_to_batch_puts_boundaries_around_every_sentence(sentences, max_characters):
    batch = to_batch(sentences, max_characters)
    assert batch.char_ids.dtype == batch.lengths.dtype == torch.int64
    assert batch.lengths.tolist() == [len(sentence) + 2 for sentence in sentences]
    for row, sentence, length in zip(batch.char_ids, sentences, batch.lengths, strict=True):
        assert row[:length].tolist() == encode_words([BOS, *sentence, EOS], max_characters).tolist()
        assert not row[length:].any()


@given(SENTENCES)
def test_batch_to_ids_adds_no_boundaries(sentences):
    ids = batch_to_ids(sentences)
    assert ids.shape == (len(sentences), max(map(len, sentences), default=0), 50)
    for row, sentence in zip(ids, sentences, strict=True):
        assert row[: len(sentence)].tolist() == encode_words(sentence).tolist()
        assert not row[len(sentence) :].any()


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 100))
def test_by_length_keeps_the_budget_and_every_index(lengths, budget):
    batches = by_length(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) * max(lengths[i] for i in batch) <= budget or len(batch) == 1
    in_order = [lengths[i] for batch in batches for i in batch]
    assert in_order == sorted(in_order)


def test_a_string_is_no_list_of_tokens():
    with refused("sentence 1", "'two words'"):
        to_batch([["fine"], "two words"])
    with refused("'two words'", "string"):
        batch_to_ids("two words")
    with refused("sentence 0", "3"):
        token_lists([[3]])


@pytest.mark.parametrize("sentences", [[{"a", "b"}], [{"a": 1}], {("a", "b")}, {"a": ["b"]}, [["c"], frozenset("ab")]])
def test_what_has_no_order_is_no_sentence(sentences):
    with refused("order", "list"):
        token_lists(sentences)


def test_iterators_are_read_as_lists_are():
    lists = [["a", "b"], [], ["c"]]
    for give in (iter, lambda _: map(iter, lists), lambda _: [iter(tokens) for tokens in lists]):
        assert to_batch(give(lists)).char_ids.equal(to_batch(lists).char_ids)
        assert batch_to_ids(give(lists)).equal(batch_to_ids(lists))
    with refused("sentence 1", "'two words'"):
        to_batch(iter([["fine"], "two words"]))


def test_a_token_of_any_length_is_cut():
    assert to_batch([["x" * 10_000]]).char_ids.shape == (1, 3, 50)


def test_only_the_first_text_that_is_not_split_is_told_of():
    with pytest.warns(UserWarning, match="sentence 1") as told:
        assert token_lists([["fine"], ["She wrote a play ."], ["He did not ."]])[1] == ["She wrote a play ."]
    assert len(told) == 1
    with pytest.warns(UserWarning, match="sentence 0"):
        token_lists([["She wrote a play .", "He did not ."], ["fine"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        token_lists([["viết văn", "."], []])


def test_none_is_no_sentence():
    with refused("sentence 1", "None"):
        token_lists([["fine"], None])
