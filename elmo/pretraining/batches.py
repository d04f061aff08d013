"""LmReader: plain text files -> an endless or one-pass stream of training windows that can be stopped and resumed.

- B parallel streams of documents; every window takes the next T positions of each
- documents are assigned to streams by raw text alone, so ranks with different streams agree without communicating
- text is tokenised lazily, paragraph by paragraph, by the rank that owns the stream
- every batch carries the position after it, from which a reader resumes bit for bit
- `prefetch` runs the reader in another process
"""

import heapq
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from elmo.errors import InputError
from elmo.text import corpus
from elmo.text.characters import BOS, EOS, encode_words
from elmo.text.corpus import Document
from elmo.text.tokenizer import TextConfig, Tokenizer
from elmo.text.vocabulary import Vocabulary
from elmo.training.sharding import own_range
from elmo.types import LmBatch

IGNORED = -1  # target of a position without text
_REMEDY = "resume with the files and settings of the first run, or start a new one"


@dataclass(frozen=True)
class ReaderConfig:
    """How a corpus is cut into windows."""

    streams: int = 128
    """Parallel streams of text, over all ranks."""
    window: int = 20
    """Positions per window and stream."""
    seed: int = 0
    shuffle: bool = True
    """Reads documents in a new order every epoch; False: in file order."""
    epochs: int | None = None
    """How often to read the corpus; None: endlessly."""
    max_characters: int = 50
    """Per word, boundary marks included; given by the model's character CNN."""
    rank: int = 0
    world: int = 1
    document_characters: int = corpus.MAX_CHARACTERS
    """Longer documents are split."""
    buffer_characters: int = corpus.BUFFER_CHARACTERS
    """Text in memory from which shuffling draws the next document."""
    shares: int = 1
    """Parts of the corpus, each with its own streams: see `shares`."""
    reads_words: bool = False
    """Whether the model reads words: their vocabulary ids then replace characters."""

    @property
    def own_streams(self) -> range:
        """The streams that this rank reads."""
        return own_range(self.streams, self.rank, self.world)


class Reference(NamedTuple):
    """Identifies a document: number `ordinal` in the epoch's reading order."""

    epoch: int
    ordinal: int


