"""The words that the language model predicts or reads, in a file, and how they are counted from a corpus.

- A file has one word per line, and the line number is the id. It includes `<S>`, `</S>` and `<UNK>`, which elmo writes
  as 0, 1 and 2. White space around a word does not count, as in bilm-tf.
- The published `vocab.txt` and `vocab.txt.gz` can be read.
- Counting takes bounded memory. Ties are broken by the word, so the same corpus always gives the same file.
"""

import gzip
import hashlib
import io
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.config import read_regular
from elmo.disk.files import atomic_path
from elmo.errors import InputError, path_of
from elmo.forking import cached_property
from elmo.text.given import SENTENCES, check_outer, check_sentence
from elmo.text.marks import BOS, EOS, UNKNOWN

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Int

SPECIAL = (BOS, EOS, UNKNOWN)
SKIPPED = "!!!MAXTERMID"  # this line of some published vocabularies has no row in their weights
MOST_BYTES, MOST_WORDS = 1 << 27, 1 << 24
"""The most bytes of a vocabulary, unpacked, and the most lines."""
MOST_UNPACKED = 200
"""The most times that a vocabulary may be larger than its gzip file; 2 to 4 times are usual."""
LONG = 64
"""Longer words are mostly junk; the sum of their characters is bounded, too, by `LONG * max_types`."""
PROGRESS_EVERY = 100_000  # tokens


