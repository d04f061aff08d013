"""Reads a text as an endless or one-pass stream of training windows that can be stopped and resumed.

- B streams of documents are read in parallel; every window takes the next T positions of each.
- Documents are assigned to streams by their characters alone, so all ranks agree without communicating.
- A window consists of places in the text (`Places`): the CPU turns them into an `LmBatch`, a GPU looks them up itself.
- Every batch carries the position after it, from which a reader resumes to the bit.
- `prefetch` runs the reader in another process.
"""

import heapq
import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch.utils.data import DataLoader, IterableDataset

from elmo.errors import InputError
from elmo.pretraining.ids import BEGIN, Ids, processes_are_forked
from elmo.pretraining.order import BUFFER_CHARACTERS, MAX_CHARACTERS, ORDER, Piece, document_pieces, shuffled_pieces
from elmo.text.characters import encode_words
from elmo.text.vocabulary import Vocabulary
from elmo.training.sharding import own_range
from elmo.types import LmBatch

IGNORED = -1  # the target of a position without text
_REMEDY = "resume with the files and settings of the first run, or start a new one"


@dataclass(frozen=True)
class ReaderConfig:
    """How a corpus is cut into windows."""

    streams: int = 128
    """The number of parallel streams of text, over all ranks."""
    window: int = 20
    """The number of positions per window and stream."""
    seed: int = 0
    shuffle: bool = True
    """Whether documents are read in a new order every epoch, and not in file order."""
    epochs: int | None = None
    """How often the corpus is read; None means endlessly."""
    max_characters: int = 50
    """The most characters per word, boundary marks included; the model's character CNN decides it."""
    rank: int = 0
    world: int = 1
    document_characters: int = MAX_CHARACTERS
    """The most characters of a document; longer documents are split."""
    buffer_characters: int = BUFFER_CHARACTERS
    """The characters of text from which shuffling draws the next document."""
    shares: int = 1
    """The number of parts of the corpus, each with its own streams; see `shares`."""
    reads_words: bool = False
    """Whether the model reads words, whose vocabulary ids then replace characters."""

    @property
    def own_streams(self) -> range:
        """The streams that this rank reads."""
        return own_range(self.streams, self.rank, self.world)


class Reference(NamedTuple):
    """Identifies a document: number `ordinal` in the epoch's reading order."""

    epoch: int
    ordinal: int


class Places(NamedTuple):
    """A window of every stream, as places in `Ids.tokens`."""

    places: Int[np.ndarray, "B T"]
    """The places in the text; -1 where there is no more text."""
    keep: Bool[np.ndarray, "B T"]
    """A mask that is False where a document starts and the state is reset to zero."""


