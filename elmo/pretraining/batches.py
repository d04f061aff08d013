"""Reads a text as an endless or one-pass stream of training windows that can be stopped and resumed.

- B streams of documents are read in parallel; every window takes the next T positions of each.
- Documents are assigned to streams by their characters alone, so all ranks agree without communicating.
- A window consists of places in the text (`Places`): the CPU turns them into an `LmBatch`, a GPU looks them up itself.
- Every batch carries the position after it, from which a reader resumes to the bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int

from elmo.errors import InputError
from elmo.pretraining.dealing import REMEDY, Dealer, Reference, Stream
from elmo.pretraining.ids import BEGIN, Ids
from elmo.pretraining.order import BUFFER_CHARACTERS, MAX_CHARACTERS, ORDER, Piece, document_pieces, shuffled_pieces
from elmo.text.characters import encode_words
from elmo.text.vocabulary import Vocabulary
from elmo.training.sharding import own_range
from elmo.types import LmBatch

IGNORED = -1  # the target of a position without text


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
        self._pieces = document_pieces(ids, config.document_characters)
        if all(piece.begin == piece.end for file in self._pieces for piece in file):
            raise InputError(f"{', '.join(ids.names[:3])}: no text in the corpus; give files that contain words")
        self.config = config
        self._ids = ids
        characters = partial(encode_words, max_characters=config.max_characters)
        self._encode = vocabulary.encode if config.reads_words else characters
        self._known = ids.of_vocabulary(vocabulary)
        self._streams = [Stream() for _ in config.own_streams]
        self._tokens = 0
        if position is None:
            begin = Reference(0, 0)
            self._dealer = Dealer(self._epoch, config.epochs, [0] * config.streams, begin, self._epoch(0))
        else:
            self._dealer = self._resume(position)

    def __iter__(self) -> Iterator[LmBatch]:
        return self

    def __next__(self) -> LmBatch:
        window = self.places()
        return self.batch(window, self.position())

    def places(self) -> Places:
        """Returns the next window of every stream; a stream at its end has no places."""
        shape = len(self._streams), self.config.window
        window = Places(np.full(shape, -1, np.int64), np.ones(shape, np.bool_))
        for stream, places, keep in zip(self._streams, *window, strict=True):
            done = 0
            while done < len(places):
                if stream.has_text():
                    done += stream.read(places[done:], keep[done:])
                elif not self._deal_to(stream):
                    break
        self._tokens += int((window.places >= 0).sum())
        return window

    def position(self) -> dict[str, Any]:
        """Returns the position of the reader, as plain JSON values of a few kB.

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

    def _deal_to(self, stream: Stream) -> bool:
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
        """Returns the window as tensors. Raises StopIteration if all streams are at their end."""
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

    def _epoch(self, epoch: int) -> Iterator[Piece]:
        config = self.config
        if config.shuffle:
            return shuffled_pieces(self._pieces, self._ids.sizes, config.seed, epoch, config.buffer_characters)
        return chain.from_iterable(self._pieces)

    def _resume(self, position: dict[str, Any]) -> Dealer:
        """Repeats the order up to `position` and restores every stream."""
        config = self.config
        expected = {"corpus": self._ids.fingerprint, "order": ORDER, "rank": config.rank, "world": config.world}
        for name, value in expected.items():
            known = position[name]
            if known != value:
                raise InputError(f"the checkpoint has {name} {known!r}, this run {value!r}; {REMEDY}")
        if len(position["dealt"]) != config.streams:
            raise InputError(f"resumed with {config.streams} streams, started with {len(position['dealt'])}; {REMEDY}")
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
                    raise InputError(f"the corpus ends before document {ordinal}, where the run stopped; {REMEDY}")
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
        return Dealer(self._epoch, config.epochs, position["dealt"], end, documents)
