"""Turns a text into ids: a lexicon has every distinct word once, and the text is the numbers of its words.

The text is tokenized once, by several processes, and kept in a folder that later runs on the same text open:

- `tokens.bin` (int32) has the words of every sentence, each followed by 0. A place in it is a position of training.
- `paragraphs.npz` has the place where each paragraph ends, its characters, and whether a document starts with it.
- `words.txt` has the lexicon from id 2 on, one word per line as JSON; `counts.npy` says how often each word occurs.
- `text.json` names the files and settings of the text; without it, the others do not count.
- `sha256.json` has the sums of all these, and is written last.
"""

import itertools
import json
import multiprocessing
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from elmo.disk.files import run_file, write_run_file
from elmo.disk.lock import LOCK, locked
from elmo.disk.run import is_used, read_json
from elmo.disk.sums import SUMS, check_sums, write_sums
from elmo.errors import InputError
from elmo.forking import cached_property
from elmo.machine import usable_cores
from elmo.pretraining.workers import end_with_parent, start_method
from elmo.text import corpus, tokenizer
from elmo.text.marks import BOS, EOS
from elmo.text.normalization import respell_function
from elmo.text.tokenizer import TextConfig, Tokenizer, text_values
from elmo.text.vocabulary import CorpusCounts, Vocabulary, ranked

END, BEGIN = 0, 1
"""The ids of `</S>` and `<S>`; a word of the text that is spelled like them has an id of its own."""
FORMAT = 1
PART_CHARACTERS = 500_000
"""The characters of text that a process tokenizes at once."""
WORTH_SHARING = 4 * PART_CHARACTERS
"""This process tokenizes a shorter text alone, since starting others takes a second."""
RECORD = "text.json"
FILES = ("tokens.bin", "counts.npy", "paragraphs.npz", "words.txt", RECORD)
REMEDY = "remove the folder to read the text again"


class Windows(NamedTuple):
    """The words that both directions read and predict at places of the text, as ids of the lexicon."""

    inputs: Int[np.ndarray, "2 ..."]
    targets: Int[np.ndarray, "2 ..."]
    starts: Bool[np.ndarray, "..."]
    """A mask that is True where a sentence begins."""