class LmReader:
    """Iterates over the windows of a text, as bilm-tf trains; `LmBatch` describes a window.

    With `epochs`, a stream without more text is padded (targets -1, any word as input) until all streams of this rank
    end. Ranks may then end after different numbers of windows.

    `position` is that of the last batch used. Raises InputError if the text is empty, or is not the one that `position`
    belongs to.
    """

    def __init__(
        self, ids: Ids, vocabulary: Vocabulary, config: ReaderConfig, position: dict[str, Any] | None = None
    ) -> None:
        _check(config)
        self._pieces = document_pieces(ids, config.document_characters)
        if all(piece.begin == piece.end for file in self._pieces for piece in file):
            raise InputError(f"{', '.join(ids.names[:3])}: no text in the corpus; give files that contain words")
        self.config = config
        self._ids, self._vocabulary = ids, vocabulary
        self._known = ids.of_vocabulary(vocabulary)
        self._streams = [_Stream() for _ in config.own_streams]
        self._tokens = 0
        if position is None:
            begin = Reference(0, 0)
            self._dealer = _Dealer(self._epoch, config, [0] * config.streams, begin, self._epoch(0))
        else:
            self._dealer = self._resume(position)

    def __iter__(self) -> Iterator[LmBatch]:
        return self

    def __next__(self) -> LmBatch:
        window = self.places()
        return self.batch(window, self.position())

    def places(self) -> Places:
        """Returns the next window of every stream. Raises StopIteration if all are at their end."""
        shape = len(self._streams), self.config.window
        window = Places(np.full(shape, -1, np.int64), np.ones(shape, np.bool_))
        for stream, *row in zip(self._streams, *window, strict=True):
            self._read(stream, *row)
        self._tokens += int((window.places >= 0).sum())
        return window

    def position(self) -> dict[str, Any]:
        """The position of the reader, as plain JSON values of a few kB.

        - `epoch`, `ordinal` and `dealt` are the next document to deal, and the characters dealt to every stream so far.
        - `streams` has the documents of each stream of this rank, and the positions of the first of them that are read.
          If another rank has dealt further, `received` names the document before which the stream has had all.
        - `tokens` are the positions that this rank has read so far in one direction, sentence ends included.
        """
        return {
            "epoch": self._dealer.next.epoch,
            "ordinal": self._dealer.next.ordinal,
            "tokens": self._tokens,
            "corpus": self._ids.fingerprint,
            "order": ORDER,
            "rank": self.config.rank,
            "world": self.config.world,
            "dealt": list(self._dealer.dealt),
            "streams": [stream.position(self._dealer.next) for stream in self._streams],
        }

    def _read(self, stream: "_Stream", places: Int[np.ndarray, " T"], keep: Bool[np.ndarray, " T"]) -> None:
        """Fills one stream's window."""
        done = 0
        while done < len(places):
            if stream.has_text():
                done += stream.read(places[done:], keep[done:])
            elif not self._deal_to(stream):
                return

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

    def batch(self, window: Places, position: dict[str, Any]) -> LmBatch:
        """The window as tensors. Raises StopIteration if all streams are at their end."""
        real = window.places >= 0
        if not real.any():
            raise StopIteration
        found = self._ids.windows(np.maximum(window.places, 0))
        targets = self._known[found.targets].astype(np.int64)
        targets[:, ~real] = IGNORED
        words, inputs = np.unique(np.where(real, found.inputs, BEGIN), return_inverse=True)
        starts = found.starts & real
        return LmBatch(
            char_ids=torch.from_numpy(self._encode([self._ids.words[word] for word in words]).astype(np.int64)),
            inputs=torch.from_numpy(inputs.reshape(targets.shape)),
            targets=torch.from_numpy(targets),
            keep=torch.from_numpy(np.stack([window.keep, window.keep])),
            starts=torch.from_numpy(np.stack([starts, starts])),
            position=position,
        )

    def _encode(self, words: list[str]) -> np.ndarray:
        """The ids that the model reads of every word, (W, C)."""
        return (
            self._vocabulary.encode(words)
            if self.config.reads_words
            else encode_words(words, self.config.max_characters)
        )

    def _epoch(self, epoch: int) -> Iterator[Piece]:
        config = self.config
        if config.shuffle:
            return shuffled_pieces(self._pieces, self._ids.sizes, config.seed, epoch, config.buffer_characters)
        return chain.from_iterable(self._pieces)

    def _resume(self, position: dict[str, Any]) -> "_Dealer":
        """Repeats the order up to `position` and restores every stream."""
        config = self.config
        expected = {"corpus": self._ids.fingerprint, "order": ORDER, "rank": config.rank, "world": config.world}
        for name, value in expected.items():
            known = position[name]
            if known != value:
                raise InputError(f"the checkpoint has {name} {known!r}, this run {value!r}; {_REMEDY}")
        if len(position["dealt"]) != config.streams:
            raise InputError(f"resumed with {config.streams} streams, started with {len(position['dealt'])}; {_REMEDY}")
        end = Reference(position["epoch"], position["ordinal"])
        wanted = {Reference(*name) for place in position["streams"] for name in place["documents"]}
        found: dict[Reference, Piece] = {}
        documents: Iterator[Piece] = iter(())
        for epoch in sorted({reference.epoch for reference in wanted} | {end.epoch}):
            documents = self._epoch(epoch)
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
            stream.seek(place["offset"])
            stream.received = Reference(*place.get("received", (0, 0)))
        if any(reference >= end for reference in wanted):  # another process had dealt further
            documents = islice(self._epoch(end.epoch), end.ordinal, None)
        self._tokens = position["tokens"]
        return _Dealer(self._epoch, config, position["dealt"], end, documents)


class _Stream:
    """A queue of documents; the first is being read."""

    def __init__(self) -> None:
        self._documents: deque[tuple[Reference, Piece]] = deque()
        self.received = Reference(0, 0)  # the stream has had all documents before this one
        self._at = 0  # the next place
        self._starts_document = False  # whether to reset the state there

    def append(self, reference: Reference, document: Piece) -> None:
        """Adds a document to the queue."""
        self._documents.append((reference, document))
        if len(self._documents) == 1:
            self._starts_document = True
            self._at = document.begin

    def has_text(self) -> bool:
        """Moves on to the next position that has text; False if the queue holds none."""
        while self._documents and self._at == self._documents[0][1].end:
            if len(self._documents) == 1:
                return False
            # A finished document stays in the queue until here, since the next one may continue it.
            _, last = self._documents.popleft()
            self._starts_document |= not self._documents[0][1].follows(last)
            self._at = self._documents[0][1].begin
        return bool(self._documents)

    def read(self, places: Int[np.ndarray, " T"], keep: Bool[np.ndarray, " T"]) -> int:
        """Fills the beginning of the arrays from the document; returns how much. Needs `has_text()`."""
        count = min(len(places), self._documents[0][1].end - self._at)
        places[:count] = range(self._at, self._at + count)
        keep[0] = not self._starts_document
        self._starts_document = False
        self._at += count
        return count

    def position(self, following: Reference) -> dict[str, Any]:
        """The position of the stream; `following` is the document that is dealt next."""
        offset = self._at - self._documents[0][1].begin if self._documents else 0
        place = {"documents": [list(reference) for reference, _ in self._documents], "offset": offset}
        return place | ({"received": list(self.received)} if self.received > following else {})

    def seek(self, offset: int) -> None:
        """Moves to a position in the first document of the queue."""
        if self._documents:
            _, document = self._documents[0]
            if offset > document.end - document.begin:
                raise InputError(
                    f"the checkpoint is at word {offset} of a document of {document.end - document.begin}: the"
                    f" tokenizer or the text has changed; {_REMEDY}"
                )
            self._at = document.begin + offset
            self._starts_document = offset == 0