class LmReader:
    """Iterates over the windows of `paths`, as bilm-tf trains; `LmBatch` describes a window.

    With `epochs`, a stream without more text is padded (targets -1, any word as input) until all streams of this rank
    end. Ranks may then end after different numbers of windows.

    `position` is that of the last batch used. Raises InputError if the corpus has no text, is not UTF-8, or is not the
    one that `position` belongs to.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        vocabulary: Vocabulary,
        text: TextConfig,
        config: ReaderConfig,
        position: dict[str, Any] | None = None,
    ) -> None:
        _check(config)
        self.config = config
        self._vocabulary = vocabulary
        self._corpus = corpus.fingerprint(paths)
        tokenizer = Tokenizer(text)
        self._streams = [_Stream(tokenizer) for _ in config.own_streams]
        self._tokens = 0
        if position is None:
            begin = Reference(0, 0)
            self._dealer = _Dealer(paths, config, [0] * config.streams, begin, _epoch(paths, config, begin.epoch))
        else:
            self._dealer = self._resume(paths, position)

    def __iter__(self) -> Iterator[LmBatch]:
        return self

    def __next__(self) -> LmBatch:
        spans = self.spans()
        return self.batch(spans, self.position())

    def spans(self) -> "list[_Span]":
        """The next window of every stream."""
        spans = [self._read(stream) for stream in self._streams]
        self._tokens += sum(map(sum, (span.real for span in spans)))
        return spans

    def position(self) -> dict[str, Any]:
        """The reader's position: plain JSON values, a few kB.

        - `epoch`, `ordinal`, `dealt`: the next document to deal, and the characters dealt to every stream so far
        - `streams`: for each stream of this rank its documents, and the paragraph and offset in the first of them; also
          `received`, if another rank had dealt further: the stream has had all documents before it
        - `tokens`: positions read so far by this rank in one direction, sentence ends included
        """
        return {
            "epoch": self._dealer.next.epoch,
            "ordinal": self._dealer.next.ordinal,
            "tokens": self._tokens,
            "corpus": self._corpus,
            "order": corpus.ORDER,
            "rank": self.config.rank,
            "world": self.config.world,
            "dealt": list(self._dealer.dealt),
            "streams": [stream.position(self._dealer.next) for stream in self._streams],
        }

    def _read(self, stream: "_Stream") -> "_Span":
        """The next window of one stream."""
        span = _Span()
        missing = self.config.window
        while missing:
            if stream.has_text():
                missing -= stream.read(missing, span)
            elif not self._deal_to(stream):
                break
        span.pad(missing)
        return span

    def _deal_to(self, stream: "_Stream") -> bool:
        """Deals documents until `stream` has one; False at the end of the last epoch."""
        own = self.config.own_streams
        for index, reference, document in self._dealer:
            if index in own:
                receiver = self._streams[index - own.start]
                if reference < receiver.received:
                    continue
                receiver.append(reference, document)
                if receiver is stream:
                    return True
        return False

    def batch(self, spans: "list[_Span]", position: dict[str, Any]) -> LmBatch:
        """Windows as tensors. Raises StopIteration if all are empty."""
        real = np.array([span.real for span in spans])
        if not real.any():
            raise StopIteration
        shape = (2, len(spans), self.config.window)
        flat = [word for direction in range(2) for span in spans for word in span.inputs[direction]]
        rows = {word: row for row, word in enumerate(dict.fromkeys(flat))}
        inputs = np.fromiter(map(rows.__getitem__, flat), np.int64, len(flat))
        expected = chain.from_iterable(span.targets[direction] for direction in range(2) for span in spans)
        targets = np.array(self._vocabulary.ids(expected), np.int64).reshape(shape)
        targets[:, ~real] = IGNORED
        keep, starts = np.array([span.keep for span in spans]), np.array([span.starts for span in spans])
        return LmBatch(
            char_ids=torch.from_numpy(self._encode(list(rows)).astype(np.int64)),
            inputs=torch.from_numpy(inputs.reshape(shape)),
            targets=torch.from_numpy(targets),
            keep=torch.from_numpy(np.stack([keep, keep])),
            starts=torch.from_numpy(np.stack([starts, starts])),
            position=position,
        )

    def _encode(self, words: list[str]) -> np.ndarray:
        """What the model sees of every word, (W, C)."""
        return (
            self._vocabulary.encode(words)
            if self.config.reads_words
            else encode_words(words, self.config.max_characters)
        )

    def _resume(self, paths: Sequence[Path], position: dict[str, Any]) -> "_Dealer":
        """Rereads the raw text up to `position` and restores every stream; tokenises almost nothing."""
        config = self.config
        expected = {"corpus": self._corpus, "order": corpus.ORDER, "rank": config.rank, "world": config.world}
        for name, value in expected.items():
            known = position.get(name)
            is_same = corpus.is_fingerprint(known, value) if name == "corpus" else known == value
            if not is_same:  # older ones have no order
                raise InputError(f"the checkpoint has {name} {known!r}, this run {value!r}; {_REMEDY}")
        if len(position["dealt"]) != config.streams:
            raise InputError(f"resumed with {config.streams} streams, started with {len(position['dealt'])}; {_REMEDY}")
        end = Reference(position["epoch"], position["ordinal"])
        wanted = {Reference(*name) for place in position["streams"] for name in place["documents"]}
        found: dict[Reference, Document] = {}
        documents: Iterator[Document] = iter(())
        for epoch in sorted({reference.epoch for reference in wanted} | {end.epoch}):
            documents = _epoch(paths, config, epoch)
            last = max((reference.ordinal for reference in wanted if reference.epoch == epoch), default=-1)
            stop = max(last + 1, end.ordinal) if epoch == end.epoch else last + 1
            for ordinal in range(stop):
                document = next(documents, None)
                if document is None:
                    raise InputError(f"the corpus ends before document {ordinal}, where the run stopped; {_REMEDY}")
                if Reference(epoch, ordinal) in wanted:
                    found[Reference(epoch, ordinal)] = document
        for stream, place in zip(self._streams, position["streams"], strict=True):
            for name in place["documents"]:
                stream.append(Reference(*name), found[Reference(*name)])
            stream.seek(place["paragraph"], place["offset"])
            stream.received = Reference(*place.get("received", (0, 0)))
        if any(reference >= end for reference in wanted):  # another process had dealt further
            documents = islice(_epoch(paths, config, end.epoch), end.ordinal, None)
        self._tokens = position["tokens"]
        return _Dealer(paths, config, position["dealt"], end, documents)


class _Span:
    """A window of one stream under construction; index 0 of `inputs` and `targets` is forward, 1 backward."""

    def __init__(self) -> None:
        self.inputs: tuple[list[str], list[str]] = ([], [])
        self.targets: tuple[list[str], list[str]] = ([], [])
        self.starts: list[bool] = []
        self.keep: list[bool] = []
        self.real: list[bool] = []

    def pad(self, positions: int) -> None:
        for direction in range(2):
            self.inputs[direction].extend([BOS] * positions)
            self.targets[direction].extend([BOS] * positions)
        self.starts.extend([False] * positions)
        self.keep.extend([True] * positions)
        self.real.extend([False] * positions)


class _Paragraph:
    """The sentences of a paragraph, concatenated as each direction reads them."""

    def __init__(self, sentences: list[list[str]]) -> None:
        self.forward = [word for sentence in sentences for word in (BOS, *sentence)]
        self.backward = [word for sentence in sentences for word in (EOS, *reversed(sentence))]
        self.forward_targets = [word for sentence in sentences for word in (*sentence, EOS)]
        self.backward_targets = [word for sentence in sentences for word in (*reversed(sentence), BOS)]
        self.starts = [place == 0 for sentence in sentences for place in range(len(sentence) + 1)]


class _Stream:
    """A queue of documents; the first is being read."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._documents: deque[tuple[Reference, Document]] = deque()
        self.received = Reference(0, 0)  # it has had all documents before this one
        self._lines: list[str] = []  # of the document being read
        self._number = 0  # of the paragraph being read
        self._offset = 0  # positions of it already read
        self._paragraph = _Paragraph([])
        self._starts_document = False  # whether to reset the state at the next position

    def append(self, reference: Reference, document: Document) -> None:
        """Adds a document to the queue."""
        self._documents.append((reference, document))
        if len(self._documents) == 1:
            self._starts_document = True
            self._open(0)

    def has_text(self) -> bool:
        """Moves on to the next position that has text; False if the queue holds none."""
        while self._offset == len(self._paragraph.starts):
            if self._number + 1 < len(self._lines):
                self._open(self._number + 1)
            elif len(self._documents) > 1:
                # A finished document stays queued until here: the next one may continue it.
                _, last = self._documents.popleft()
                self._starts_document |= not self._documents[0][1].follows(last)
                self._open(0)
            else:
                return False
        return True

    def read(self, limit: int, span: _Span) -> int:
        """Adds at most `limit` positions of the paragraph to `span`; returns how many. Needs `has_text()`."""
        paragraph, begin = self._paragraph, self._offset
        end = min(begin + limit, len(paragraph.starts))
        span.inputs[0].extend(paragraph.forward[begin:end])
        span.inputs[1].extend(paragraph.backward[begin:end])
        span.targets[0].extend(paragraph.forward_targets[begin:end])
        span.targets[1].extend(paragraph.backward_targets[begin:end])
        span.starts.extend(paragraph.starts[begin:end])
        span.keep.append(not self._starts_document)
        span.keep.extend([True] * (end - begin - 1))
        span.real.extend([True] * (end - begin))
        self._starts_document = False
        self._offset = end
        return end - begin

    def position(self, following: Reference) -> dict[str, Any]:
        """`following` is dealt next."""
        place = {
            "documents": [list(reference) for reference, _ in self._documents],
            "paragraph": self._number,
            "offset": self._offset,
        }
        return place | ({"received": list(self.received)} if self.received > following else {})

    def seek(self, paragraph: int, offset: int) -> None:
        """Moves to a position in the first document of the queue."""
        if self._documents:
            paragraphs = self._documents[0][1].text.count("\n") + 1
            if paragraph >= paragraphs:
                raise InputError(
                    f"the checkpoint is at paragraph {paragraph + 1} of a document of {paragraphs}: the text has"
                    f" changed; {_REMEDY}"
                )
            self._open(paragraph)
            if offset > len(self._paragraph.starts):
                raise InputError(
                    f"the checkpoint is at word {offset} of a paragraph of {len(self._paragraph.starts)}: the tokenizer"
                    " has changed; install the version of the first run, or start a new one"
                )
            self._offset = offset
            self._starts_document = paragraph == 0 and offset == 0

    def _open(self, paragraph: int) -> None:
        if paragraph == 0 or not self._lines:
            self._lines = self._documents[0][1].text.split("\n")
        self._number = paragraph
        self._offset = 0
        self._paragraph = _Paragraph(self._tokenizer.sentences(self._lines[paragraph]))


