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
class PrecisionRow:
    """The results of one precision; `elmo.bench.embedding` says how each number is measured."""

    precision: ops.Precision
    tokens_per_second: float
    """The speed of the median round, for all layers and new words; boundaries do not count."""
    rounds: list[float]
    """The seconds of every round."""
    lstm_share: float
    """The share of the time in the LSTM layers."""
    encoder_share: float
    """The share of the time in the token encoder."""
    lstm_gflops: float
    lstm_of_peak: float
    """The speed of the LSTMs as a share of the fastest product of this precision on this machine."""
    sentence_new_ms: float
    """The time of a sentence of 20 tokens whose words are all new."""
    sentence_known_ms: float
    """The time of the same sentence with cached word vectors."""
    sentence_bandwidth: float
    """The bytes of weights per second that the LSTMs read for a sentence with cached word vectors."""
    sentence_of_bandwidth: float
    """The bandwidth of the LSTMs as a share of the machine's; it is over 1 if a cache keeps weights."""
    peak_bytes: int
    """Peak memory of the process, torch and all weights included."""
    smallest_cosine: float | None
    """The smallest cosine to the float32 vectors, over the tokens and layers of the first sentences."""
    mean_cosine: float | None


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
    rows: list[PrecisionRow]
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
        arguments = (model, precision, sentences, device, rounds, seconds, COMPARED)
        rows.append(_row(precision, process.in_fresh_process(embedding.measure, *arguments), lstm, limits))
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


def _row(
    precision: ops.Precision, measured: embedding.Measurements, lstm: LstmConfig, limits: machine.Limits
) -> PrecisionRow:
    throughput, latency = measured.throughput, measured.latency
    peak = limits.peak(precision)
    bandwidth = embedding.lstm_bytes(lstm, latency.tokens, precision) / (latency.known_words / 1000)
    return PrecisionRow(
        precision,
        throughput.tokens_per_second,
        throughput.rounds,
        throughput.lstm_seconds / throughput.seconds,
        throughput.encoder_seconds / throughput.seconds,
        throughput.lstm_gflops,
        throughput.lstm_gflops / peak if peak else 0.0,
        latency.new_words,
        latency.known_words,
        bandwidth,
        bandwidth / limits.bandwidth,
        measured.peak_bytes,
        measured.smallest_cosine,
        measured.mean_cosine,
    )
