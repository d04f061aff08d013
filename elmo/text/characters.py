"""Turns words into character ids exactly as the published models read them: UTF-8 bytes and five marks (bilm-tf).

The published ids are 0-255 for bytes, 256 and 257 for the begin and end of a sentence, 258 and 259 for those of a word,
and 260 for padding inside a word. All of them are stored + 1, which leaves 0 for "no token".
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from elmo.errors import check_whole
from elmo.text.marks import BOS, EOS

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = (mark + 1 for mark in (256, 257, 258, 259, 260))
MARKS = {BOS: BEGIN_SENTENCE, EOS: END_SENTENCE}


def is_utf8(text: str) -> bool:
    """Returns whether UTF-8 can express the text; it cannot express a lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def encode_words(words: Sequence[str], max_characters: int = 50) -> Int[np.ndarray, "W C"]:
    """Returns the character ids of every word: begin mark, UTF-8 bytes, end mark, and padding up to `max_characters`.

    A word is truncated to its first `max_characters - 2` bytes. A lone surrogate, which UTF-8 cannot express, is
    skipped, as in the published encoders. The words `<S>` and `</S>` are the sentence boundaries.
    """
    check_whole("max_characters", max_characters, 3)  # two marks and a byte
    encoded = [b"\0" if word in MARKS else word.encode("utf-8", "ignore")[: max_characters - 2] for word in words]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    ids = np.full((len(encoded), max_characters), PADDING, dtype=np.int32)
    ids[:, 0] = BEGIN_WORD
    ids[:, 1:-1][np.arange(max_characters - 2) < lengths[:, None]] = np.frombuffer(b"".join(encoded), np.uint8) + 1
    ids[np.arange(len(encoded)), lengths + 1] = END_WORD
    for row, word in enumerate(words):
        if word in MARKS:
            ids[row, 1] = MARKS[word]
    return ids