class _Dealer:
    """Deals the documents of the corpus, each to the stream with the fewest characters so far.

    Iterates over (stream, reference, document), for the streams of all ranks. `dealt` has the characters dealt to every
    stream; `next` identifies the next document, the first of `documents`, which are the rest of its epoch.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        config: ReaderConfig,
        dealt: Sequence[int],
        begin: Reference,
        documents: Iterator[Document],
    ) -> None:
        self._paths = paths
        self._config = config
        self.dealt = list(dealt)
        self.next = begin
        self._documents = documents
        self._fewest = [(characters, stream) for stream, characters in enumerate(dealt)]
        heapq.heapify(self._fewest)

    def __iter__(self) -> Iterator[tuple[int, Reference, Document]]:
        return self

    def __next__(self) -> tuple[int, Reference, Document]:
        document = next(self._documents, None)
        while document is None:
            epoch, count = self.next
            if count == 0:
                names = ", ".join(str(path) for path in self._paths[:3])
                raise InputError(f"{names}: no text in the corpus; give files that contain words")
            if self._config.epochs is not None and epoch + 1 >= self._config.epochs:
                raise StopIteration
            self.next = Reference(epoch + 1, 0)
            self._documents = _epoch(self._paths, self._config, epoch + 1)
            document = next(self._documents, None)
        reference = self.next
        self.next = Reference(reference.epoch, reference.ordinal + 1)
        _, stream = self._fewest[0]
        self.dealt[stream] += len(document.text)
        heapq.heapreplace(self._fewest, (self.dealt[stream], stream))
        return stream, reference, document


def prefetch(
    paths: Sequence[Path],
    vocabulary: Vocabulary,
    text: TextConfig,
    config: ReaderConfig,
    position: dict[str, Any] | None = None,
    workers: int = 1,
    depth: int = 8,
    reader: Callable[..., Iterator[LmBatch]] = LmReader,
) -> Generator[LmBatch, None, None]:
    """The batches of `reader`, read ahead by up to `depth` in another process, which `close` ends; with 0 workers, in
    this one.

    InputError and OSError are raised here as they are; a RuntimeError has the traceback of any other error there.
    """
    if workers == 0:
        yield from reader(paths, vocabulary, text, config, position)
        return
    windows = _Windows(reader, paths, vocabulary, text, config, position)
    # A separate generator: DataLoader draws a number, which would shift the random numbers of a step.
    own = torch.Generator()
    loader = DataLoader(
        windows,
        batch_size=None,
        num_workers=1,
        prefetch_factor=depth,
        generator=own,
        collate_fn=_unchanged,
        multiprocessing_context=_start_method(),
    )
    for item in loader:
        if isinstance(item, Exception):
            raise item
        tensors = {name: torch.from_numpy(part) for name, part in item.items() if isinstance(part, np.ndarray)}
        yield LmBatch(**(item | tensors))


def _start_method() -> str | None:
    """How the other process starts; None for Python's default.

    On Linux it is forked unless the program asked for spawn. Python 3.14 has another default there, which runs a
    program without `if __name__ == "__main__":` once more.
    """
    forks = sys.platform == "linux" and multiprocessing.get_start_method(allow_none=True) != "spawn"
    return "fork" if forks else None


class _Windows(IterableDataset):
    """The reader in the other process; an error is its last item: DataLoader would rewrite it, and leave the process.

    Windows are sent as arrays. Tensors would use shared memory, which is small in containers, and whose transfer warns
    if a run stops in the middle of it.
    """

    def __init__(self, reader: Callable[..., Iterator[LmBatch]], *arguments: Any) -> None:
        self._reader, self._arguments = reader, arguments

    def __iter__(self) -> Iterator[dict[str, Any] | Exception]:
        torch.set_num_threads(1)
        _end_with_parent()
        try:
            for batch in self._reader(*self._arguments):
                yield {name: x.numpy() if isinstance(x, torch.Tensor) else x for name, x in vars(batch).items()}
        except (InputError, OSError) as error:
            yield error
        except Exception:  # as text, since not every error can be sent
            yield RuntimeError(f"the process that reads the corpus failed:\n{traceback.format_exc()}")


def _end_with_parent() -> None:
    """Ends this process when its parent is gone, and not before it, so that a killed run leaves none behind.

    DataLoader watches too, but finally waits for someone to take the windows that it has sent.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows ends it by either

    # Whoever stops a run may signal all its processes; the parent, which first writes a checkpoint, then ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    threading.Thread(target=watch, daemon=True).start()


def _unchanged(item: Any) -> Any:
    return item


def _epoch(paths: Sequence[Path], config: ReaderConfig, epoch: int) -> Iterator[Document]:
    if config.shuffle:
        return corpus.shuffled(paths, config.seed, epoch, config.document_characters, config.buffer_characters)
    return corpus.documents(paths, config.document_characters)


def _check(config: ReaderConfig) -> None:
    if config.window < 1:
        raise InputError(f"window is {config.window}; at least 1 position is needed")
    if config.streams < 1 or config.streams % config.world:
        raise InputError(f"streams is {config.streams}; a multiple of {config.world} processes is expected")