@dataclass(frozen=True)
class Ids:
    """A text as ids; `tokens` may be a memory map."""

    tokens: Int[np.ndarray, " N"]
    words: list[str]
    """The words in the order of their ids."""
    counts: Int[np.ndarray, " W"]
    """How often each word occurs; 0 for the marks."""
    ends: Int[np.ndarray, " paragraphs"]
    """The places after the last position of each paragraph."""
    characters: Int[np.ndarray, " paragraphs"]
    starts: Bool[np.ndarray, " paragraphs"]
    """Whether a document starts with the paragraph."""
    files: list[tuple[int, int]]
    """The first paragraph of each file, and that after its last."""
    sizes: list[int]
    """The files' approximate numbers of characters."""
    names: list[str]
    fingerprint: str

    @cached_property
    def sentence_ends(self) -> Int[np.ndarray, " sentences"]:
        """The places of all ends of sentences."""
        return np.flatnonzero(self.tokens == END)

    def ranked(self) -> list[tuple[str, int]]:
        """Returns words and counts, the most frequent first."""
        return ranked(zip(self.words[2:], self.counts[2:].tolist(), strict=True))

    def totals(self) -> CorpusCounts:
        """Returns the totals of the text, before any vocabulary covers its words."""
        sentences, words = len(self.sentence_ends), len(self.words) - 2
        lengths = np.fromiter(map(len, self.words), np.int64, len(self.words))
        return CorpusCounts(len(self.tokens) - sentences, sentences, words, 0, int((lengths * self.counts).sum()))

    def of_vocabulary(self, vocabulary: Vocabulary) -> Int[np.ndarray, " W"]:
        """Returns the vocabulary's id of every word of the lexicon."""
        known = np.array(vocabulary.ids(self.words), np.int32)
        known[[END, BEGIN]] = vocabulary.ids((EOS, BOS))
        return known

    def mirrored(self, places: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
        """Returns the places that the other direction predicts: at a sentence's first place it is the last word.

        The end of a sentence stays where it is.
        """
        sentence = np.searchsorted(self.sentence_ends, places)
        end = self.sentence_ends[sentence]
        begin = np.where(sentence > 0, self.sentence_ends[sentence - 1] + 1, 0)
        return np.where(places == end, end, begin + end - 1 - places)

    def windows(self, places: Int[np.ndarray, "..."]) -> Windows:
        """Returns what is read and predicted at `places`: forwards `<S> w1 .. wn`, backwards `</S> wn .. w1`."""
        sentence = np.searchsorted(self.sentence_ends, places)
        starts = places == np.where(sentence > 0, self.sentence_ends[sentence - 1] + 1, 0)
        before = np.where(starts, places, places - 1)
        targets = np.stack([self.tokens[places], self.tokens[self.mirrored(places)]]).astype(np.int64)
        inputs = np.stack([self.tokens[before], self.tokens[self.mirrored(before)]]).astype(np.int64)
        targets[1][targets[1] == END] = BEGIN  # backwards, a sentence ends with <S>
        inputs[:, starts] = np.array([[BEGIN], [END]])
        return Windows(inputs, targets, starts)

    def only(self, files: Sequence[int]) -> "Ids":
        """Returns the text of some files only."""
        chosen = {name: [getattr(self, name)[file] for file in files] for name in ("files", "sizes", "names")}
        return replace(self, **chosen)


def kept_ids(folder: Path, paths: Sequence[Path], text: TextConfig, any_version: bool = False) -> Ids | None:
    """Opens the ids in the folder; returns None if there are none, or if they belong to another text.

    With `any_version`, those of another version of a tokenizer are opened, too, since a resumed run reads what it has
    begun with. Raises InputError if the folder is damaged.
    """
    try:
        record = read_json(folder / RECORD, REMEDY)
    except FileNotFoundError:
        return None
    same = all(record.get(name) == value for name, value in _identity(paths, text).items())
    if not same or not (any_version or record.get("versions") == _versions(paths, text)):
        return None
    try:
        check_sums(folder)
        size = (folder / "tokens.bin").stat().st_size
        if size != 4 * record["positions"]:
            raise ValueError(f"tokens.bin has {size:,} bytes instead of {4 * record['positions']:,}")
        tokens = np.memmap(folder / "tokens.bin", np.int32, "r") if size else np.zeros(0, np.int32)
        lines = (folder / "words.txt").read_text(encoding="utf-8").splitlines()
        words = [EOS, BOS, *map(json.loads, lines)]
        counts = np.load(folder / "counts.npy", allow_pickle=False)
        with (folder / "paragraphs.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            ends, characters, starts = (arrays[name] for name in ("ends", "characters", "starts"))
        if len(counts) != len(words):
            raise ValueError(f"{len(words) - 2:,} words and {len(counts) - 2:,} counts")
        files = [(first, last) for first, last in record["files"]]
        names = list(map(str, paths))
        return Ids(
            tokens, words, counts, ends, characters, starts, files, record["sizes"], names, record["fingerprint"]
        )
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{folder}: damaged ({error}); {REMEDY}") from error


def check_folder(folder: Path) -> None:
    """Raises InputError if `keep_ids` would write among other files; it writes `tokens.bin` first."""
    if is_used(folder) and not any((folder / name).exists() for name in ("tokens.bin", RECORD)):
        raise InputError(f"{folder}: holds other files than the ids of a text; name an empty folder as ids")


def keep_ids(folder: Path, ids: Ids, paths: Sequence[Path], text: TextConfig) -> None:
    """Writes the folder for `kept_ids`. A process that is killed before the end leaves nothing that would be opened."""
    with locked(folder / LOCK, wait=True):  # another run may do the same
        for name in (RECORD, SUMS):
            (folder / name).unlink(missing_ok=True)
        with run_file(folder / "tokens.bin") as file:  # a run may have the former one open
            ids.tokens.tofile(file)
        with run_file(folder / "counts.npy") as file:
            np.save(file, ids.counts)
        with run_file(folder / "paragraphs.npz") as file:
            np.savez(file, ends=ids.ends, characters=ids.characters, starts=ids.starts)
        write_run_file(folder / "words.txt", "".join(f"{json.dumps(word)}\n" for word in ids.words[2:]).encode())
        record = {"positions": len(ids.tokens), "files": ids.files, "sizes": ids.sizes}
        record |= _identity(paths, text) | {"versions": _versions(paths, text)}
        write_run_file(folder / RECORD, json.dumps(record).encode())
        write_sums(folder, FILES)


def _identity(paths: Sequence[Path], text: TextConfig) -> dict[str, Any]:
    """The files and settings of kept ids, without versions; a file that was moved is the same."""
    return {"format": FORMAT, "fingerprint": corpus.corpus_fingerprint(paths), "text": text_values(text)}


def _versions(paths: Sequence[Path], text: TextConfig) -> dict[str, Any]:
    """The versions that a tokenized text depends on: the tokenizer's, and times of change, which no fingerprint has."""
    packages = ["spacy"] * (text.tokens == "spacy") + ["pysbd"] * (text.sentences == "pysbd")
    versions = {"tokenizer": tokenizer.VERSION, "written": [path.stat().st_mtime_ns for path in paths]}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


class _Part(NamedTuple):
    """Paragraphs of a file to be tokenized."""

    file: int
    lines: list[str]
    starts: list[bool]


class _Tokenized(NamedTuple):
    words: list[str]
    tokens: Int[np.ndarray, " n"]
    """The numbers of `words` + 1; 0 ends a sentence."""
    lengths: Int[np.ndarray, " paragraphs"]
    """The number of positions of each paragraph."""


def make_ids(
    paths: Sequence[Path],
    text: TextConfig,
    progress: Callable[[int, int], object] | None = None,
    most: int | None = None,
) -> Ids:
    """Tokenizes a text; stops after about `most` positions, if given.

    `progress` is called with the bytes read so far and, approximately, those of the text.

    Raises InputError if a file cannot be read, or changes meanwhile.
    """
    before, fingerprint = _state(paths), corpus.corpus_fingerprint(paths)
    numbers: dict[str, int] = {}
    tokens: list[np.ndarray] = []
    lengths: list[np.ndarray] = []
    characters: list[int] = []
    starts: list[bool] = []
    files = [0] * len(paths)
    sizes = [corpus.size_of(path) for path in paths]
    done, read, total = 0, 0, sum(sizes)
    for part, found in _tokenized(paths, text):
        known = np.array([0, *(numbers.setdefault(word, len(numbers) + 2) for word in found.words)], np.int32)
        tokens.append(known[found.tokens])
        lengths.append(found.lengths)
        characters += map(len, part.lines)
        starts += part.starts
        files[part.file] += len(part.lines)
        done += len(found.tokens)
        read += sum(map(corpus.length_of, part.lines))
        if progress is not None:
            progress(read, total)
        if most is not None and done >= most:
            break
    for path, then, now in zip(paths, before, _state(paths), strict=True):
        if then != now:
            raise InputError(f"{path}: changed while it was read; start again when it is complete")
    whole = np.concatenate([np.zeros(0, np.int32), *tokens])
    last = np.cumsum(files).tolist()
    counts = np.bincount(whole, minlength=len(numbers) + 2)
    counts[[END, BEGIN]] = 0
    return Ids(
        whole, [EOS, BOS, *numbers], counts, np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths])),
        np.array(characters, np.int32), np.array(starts, np.bool_), list(zip([0, *last], last, strict=False)),
        sizes, list(map(str, paths)), fingerprint,
    )  # fmt: skip


