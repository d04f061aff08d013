"""The metrics of a server, in Prometheus' format; each server has its own registry."""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE_LATEST
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

TOKENS = (1, 8, 32, 128, 512, 2048, 8192, 32768)
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters and histograms of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("elmo_requests", "Requests", ("route", "status"), registry=self.registry)
        self.seconds = Histogram(
            "elmo_request_seconds", "Time to the answer", ("route",), registry=self.registry, buckets=SECONDS
        )
        self.tokens = Counter("elmo_tokens", "Tokens of accepted requests", registry=self.registry)
        self._sizes = Histogram("elmo_batch_tokens", "Tokens of a batch", registry=self.registry, buckets=TOKENS)
        self._batches = Histogram("elmo_batch_seconds", "Time in the model", registry=self.registry, buckets=SECONDS)
        self._queue = Gauge("elmo_queue_tokens", "Tokens that wait", registry=self.registry)

    def batch(self, tokens: int, seconds: float) -> None:
        """Counts one batch of the model."""
        self._sizes.observe(tokens)
        self._batches.observe(seconds)

    def watch(self, waiting: Callable[[], int]) -> None:
        """Reads the length of the queue whenever the metrics are read."""
        self._queue.set_function(waiting)

    def text(self) -> bytes:
        """Returns all metrics, as the body of a response."""
        return generate_latest(self.registry)
