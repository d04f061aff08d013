"""Checks what a caller gives as sentences of tokens or as texts; `elmo.embedding.texts` tells the two apart.

What cannot be read is an `InputError` that names the sentence and the remedy.
"""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Set
from numbers import Number
from typing import Any

from elmo.errors import InputError, shown

SPLIT = "elmo.load().split(text) has those of each sentence of a text"
"""Words for errors: where tokens come from. Splitting at white space would leave a word and its full stop together."""
SENTENCES = f"a list of tokenised sentences is expected: {SPLIT}"
TEXTS = "a list of texts is expected, such as [text]"
"""The words with which `check_outer` says what it expects."""


def token_lists(sentences: Any) -> list[list[str]]:
    """Returns the sentences as lists, since iterators can be read only once. Raises the errors of `check_sentence`."""
    return list(check_sentences(sentences))


def check_sentences(sentences: Any, given: Any = None) -> Iterator[list[str]]:
    """Yields the sentences as lists, one at a time. Warns of the first that seems to hold texts instead of tokens.

    Raises the errors of `check_outer` and of `check_sentence`. `given` is what the caller got, if that is another
    object; its rows are named.
    """
    given = sentences if given is None else given
    is_told = False
    for number, sentence in enumerate(check_outer(sentences, SENTENCES)):
        tokens = check_sentence(sentence, number, given)
        if not is_told and tokens and all(" " in token.strip() for token in tokens):
            is_told = True
            warnings.warn(
                f"sentence {number} has only tokens with spaces, such as {shown(tokens[0])}, each read as one word;"
                f" give a text as a string, or its tokens: {SPLIT}",
                stacklevel=2,
            )
        yield tokens


def check_outer(given: Any, expected: str) -> Any:
    """Returns `given`, which holds sentences or texts. `expected` is the error's sentence on what it should be.

    Raises InputError for a string, whose letters would be the items, for bytes, for what has no order, such as a set,
    for a table, and for what has no items.
    """
    if isinstance(given, str):
        raise InputError(f"{shown(given)} is a string; {expected}")
    if isinstance(given, Set | Mapping):
        raise InputError(f"a {type(given).__name__} is given, which has no order; {expected}")
    _refuse_table(given)
    if not has_items(given):
        raise InputError(f"{shown(given)} is given; {expected}{'' if is_missing(given) else _how(given)}")
    return given


def _refuse_table(given: Any) -> None:
    """Raises InputError for a table of pandas, Polars, Arrow or Spark, whose items are its columns or their names."""
    if hasattr(type(given), "columns"):
        raise InputError("a table is given; name one of its columns, such as frame['text']")


def has_items(given: Any) -> bool:
    """Returns whether a value has items in an order, as bytes, an array of no axes and a class do not."""
    is_one_thing = isinstance(given, bytes | bytearray | type) or getattr(given, "ndim", 1) == 0
    return isinstance(given, Iterable) and not is_one_thing


def check_sentence(sentence: Any, number: int, given: Any = None) -> list[str]:
    """Returns the tokens of sentence `number` of `given` as a list.

    Raises InputError for a string, whose letters would be read as tokens, for tokens that are not strings, for a set,
    whose order changes from process to process, for a table, and for anything that is no sentence, such as None.
    """
    where = place_of("sentence", number, given)
    if isinstance(sentence, str):
        raise InputError(f"{where} is the string {shown(sentence)}; a list of tokens is expected: {SPLIT}")
    if isinstance(sentence, Set | Mapping):
        named = "; of a row with names, give its text: row['text']" if isinstance(sentence, Mapping) else ""
        raise InputError(f"{where} is a {type(sentence).__name__}, which has no order; a list is expected{named}")
    _refuse_table(sentence)
    if is_missing(sentence):
        raise InputError(f"{where} is missing ({sentence}); leave it out, or give [] instead")
    if not has_items(sentence):
        raise InputError(f"{where} is {shown(sentence)}; a list of tokens is expected{_how(sentence)}")
    tokens = list(sentence)
    for token in tokens:
        if not isinstance(token, str):
            is_list = isinstance(token, list | tuple)
            how = "; give its parts as tokens" if is_list else _how(token) or "; use str(token)"
            raise InputError(f"{where} has the token {shown(token)}; tokens are strings{how}")
    return tokens


def row_labels(given: Any) -> Any:
    """Returns the index of a pandas column; None for anything else."""
    return given.index if hasattr(given, "iloc") else None


def place_of(kind: str, number: int, given: Any) -> str:
    """Returns the name of a text or sentence for errors, with its row in a column of pandas."""
    labels = row_labels(given)
    return f"{kind} {number}" if labels is None else f"{kind} {number} (row {str(labels[number])!r} of the column)"


def is_missing(value: Any) -> bool:
    """Returns whether a value is None, NaN, or what pandas has for a missing one."""
    is_nan = isinstance(value, Number) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")


def no_text(value: Any, where: str, expected: str) -> InputError:
    """Returns the error for an item that is not the text that it should be. `where` names it, such as "text 3"."""
    if is_missing(value):
        return InputError(f"{where} is missing ({value}); leave it out, as column.dropna() does, or give '' instead")
    return InputError(f"{where} is {shown(value)}; {expected}{_how(value)}")


def _how(value: Any) -> str:
    """Returns the end of an error that says how text is made of a value of this kind; empty for other kinds."""
    if is_missing(value):
        return "; leave it out"
    if isinstance(value, bytes | bytearray):
        return "; decode it: value.decode('utf-8')"
    if hasattr(value, "as_py"):  # of Arrow
        return "; give the column as a list: column.to_pylist()"
    if isinstance(value, os.PathLike):
        return "; read the file: path.read_text(encoding='utf-8')"
    return ""
