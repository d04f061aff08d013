"""Sums the vectors of every sense over a labelled corpus, at every layer.

- The corpus is read as a stream. Memory holds the sums (float32), never the vectors of all words.
- The sums are saved periodically, in one file with the position and the known words. A killed run resumes from this
  file and gives the same bits as an uninterrupted one.
"""

import json
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from elmo.disk.files import advise_resume, run_file
from elmo.disk.run import check_same
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo_lab.probes.wsd_readers import LabelledSentence
from elmo_lab.probes.wsd_vectors import instance_vectors, sentence_batches

CHECKPOINT = "sums.npz"
START_OVER = "to start over, give --overwrite instead of --resume"
Progress = Callable[[int, int], object]


@dataclass
class Senses:
    """The senses of a corpus, numbered in order of appearance, and their frequencies."""

    numbers: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    """The sense keys of every (lemma, part of speech) in corpus order, with the number of each."""
    counts: list[int] = field(default_factory=list)
    """The number of instances of each sense; an instance with several keys counts for each."""
    sentences: int = 0
    """The number of sentences with an instance."""

    def add(self, labelled: LabelledSentence) -> None:
        """Counts the senses of one sentence."""
        self.sentences += bool(labelled.keys)
        for instance, keys in zip(labelled.sentence.instances, labelled.keys, strict=True):
            known = self.numbers.setdefault((instance.lemma, instance.pos), {})
            for key in keys:
                if key not in known:
                    known[key] = len(self.counts)
                    self.counts.append(0)
                self.counts[known[key]] += 1

    def by_frequency(self, lemma: str, pos: str) -> list[tuple[str, int]]:
        """Returns the keys and numbers of a word's senses, most frequent first; equals are in corpus order."""
        known = self.numbers.get((lemma, pos), {})
        return sorted(known.items(), key=lambda item: -self.counts[item[1]])


def sense_sums(
    embedder: Embedder,
    corpus: Iterable[LabelledSentence],
    senses: Senses,
    checkpoint: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    minutes: float = 1.0,
    progress: Progress | None = None,
) -> Float[np.ndarray, "S N D"]:
    """Sums the vectors of every sense's instances; an instance of several tokens is averaged first.

    If `checkpoint` is given, the sums are written to this file at regular intervals and at the end. If the file exists,
    the sums continue from it. It must have been written with the same `settings`; otherwise, InputError is raised.
    `progress` is called with the number of sentences that are done, and the total.
    """
    totals = np.zeros((len(senses.counts), embedder.n_layers, embedder.dim), np.float32)
    embedder.words.clear()  # the last bits may depend on which words are already known
    kept = 0  # the number of chunks in the file
    if checkpoint is not None and checkpoint.is_file():
        kept = _read(checkpoint, settings or {}, totals, embedder)
    saved, number, sentences = time.monotonic(), 0, 0
    for number, chunk in enumerate(sentence_batches(embedder, corpus), 1):
        if number > kept:
            _add(totals, embedder, chunk, senses)
            if checkpoint is not None and time.monotonic() - saved >= 60 * minutes:
                _write(checkpoint, settings or {}, totals, embedder, number)
                saved, kept = time.monotonic(), number
        sentences += sum(bool(labelled.keys) for labelled in chunk)
        if progress is not None:
            progress(sentences, senses.sentences)
    if checkpoint is not None and number > kept:
        _write(checkpoint, settings or {}, totals, embedder, number)
    return totals


def _add(totals: Float[np.ndarray, "S N D"], embedder: Embedder, chunk: list[LabelledSentence], senses: Senses) -> None:
    """Adds the vectors of one chunk, which are summed as float64 by sense."""
    vectors: list[np.ndarray] = []
    numbers: list[int] = []
    for instance, keys, vector in instance_vectors(embedder, chunk):
        known = senses.numbers[instance.lemma, instance.pos]
        numbers += [known[key] for key in keys]
        vectors += [vector] * len(keys)
    if not numbers:  # a chunk may have no instance, since carried state skips no sentence
        return
    order = np.argsort(numbers, kind="stable")
    found, begins = np.unique(np.array(numbers)[order], return_index=True)
    totals[found] += np.add.reduceat(np.stack(vectors)[order], begins, axis=0, dtype=np.float64)


def _write(
    path: Path, settings: Mapping[str, Any], totals: Float[np.ndarray, "S N D"], embedder: Embedder, done: int
) -> None:
    """Writes the checkpoint; its array `run` is JSON in bytes."""
    names, vectors = embedder.words.known()
    run = np.frombuffer(json.dumps({"settings": settings, "done": done, "words": names}).encode(), np.uint8)
    with advise_resume(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with run_file(path) as file:
        np.savez(file, run=run, sums=totals, words=vectors)


def _read(path: Path, settings: Mapping[str, Any], totals: Float[np.ndarray, "S N D"], embedder: Embedder) -> int:
    """Restores what the checkpoint has; returns the number of finished chunks."""
    try:
        with path.open("rb") as file, np.load(file) as kept:
            run = json.loads(kept["run"].tobytes())
            known, words = kept["sums"], kept["words"]
            done, names, old = run["done"], run["words"], run["settings"]
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: damaged ({error}); {START_OVER}") from error
    check_same(path, old, json.loads(json.dumps(settings)), START_OVER)
    if known.shape != totals.shape:
        raise InputError(f"{path}: does not match the corpus and the model; {START_OVER}")
    totals[:] = known
    embedder.words.keep(names, words)
    return done