def _state(paths: Sequence[Path]) -> list[tuple[int, int]]:
    return [(path.stat().st_size, path.stat().st_mtime_ns) for path in paths]


def _parts(paths: Sequence[Path]) -> Iterator[_Part]:
    for file, path in enumerate(paths):
        part, held = _Part(file, [], []), 0
        for line, starts_document in corpus.file_paragraphs(path):
            part.lines.append(line)
            part.starts.append(starts_document)
            held += len(line)
            if held >= PART_CHARACTERS:
                yield part
                part, held = _Part(file, [], []), 0
        if part.lines:
            yield part


def _tokenized(paths: Sequence[Path], text: TextConfig) -> Iterator[tuple[_Part, _Tokenized]]:
    """All parts in order, by as many processes as there are cores."""
    cores = usable_cores()
    if cores == 1 or sum(map(corpus.size_of, paths)) < WORTH_SHARING:
        splitter = Tokenizer(text)
        for part in _parts(paths):
            yield part, _tokenize(part.lines, splitter)
        return
    waiting: deque[tuple[_Part, Future[_Tokenized]]] = deque()
    context = multiprocessing.get_context(start_method())
    pool = ProcessPoolExecutor(cores, mp_context=context, initializer=_begin, initargs=(text,))
    try:
        for part in itertools.chain(_parts(paths), [None] * (2 * cores)):
            if part is not None:
                waiting.append((part, pool.submit(_work, part.lines)))
            if waiting and (part is None or len(waiting) > 2 * cores):
                first, future = waiting.popleft()
                yield first, future.result()
    except BrokenProcessPool as error:
        raise MemoryError("a process that tokenizes the text was ended, perhaps for want of memory") from error
    finally:
        pool.shutdown(cancel_futures=True)


_own: list[Tokenizer] = []


def _begin(text: TextConfig) -> None:
    end_with_parent()
    _own[:] = [Tokenizer(text)]


def _work(lines: list[str]) -> _Tokenized:
    return _tokenize(lines, _own[0])


def _tokenize(lines: list[str], splitter: Tokenizer) -> _Tokenized:
    numbers: dict[str, int] = {}
    tokens: list[int] = []
    lengths: list[int] = []
    respell, spelled = respell_function(splitter.config.normalize), dict[str, str]()
    for line in lines:
        before = len(tokens)
        for sentence in splitter.sentences(line):
            spelled |= {word: respell(word) for word in sentence if word not in spelled}
            tokens += [numbers.setdefault(spelled[word], len(numbers) + 1) for word in sentence]
            tokens.append(END)
        lengths.append(len(tokens) - before)
    return _Tokenized(list(numbers), np.array(tokens, np.int32), np.array(lengths, np.int64))
