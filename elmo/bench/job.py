"""Measures a model on this machine, each precision in its own process, and the machine's limits."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from elmo import formats, ops
from elmo.bench import embedding, machine, process
from elmo.embedding.embedder import Sentence
from elmo.errors import InputError
from elmo.model.config import LstmConfig
from elmo.text import corpus
from elmo.text.tokenizer import Tokenizer

PRECISIONS: tuple[ops.Precision, ...] = get_args(ops.Precision)
COMPARED = 20
"""The number of sentences whose vectors are compared with those of float32."""


@dataclass(frozen=True)
class Bench:
    """All measurements, as plain values for JSON."""

    model: str
    lstm: LstmConfig
    text: str
    sentences: int
    tokens: int
    distinct_words: int
    limits: machine.Limits
    import_seconds: float
    """The seconds of `import elmo`."""
    first_vector_seconds: float
    """The seconds from the start of a process to the model's first vector, in float32."""
    rows: list[embedding.PrecisionRow]
    not_measured: dict[str, str]
    """The reasons why precisions were not measured on this device, by precision."""


def measure_model(
    model: str,
    text: tuple[str, Sequence[Sentence]],
    device: str = "cpu",
    precisions: Sequence[ops.Precision] = PRECISIONS,
    rounds: int = 1,
    seconds: float = 1.0,
    progress: Callable[[str], None] = lambda _: None,
) -> Bench:
    """Measures a model on a text, given by its name and sentences; calls `progress` with the next step.

    The text is embedded `rounds` times, and at least for `seconds`. Unavailable precisions are omitted.
    """
    name, sentences = text
    lstm = formats.describe(model).config.lstm
    progress("the machine's limits")
    limits = process.in_fresh_process(machine.measure_limits, lstm, device)
    progress("from the start to the first vector")
    import_seconds = process.import_seconds()
    first_vector_seconds = process.first_vector_seconds(model, device)
    rows = []
    not_measured: dict[str, str] = {}
    for precision in precisions:
        if problem := _problem(precision, device):
            not_measured[precision] = problem
            continue
        progress(precision)
        arguments = (model, precision, sentences, device, limits, rounds, seconds, COMPARED)
        rows.append(process.in_fresh_process(embedding.measure, *arguments))
    words = set(itertools.chain.from_iterable(sentences))
    return Bench(
        model,
        lstm,
        name,
        len(sentences),
        sum(map(len, sentences)),
        len(words),
        limits,
        import_seconds,
        first_vector_seconds,
        rows,
        not_measured,
    )


def first_sentences(path: Path, tokenizer: Tokenizer, tokens: int) -> list[list[str]]:
    """Returns the first sentences of a text, with this many tokens together, or the whole text if it is shorter."""
    if tokens < 1:
        raise InputError(f"{tokens} tokens of {path} were asked for; at least 1 is expected")
    chosen: list[list[str]] = []
    for sentence in corpus.corpus_sentences([path], tokenizer):
        if tokens <= 0:
            break
        chosen.append(sentence)
        tokens -= len(sentence)
    if not chosen:
        raise InputError(f"{path}: there is no word in it; a text with some sentences is expected")
    return chosen


def _problem(precision: ops.Precision, device: str) -> str:
    if device.startswith("cpu"):
        return ops.find_support(precision).problem
    return "for the CPU only" if precision.startswith("int8") else ""
