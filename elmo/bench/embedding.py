"""Measures an `Embedder`'s speed, where its time goes, and how much it computes.

- `throughput`: tokens per second on a text of new words, and the LSTMs' speed
- `latency`: one sentence at a time
- `lstm_flops`, `lstm_bytes`: the LSTMs' operations, and the weights that they read
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from elmo import ops
from elmo.bench.machine import Limits, synchronize
from elmo.embedding.embedder import Embedder, Sentence
from elmo.embedding.pooling import unit_vectors
from elmo.machine import peak_memory
from elmo.model.config import LstmConfig

WORD_BYTES = {"float32": 4, "bfloat16": 2, "int8": 1, "int8-weights": 1}


@dataclass(frozen=True)
class Throughput:
    """The speed of embedding a text with all layers, in rounds; sentence boundaries do not count as tokens."""

    tokens: int
    rounds: list[float]
    """The seconds of every round."""
    lstm_seconds: float
    """The seconds that the median round spent in the LSTM layers."""
    encoder_seconds: float
    """The seconds that the same round spent in the token encoder (the character CNN)."""
    lstm_gflops: float
    """The LSTM layers' speed in 1e9 operations per second; boundaries count, padding does not."""

    @property
    def seconds(self) -> float:
        """The seconds of the median round."""
        return statistics.median_low(self.rounds)

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


@dataclass(frozen=True)
class Latency:
    """The milliseconds for a single sentence, as the median over several."""

    tokens: int
    new_words: float
    """The time of a sentence whose words are all new."""
    known_words: float
    """The time of a sentence whose word vectors are all cached, which is that of the LSTMs alone."""


@dataclass(frozen=True)
class PrecisionRow:
    """What was measured of one model in one precision."""

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


def measure(
    model: str,
    precision: ops.Precision,
    sentences: Sequence[Sentence],
    device: str,
    limits: Limits,
    rounds: int,
    seconds: float,
    compared: int,
) -> PrecisionRow:
    """Loads a model and measures it; call it in its own process, to measure memory.

    After everything else, compares the vectors of the first `compared` sentences with those of float32.
    """
    embedder = Embedder.load(model, precision=precision, device=device)
    fast = throughput(embedder, sentences, rounds, seconds)
    alone = latency(embedder, cut_runs(sentences, 20, 8))
    memory, cosines = peak_memory(), (None, None)
    if precision != "float32":
        mine = embedder.embed(sentences[:compared])
        found = _cosines(Embedder.load(model, device=device).embed(sentences[:compared]), mine)
        cosines = float(found.min()), float(found.mean())
    peak = limits.peak(precision)
    bandwidth = lstm_bytes(embedder.bilm.config.lstm, alone.tokens, precision) / (alone.known_words / 1000)
    return PrecisionRow(
        precision,
        fast.tokens_per_second,
        fast.rounds,
        fast.lstm_seconds / fast.seconds,
        fast.encoder_seconds / fast.seconds,
        fast.lstm_gflops,
        fast.lstm_gflops / peak if peak else 0.0,
        alone.new_words,
        alone.known_words,
        bandwidth,
        bandwidth / limits.bandwidth,
        memory,
        *cosines,
    )


def throughput(embedder: Embedder, sentences: Sequence[Sentence], rounds: int, seconds: float = 0.0) -> Throughput:
    """Embeds the text `rounds` times and at least for `seconds`, each time with an empty word cache.

    First embeds a tenth of the text, untimed. Discards the vectors.
    """
    _drain(embedder, sentences[: -(-len(sentences) // 10)])
    timed: list[tuple[float, float, float]] = []
    with (
        _stopwatch(list(embedder.bilm.layers), embedder.device) as lstm,
        _stopwatch([embedder.bilm.token_encoder], embedder.device) as encoder,
    ):
        while len(timed) < rounds or sum(times[0] for times in timed) < seconds:
            embedder.words.clear()
            lstm.clear()
            encoder.clear()
            began = time.perf_counter()
            _drain(embedder, sentences)
            timed.append((time.perf_counter() - began, sum(lstm), sum(encoder)))
    tokens = sum(map(len, sentences))
    flops = (tokens + 2 * len(sentences)) * lstm_flops(embedder.bilm.config.lstm)
    all_seconds = [times[0] for times in timed]
    _, in_lstm, in_encoder = timed[all_seconds.index(statistics.median_low(all_seconds))]
    return Throughput(tokens, all_seconds, in_lstm, in_encoder, 1e-9 * flops / in_lstm if in_lstm else 0.0)


def latency(embedder: Embedder, sentences: Sequence[Sentence]) -> Latency:
    """Embeds sentences of one length one by one, after an untimed run of the first."""
    _drain(embedder, sentences[:1])
    new = []
    for sentence in sentences:
        embedder.words.clear()
        new.append(_milliseconds(embedder, sentence))
    _drain(embedder, sentences)
    known = [_milliseconds(embedder, sentence) for sentence in sentences]
    return Latency(len(sentences[0]), statistics.median(new), statistics.median(known))


def cut_runs(sentences: Sequence[Sentence], length: int, count: int) -> list[list[str]]:
    """Cuts `count` runs of `length` tokens from the text, which is repeated if it is short."""
    tokens = [token for sentence in sentences for token in sentence]
    tokens *= -(-length * count // len(tokens))
    return [tokens[begin : begin + length] for begin in range(0, length * count, length)]


def lstm_flops(config: LstmConfig) -> int:
    """Returns the additions and multiplications of the LSTMs per token, over all layers and both directions."""
    gates = 4 * config.dim * 2 * config.projection_dim
    return 2 * 2 * config.n_layers * (gates + _projection(config))


def lstm_bytes(config: LstmConfig, tokens: int, precision: ops.Precision) -> int:
    """Returns the bytes of weights that the LSTMs read for one sentence.

    They read the weights of the input once and those of the state at each step, also for the two boundaries. Weights
    that stay in a cache count at each step, too.
    """
    square = 4 * config.dim * config.projection_dim
    return 2 * config.n_layers * (square + (tokens + 2) * (square + _projection(config))) * WORD_BYTES[precision]


def _projection(config: LstmConfig) -> int:
    return config.dim * config.projection_dim if config.has_projection else 0


def _drain(embedder: Embedder, sentences: Sequence[Sentence]) -> None:
    for _ in embedder.embed_stream(sentences):
        pass


def _milliseconds(embedder: Embedder, sentence: Sentence) -> float:
    began = time.perf_counter()
    embedder.embed([sentence])
    return 1000 * (time.perf_counter() - began)


@contextmanager
def _stopwatch(modules: Sequence[nn.Module], device: torch.device) -> Iterator[list[float]]:
    """Yields a list to which each call of one of `modules` appends its seconds."""
    times: list[float] = []
    began: list[float] = []

    def begin(*_: object) -> None:
        synchronize(device)
        began.append(time.perf_counter())

    def end(*_: object) -> None:
        synchronize(device)
        times.append(time.perf_counter() - began.pop())

    hooks = [module.register_forward_pre_hook(begin) for module in modules]
    hooks += [module.register_forward_hook(end) for module in modules]
    try:
        yield times
    finally:
        for hook in hooks:
            hook.remove()


def _cosines(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the cosines of each token's vectors in two runs, in all layers."""
    a, b = (np.concatenate([vectors.reshape(-1, vectors.shape[-1]) for vectors in run]) for run in (one, other))
    return (unit_vectors(a) * unit_vectors(b)).sum(-1)