class _Dealer:
    """Deals the documents of the corpus, each to the stream with the fewest characters so far.

    Iterates over (stream, reference, document), for the streams of all ranks. `dealt` has the characters dealt to every
    stream; `next` identifies the next document, the first of `documents`, which are the rest of its epoch.
    """

    def __init__(
        self,
        epoch: Callable[[int], Iterator[Piece]],
        config: ReaderConfig,
        dealt: Sequence[int],
        begin: Reference,
        documents: Iterator[Piece],
    ) -> None:
        self._epoch = epoch
        self._config = config
        self.dealt = list(dealt)
        self.next = begin
        self._documents = documents
        self._fewest = [(characters, stream) for stream, characters in enumerate(dealt)]
        heapq.heapify(self._fewest)

    def __iter__(self) -> Iterator[tuple[int, Reference, Piece]]:
        return self

    def __next__(self) -> tuple[int, Reference, Piece]:
        document = next(self._documents, None)
        while document is None:
            epoch, _ = self.next
            if self._config.epochs is not None and epoch + 1 >= self._config.epochs:
                raise StopIteration
            self.next = Reference(epoch + 1, 0)
            self._documents = self._epoch(epoch + 1)
            document = next(self._documents, None)
        reference = self.next
        self.next = Reference(reference.epoch, reference.ordinal + 1)
        _, stream = self._fewest[0]
        self.dealt[stream] += document.characters
        heapq.heapreplace(self._fewest, (self.dealt[stream], stream))
        return stream, reference, document


def prefetch(
    ids: Ids,
    vocabulary: Vocabulary,
    config: ReaderConfig,
    position: dict[str, Any] | None = None,
    workers: int = 1,
    depth: int = 8,
    reader: Callable[..., Iterator[LmBatch]] = LmReader,
) -> Generator[LmBatch, None, None]:
    """Yields the batches of `reader`, of which another process makes up to `depth` ahead; `close` ends the process.

    With 0 workers, this process makes them. InputError and OSError of the other process are raised here as they are;
    a RuntimeError has the traceback of any other error.
    """
    if workers == 0:
        yield from reader(ids, vocabulary, config, position)
        return
    windows = _Windows(reader, ids, vocabulary, config, position)
    # DataLoader draws a number. Without a generator of its own, this would shift the random numbers of a step.
    own = torch.Generator()
    loader = DataLoader(
        windows,
        batch_size=None,
        num_workers=1,
        prefetch_factor=depth,
        generator=own,
        collate_fn=_unchanged,
        multiprocessing_context="fork" if processes_are_forked() else None,
    )
    for item in loader:
        if isinstance(item, Exception):
            raise item
        tensors = {name: torch.from_numpy(part) for name, part in item.items() if isinstance(part, np.ndarray)}
        yield LmBatch(**(item | tensors))


class _Windows(IterableDataset):
    """The reader in the other process; an error is its last item: DataLoader would rewrite it, and leave the process.

    Windows are sent as arrays. Tensors would use shared memory, which is small in containers, and whose transfer warns
    if a run stops in the middle of it.
    """

    def __init__(self, reader: Callable[..., Iterator[LmBatch]], *arguments: Any) -> None:
        self._reader, self._arguments = reader, arguments

    def __iter__(self) -> Iterator[dict[str, Any] | Exception]:
        torch.set_num_threads(1)
        end_with_parent()
        try:
            for batch in self._reader(*self._arguments):
                yield {name: x.numpy() if isinstance(x, torch.Tensor) else x for name, x in vars(batch).items()}
        except (InputError, OSError) as error:
            yield error
        except Exception:  # it is sent as text, since not every error can be pickled
            yield RuntimeError(f"the process that reads the corpus failed:\n{traceback.format_exc()}")


def end_with_parent() -> None:
    """Ends this process when its parent is gone, and not before it, so that a killed run leaves none behind.

    DataLoader watches too, but finally waits for someone to take the windows that it has sent.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has only SIGTERM, which also kills

    # A signal to stop may reach all processes of a run. The parent first writes a checkpoint, then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    threading.Thread(target=watch, daemon=True).start()


def _unchanged(item: Any) -> Any:
    return item


def _check(config: ReaderConfig) -> None:
    if config.window < 1:
        raise InputError(f"window is {config.window}; at least 1 position is needed")
    if config.streams < 1 or config.streams % config.world:
        raise InputError(f"streams is {config.streams}; a multiple of {config.world} processes is expected")
