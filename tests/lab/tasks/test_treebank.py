"""The Penn Treebank's escapes, undone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_lab.tasks.treebank import escaped, unescaped


@pytest.mark.parametrize(
    ("token", "raw"),
    [
        ("``", '"'), ("''", '"'), ("`", "'"), ("-LRB-", "("), ("-RCB-", "}"), ("a-RSB-", "a]"), ("and\\/or", "and/or"),
        ("\\*", "*"), ("/.", "."), ("'s", "'s"), ("```", "```"), ("-lrb-", "-lrb-"), ("</S>", "</S>"),
    ],
)  # fmt: skip
def test_tokens_have_the_spelling_of_raw_text(token: str, raw: str) -> None:
    assert unescaped(token) == raw


@given(st.text("ab()[]{}", min_size=1))
def test_brackets_are_escaped_and_read_back(token: str) -> None:
    there = escaped(token)
    assert not set("()[]{}") & set(there)
    assert unescaped(there) == token
