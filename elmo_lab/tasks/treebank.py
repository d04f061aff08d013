"""Undoes the Penn Treebank's escapes, which many labelled corpora keep, but which raw text does not have.

A biLM of raw text has never seen "-LRB-" or two back quotes: in SemCor's sentences with quotation marks, the perplexity
of `english-large` falls from 95 to 73 where they are undone (docs/log.md, 2026-11-29).
"""

from functools import lru_cache

BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
WHOLE = {"``": '"', "''": '"', "`": "'", "/.": ".", "/?": "?"}
"""Tokens with another spelling. Those with a slash are OntoNotes' ends of sentences in speech."""


@lru_cache(maxsize=65536)
def unescaped(token: str) -> str:
    """Returns a token as raw text spells it: brackets, quotation marks, and slashes and stars without a backslash."""
    return WHOLE[token] if token in WHOLE else with_brackets(token)


def with_brackets(token: str) -> str:
    """Returns a token without the escapes inside words: brackets, and slashes and stars without a backslash."""
    for bracket, name in BRACKETS.items():
        token = token.replace(name, bracket)
    return token.replace("\\/", "/").replace("\\*", "*")


def escaped(token: str) -> str:
    """Returns a token with brackets escaped, as a tree needs it."""
    for bracket, name in BRACKETS.items():
        token = token.replace(bracket, name)
    return token
