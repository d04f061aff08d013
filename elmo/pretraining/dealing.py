"""Deals the documents of a corpus to streams, each of which reads its own one after another."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from elmo.errors import InputError
from elmo.pretraining.order import Piece

REMEDY = "resume with the files and settings of the first run, or start a new one"


class Reference(NamedTuple):
    """Identifies a document: number `ordinal` in the epoch's reading order."""

    epoch: int
    ordinal: int


class Stream:
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
        """Returns the position of the stream; `following` is the document that is dealt next."""
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
                    f" tokenizer or the text has changed; {REMEDY}"
                )
            self._at = document.begin + offset
            self._starts_document = offset == 0


class Dealer:
    """Deals the documents of the corpus, each to the stream with the fewest characters so far.

    Iterates over (stream, reference, document), for the streams of all ranks. `dealt` has the characters dealt to every
    stream; `next` identifies the next document, the first of `documents`, which are the rest of its epoch. There are
    `epochs` epochs, or no end of them if that is None; `epoch` returns the documents of one.
    """

    def __init__(
        self,
        epoch: Callable[[int], Iterator[Piece]],
        epochs: int | None,
        dealt: Sequence[int],
        begin: Reference,
        documents: Iterator[Piece],
    ) -> None:
        self._epoch = epoch
        self._epochs = epochs
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
            if self._epochs is not None and epoch + 1 >= self._epochs:
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
