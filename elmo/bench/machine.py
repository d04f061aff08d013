"""Measures the machine's limits: the speed of matrix products at a model's shapes, and memory bandwidth.

Both are the fastest of many short trials. They are an upper limit to compare a model's speed with, not an average.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

import torch
from torch import Tensor

from elmo import ops
from elmo.machine import processor
from elmo.model.config import LstmConfig
from elmo.ops.parallel import run_both

ROWS = (128, 256, 1024)
"""The rows of the tried products: the steps of a batch times its sentences."""
STREAM_BYTES = 256_000_000
"""The bytes that are read repeatedly, which are more than a processor's caches hold."""

Way = Literal["torch", "onednn", "fbgemm", "compiled", "_int_mm"]


@dataclass(frozen=True)
class Peak:
    """The fastest product of one precision and library."""

    precision: ops.Precision
    library: Way
    gflops: float
    """The speed in 1e9 additions and multiplications per second."""
    shape: tuple[int, int, int]
    """The rows, inputs and outputs of the product."""


@dataclass(frozen=True)
class Limits:
    """A machine and its limits."""

    date: str
    processor: str
    threads: int
    torch: str
    device: str
    peaks: list[Peak]
    bandwidth: float
    """The bandwidth in bytes per second."""

    def peak(self, precision: str) -> float:
        """Returns the GFLOP/s of the fastest product of a precision; 0 if there is none."""
        return max((peak.gflops for peak in self.peaks if peak.precision == precision), default=0.0)


def measure_limits(config: LstmConfig, device: str = "cpu", seconds: float = 0.05) -> Limits:
    """Measures this machine at the LSTMs' shapes; `seconds` is the time per shape.

    Raises InputError for an unknown device.
    """
    name, threads = processor(device), torch.get_num_threads()
    peaks = [_peak(precision, way, config, device, seconds) for precision, way in _ways(device)]
    today = date.today().isoformat()
    return Limits(today, name, threads, torch.__version__, device, peaks, measure_bandwidth(device))


def measure_bandwidth(device: str) -> float:
    """Measures memory bandwidth in bytes per second: the best of a sum, a maximum and a copy."""
    source = torch.ones(STREAM_BYTES // 4, device=device)
    target = torch.empty_like(source)
    works: list[tuple[Callable[[], object], int]] = [
        (source.sum, 1),
        (source.amax, 1),
        (lambda: target.copy_(source), 2),
    ]
    return max(passes * STREAM_BYTES / _fastest(work, device, 8, 0.0) for work, passes in works)


def synchronize(device: str | torch.device) -> None:
    """Waits for the device to finish; does nothing on a CPU."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def _ways(device: str) -> list[tuple[ops.Precision, Way]]:
    if torch.device(device).type != "cpu":
        return [("float32", "torch"), ("bfloat16", "torch")]
    ways: list[tuple[ops.Precision, Way]] = []
    for precision in get_args(ops.Precision):
        ways.extend((precision, library) for library in ops.find_support(precision).libraries)
    return [*ways, ("int8", "_int_mm")]


def _peak(precision: ops.Precision, way: Way, config: LstmConfig, device: str, seconds: float) -> Peak:
    shapes = {(config.projection_dim, 4 * config.dim), (config.dim, config.projection_dim)}
    found = []
    for inputs, outputs in shapes:
        weight = torch.randn(outputs, inputs, device=device)
        product = _integers(weight) if way == "_int_mm" else ops.pack(weight, precision, way)
        for rows in ROWS:
            x = torch.randn(rows, inputs, device=device).to(_input_type(precision, way))
            found.append(Peak(precision, way, _gflops(product, x, outputs, device, seconds), (rows, inputs, outputs)))
    return max(found, key=lambda peak: peak.gflops)


def _integers(weight: Tensor) -> Callable[[Tensor], Tensor]:
    """Returns the bare product of 8-bit integers, without scaling."""
    integers = weight.mul(30).clamp(-127, 127).to(torch.int8).T
    return lambda x: torch._int_mm(x, integers)  # pyright: ignore[reportPrivateImportUsage]


def _input_type(precision: ops.Precision, way: Way) -> torch.dtype:
    if way == "_int_mm":
        return torch.int8
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def _gflops(product: Callable[[Tensor], Tensor], x: Tensor, outputs: int, device: str, seconds: float) -> float:
    """Returns the speed of the faster arrangement: all threads share a product, or each half has its own."""
    work = 2e-9 * x.shape[0] * x.shape[1] * outputs

    def half(_: int) -> None:
        product(x)

    def halves() -> None:
        run_both(half, torch.device(device))

    with torch.inference_mode():
        together = work / _fastest(lambda: product(x), device, 3, seconds)
        if torch.get_num_threads() < 2:
            return together
        return max(together, 2 * work / _fastest(halves, device, 3, seconds))


def _fastest(work: Callable[[], object], device: str, rounds: int, seconds: float) -> float:
    """Returns the seconds of the fastest round, of at least `rounds` and as many as fit into `seconds`."""
    work()
    times: list[float] = []
    while len(times) < rounds or sum(times) < seconds:
        synchronize(device)
        began = time.perf_counter()
        work()
        synchronize(device)
        times.append(time.perf_counter() - began)
    return min(times)