@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their ids. If a word occurs twice, its last id counts, as in bilm-tf."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        missing = [word for word in SPECIAL if word not in self._ids]
        if missing:
            raise InputError(f"the vocabulary has no {' or '.join(missing)}; add them as its first lines")

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self):,} words>"

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def id(self, word: str) -> int:
        """Returns the id of `word`, or that of `<UNK>` for an unknown word."""
        return self._ids.get(word, self.unknown)

    def ids(self, words: Iterable[str]) -> list[int]:
        """Returns the `id` of every word."""
        get, unknown = self._ids.get, self.unknown
        return [get(word, unknown) for word in words]

    def encode(self, words: Sequence[str]) -> "Int[np.ndarray, 'W 1']":
        """Returns the id of every word + 1 (0 is padding), which a model of words gets instead of characters."""
        import numpy as np  # a model is described without it

        return np.array(self.ids(words), dtype=np.int64).reshape(-1, 1) + 1

    @property
    def unknown(self) -> int:
        """The id of words that are not in the vocabulary."""
        return self._ids[UNKNOWN]

    @cached_property
    def sha256(self) -> str:
        """The sha256 of the file that `save` writes. It shows whether two perplexities are over the same words."""
        return hashlib.sha256(self._bytes()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Writes one word per line, in UTF-8; the file is written completely or not at all."""
        with atomic_path(path_of("the vocabulary", path), overwrite=True) as temporary:
            temporary.write_bytes(self._bytes())

    @classmethod
    def load(cls, path: str | Path, distinct: bool = False) -> "Vocabulary":
        """Reads one word per line; a file whose name ends in `.gz` is decompressed.

        With `distinct`, blank and repeated lines, which some published files have, are refused: no token has such ids.
        """
        return cls.parse(read_regular(path_of("the vocabulary", path), MOST_BYTES), str(path), distinct)

    @classmethod
    def parse(cls, raw: bytes, name: str, distinct: bool = False) -> "Vocabulary":
        """Does what `load` does with the bytes of a file; errors name it `name`."""
        try:
            raw = _decompressed(raw, name) if name.lower().endswith(".gz") else raw
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{name}: damaged or incomplete gzip ({error}); fetch or compress it again") from error
        if raw.count(b"\n") > MOST_WORDS:
            raise InputError(f"{name}: has more than {MOST_WORDS:,} lines; give a word list, one word per line")
        try:
            text = raw.decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise InputError(f"{name}: line {line} is not UTF-8 ({error.reason}); convert the file to UTF-8") from error
        # Only "\n" ends a line: a word may be a character that str.splitlines takes for a line end. Unicode spaces
        # stay, since they may be words, too.
        lines = [line.strip(" \t\r\v\f") for line in text.removesuffix("\n").split("\n")]
        if distinct:
            _check_distinct(lines, name)
        try:
            return cls(tuple(word for word in lines if word != SKIPPED))
        except InputError as error:
            raise InputError(f"{name}: {error}") from error

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}

    def _bytes(self) -> bytes:
        text = "".join(f"{word}\n" for word in self.words)
        if text.count("\n") != len(self.words):
            raise InputError("a word of the vocabulary contains a line end; words are stored one per line: split it")
        return text.encode("utf-8")


def _check_distinct(lines: Iterable[str], name: str) -> None:
    first: dict[str, int] = {}
    for number, word in enumerate(lines, 1):
        if not word:
            raise InputError(f"{name}: line {number} is blank; remove it: every line is a word")
        if word in first:
            raise InputError(f"{name}: line {number} repeats {word!r} of line {first[word]}; remove one of them")
        first[word] = number


def _decompressed(raw: bytes, name: str) -> bytes:
    """Unpacks a gzip file, up to a limit, since the file does not bound the size of its text."""
    most = min(MOST_UNPACKED * len(raw), MOST_BYTES)
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise InputError(f"{name}: {len(raw):,} bytes unpack to more than {most:,}; no list is so large, do not use it")
    return text


@dataclass(frozen=True)
class CorpusCounts:
    """The corpus that a vocabulary was counted from."""

    tokens: int
    sentences: int
    types: int
    """The number of distinct words; a lower bound if the table was pruned."""
    covered: int
    """The number of tokens that are in the vocabulary."""
    characters: int
    """The number of characters of all tokens, a lower bound like `types`."""


def ranked(counted: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Returns words and counts, the most frequent first; equally frequent words are in their own order."""
    return sorted(counted, key=lambda item: (-item[1], item[0]))


def choose_words(
    ranked: Iterable[tuple[str, int]], counts: CorpusCounts, max_size: int, min_count: int
) -> tuple[Vocabulary, CorpusCounts]:
    """Returns the first words of `ranked` after `<S>`, `</S>` and `<UNK>`, `max_size` in all."""
    if max_size <= len(SPECIAL):
        raise InputError(f"max_size is {max_size}; more than {len(SPECIAL)} are needed to hold any word of the text")
    frequent = takewhile(lambda item: item[1] >= min_count, ranked)
    chosen = (item for item in frequent if item[0] not in (*SPECIAL, SKIPPED))
    kept = list(islice(chosen, max_size - len(SPECIAL)))
    vocabulary = Vocabulary(SPECIAL + tuple(word for word, _ in kept))
    return vocabulary, replace(counts, covered=sum(count for _, count in kept))


def count_vocabulary(
    sentences: Iterable[Sequence[str]],
    max_size: int = 50_000,
    min_count: int = 2,
    progress: Callable[[int], None] | None = None,
    max_types: int = 4_000_000,
) -> tuple[Vocabulary, CorpusCounts]:
    """Counts the words of `sentences` for `choose_words`; `progress` is called with the tokens read so far.

    The memory is bounded: if the table exceeds `max_types`, its rarest words are dropped, and if words longer than
    `LONG` exceed `LONG * max_types` characters, the rarest of them are dropped.
    """
    table: Counter[str] = Counter()
    tokens = n_sentences = reported = long = 0
    for number, given in enumerate(check_outer(sentences, SENTENCES)):
        sentence = check_sentence(given, number)
        known = len(table)
        table.update(sentence)
        tokens += len(sentence)
        n_sentences += 1
        long += sum(map(_long, islice(reversed(table), len(table) - known)))  # the new words are the last
        if len(table) > max_types or long > LONG * max_types:
            long = _bound(table, max_types)
        if progress is not None and tokens - reported >= PROGRESS_EVERY:
            progress(tokens)
            reported = tokens
    if progress is not None:
        progress(tokens)
    characters = sum(len(word) * count for word, count in table.items())
    counts = CorpusCounts(tokens, n_sentences, len(table), 0, characters)
    return choose_words(ranked(table.items()), counts, max_size, min_count)


def _long(word: str) -> int:
    """The number of characters of a long word; 0 for any other."""
    return length if (length := len(word)) > LONG else 0


def _bound(table: Counter[str], max_types: int) -> int:
    """Halves what exceeds the bounds of `count_vocabulary`; returns the characters of the long words that are left."""
    if len(table) > max_types:
        _prune(table, max_types // 2, lambda word: 1)
    long = sum(map(_long, table))
    if long > LONG * max_types:
        _prune(table, LONG * max_types // 2, _long)
        long = sum(map(_long, table))
    return long


def _prune(table: Counter[str], size: int, weight: Callable[[str], int]) -> None:
    """Drops the rarest words that weigh anything, whole counts at a time, until they weigh at most `size`."""
    by_count: Counter[int] = Counter()
    for word, count in table.items():
        by_count[count] += weight(word)
    left, threshold = by_count.total(), 0
    for count in sorted(by_count):
        if left <= size:
            break
        left, threshold = left - by_count[count], count
    for word in [word for word, count in table.items() if count <= threshold and weight(word)]:
        del table[word]
