"""Reads the sentences of many files, of text and of other kinds, and says where each stands."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo.text import corpus
from elmo.text.records import Kind, TextRecord, kind_of, of_file, read_records, text_records
from elmo.text.tokenizer import Tokenizer


class CorpusRecords:
    """The sentences of files (text, CoNLL-U or FASTA, by name), in order, and how much of the files is read.

    No sentence is empty. Each `TextRecord` has its file, and in text its line and characters. Lines are those of
    `corpus.file_lines`, which splits a huge one. Raises InputError at once for a name that does not show its file's
    kind.
    """

    def __init__(self, paths: Sequence[Path], tokenizer: Tokenizer) -> None:
        self._kinds: dict[Path, Kind] = {path: kind_of(path) for path in paths}
        self._tokenizer, self._read = tokenizer, 0

    def __iter__(self) -> Iterator[TextRecord]:
        before = 0
        for path, kind in self._kinds.items():
            self._read = before
            records = self._of_text(path) if kind == "text" else read_records(self._lines(path), kind, None, path)
            yield from (record for record in of_file(records, path) if record.tokens)
            before += corpus.size_of(path)
        self._read = before

    def _of_text(self, path: Path) -> Iterator[TextRecord]:
        for line, number, first in corpus.placed_lines(path):
            self._read += corpus.length_of(line)
            yield from text_records(line, self._tokenizer, number, first)

    def _lines(self, path: Path) -> Iterator[str]:
        for line in corpus.file_lines(path, corpus.MOST_CHARACTERS, whole=True):
            self._read += corpus.length_of(line)
            yield line

    def total(self, done: int) -> int | None:
        """Estimates how many there will be of what there are `done` of now; None before anything is read."""
        return corpus.estimate(done, self._read, sum(map(corpus.size_of, self._kinds)))
