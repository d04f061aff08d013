"""Character ids against a direct reading of the published rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.text.characters import encode_words
from elmo.text.marks import BOS, EOS

WORDS = st.one_of(
    st.text(max_size=30),
    st.text(st.characters(min_codepoint=0x1F300, max_codepoint=0x1F6FF), max_size=20),
    st.sampled_from([BOS, EOS, "", "a\ud800b", "x" * 10_000]),
)


def published_ids(word: str, max_characters: int) -> list[int]:
    """One word by the rule as it is written down: begin word, bytes, end word, padding; every id + 1."""
    if word == BOS:
        middle = [256]
    elif word == EOS:
        middle = [257]
    else:
        middle = list(word.encode("utf-8", "ignore"))[: max_characters - 2]
    ids = [258, *middle, 259]
    ids += [260] * (max_characters - len(ids))
    return [i + 1 for i in ids]


@given(st.lists(WORDS, max_size=6), st.sampled_from([3, 4, 10, 50]))
def test_encode_words_follows_the_published_rule(words, max_characters):
    ids = encode_words(words, max_characters)
    assert ids.dtype == np.int32
    assert ids.shape == (len(words), max_characters)
    assert ids.tolist() == [published_ids(word, max_characters) for word in words]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_a_word_that_fits_can_be_read_back(word):
    (ids,) = encode_words([word]).tolist()
    assert bytes(i - 1 for i in ids[1 : ids.index(260)]).decode() == word


def test_a_cut_may_go_through_a_character():
    (ids,) = encode_words(["aé"], max_characters=4).tolist()  # two bytes fit: "a" and the first of "é"
    assert ids == [259, ord("a") + 1, 0xC3 + 1, 260]


def test_too_few_characters_are_refused():
    with pytest.raises(ValueError, match="max_characters is 2"):
        encode_words(["a"], max_characters=2)
