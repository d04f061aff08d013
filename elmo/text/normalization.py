"""Normalizes the spelling in which a model reads words. The model stores the steps, which apply wherever it reads.

A text and its tokens stay as they are, and so do the places of tokens in the text: a token is respelled when it becomes
ids. So training, vectors, perplexity and tasks all read one spelling, from raw text and from lists of tokens.

- `nfc` and `nfkc` make Unicode's composed forms.
- `lower` makes lower case.
- `no-macrons` removes the marks of long and short vowels from Latin and Greek letters.
- `no-marks` removes all combining marks from letters, such as accents and points.
- `v>u` replaces one character by one or more others, and may occur several times: `v>u`, `j>i`, `œ>oe`.

The order of the steps does not matter.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from unicodedata import category, normalize

from elmo.config import ConfigError
from elmo.text.marks import BOS, EOS, UNKNOWN

if TYPE_CHECKING:
    import numpy as np

NAMED = ("nfc", "nfkc", "lower", "no-macrons", "no-marks")
MACRONS = "\u0304\u0306"
"""The combining macron and breve."""
LONG_OR_SHORT = re.compile(f"[A-Za-zÆŒæœΑ-Ωα-ω][\u0300-\u036f]*[{MACRONS}][\u0300-\u036f]*")  # noqa: RUF001
KEPT = frozenset((BOS, EOS, UNKNOWN))
"""The marks that are not words, and are never respelled."""
MOST_PASSES = 4
Respell = Callable[[str], str]


def check_steps(steps: Sequence[str]) -> None:
    """Raises ConfigError for a step that does not exist, occurs twice, or makes something that another would change."""
    replaced: dict[str, str] = {}
    for step in steps:
        if step in NAMED:
            continue
        character, arrow, text = step[:1], step[1:2], step[2:]
        if arrow != ">" or any(part.isspace() for part in step):
            raise ConfigError(
                f"normalize has {step!r}; allowed: {', '.join(NAMED)}, and replacements of one character, such as 'v>u'"
            )
        if character in replaced:
            raise ConfigError(f"normalize replaces {character!r} twice; keep one of them")
        replaced[character] = text
    if len(set(steps)) < len(steps):
        raise ConfigError(f"normalize has a step twice: {', '.join(steps)}; keep one of them")
    once = _once(tuple(steps))
    for character, text in replaced.items():
        if once(text) != text:
            raise ConfigError(
                f"normalize has '{character}>{text}', but other steps change {text!r} to {once(text)!r}; write what the"
                " word shall have in the end"
            )


@lru_cache(maxsize=32)
def respell_function(steps: tuple[str, ...]) -> Respell:
    """Returns a function that respells one token as a model with these steps reads it. Repeating it changes nothing.

    `<S>`, `</S>` and `<UNK>` stay, and so does a token of which nothing, or white space, would be left. Raises the
    errors of `check_steps`.
    """
    check_steps(steps)
    once = _once(steps)

    def respell(word: str) -> str:
        if word in KEPT:
            return word
        new = once(word)
        for _ in range(MOST_PASSES):  # the result of one step may combine with the next character
            if new == (new := once(new)):
                break
        return new if new and not any(map(str.isspace, new)) else word

    return respell if steps else str


def respell_before(
    encode: "Callable[[Sequence[str]], np.ndarray]", steps: tuple[str, ...]
) -> "Callable[..., np.ndarray]":
    """Returns the function `encode`, from words to ids, with the words respelled first."""
    if not steps:
        return encode
    respell = respell_function(tuple(steps))
    return lambda words: encode([respell(word) for word in words])


def _once(steps: tuple[str, ...]) -> Respell:
    named = [step for step in steps if step in NAMED]
    form = "NFKC" if "nfkc" in named else "NFC"
    table = str.maketrans({step[0]: step[2:] for step in steps if step not in NAMED})

    def without_macrons(found: re.Match[str]) -> str:
        return "".join(part for part in found[0] if part not in MACRONS)

    def once(word: str) -> str:
        if "nfc" in named or "nfkc" in named:
            word = normalize(form, word)
        if "lower" in named:
            word = word.lower()
        if "no-marks" in named:
            word = normalize(form, "".join(part for part in normalize("NFD", word) if category(part) != "Mn"))
        elif "no-macrons" in named and not word.isascii():
            word = normalize("NFC", LONG_OR_SHORT.sub(without_macrons, normalize("NFD", word)))
        return word.translate(table)

    return once
