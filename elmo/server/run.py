"""Runs the server: the model has the main thread, the only one that can run both directions in parallel."""

import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

from elmo.errors import InputError, pip_line

try:
    import uvicorn

    from elmo.server.app import create_app
    from elmo.server.connection import Connection
    from elmo.server.guard import Traffic
    from elmo.server.service import ServeConfig, Service
except ImportError as error:  # pragma: no cover
    raise InputError(f"the server needs the extra serve ({error}): {pip_line('serve')}") from error

LOOPBACK = {"127.0.0.1", "::1", "localhost"}
LOCAL = "127.0.0.1", "[::1]", "localhost"
"""The loopback names as they stand in a request's Host header."""


class Server(uvicorn.Server):
    """uvicorn's server, which closes its socket when all accepted requests are answered, not before.

    Meanwhile `elmo.server.guard` refuses new requests with 503 and closes their connections.
    """

    def __init__(self, config: uvicorn.Config, traffic: Traffic, drain: float) -> None:
        super().__init__(config)
        self._traffic, self._drain = traffic, drain
        self._end: float | None = None

    def stop(self) -> None:
        """Accepts no new requests, and ends when the accepted ones are answered, after `drain` seconds at most."""
        self._end = time.monotonic() + self._drain

    async def on_tick(self, counter: int) -> bool:
        if self._end is not None and not self._traffic.draining:
            self._traffic.draining = True
            self._traffic.ended = time.monotonic()
        if self._traffic.draining and (self._traffic.is_quiet() or time.monotonic() > (self._end or 0)):
            self.should_exit = True
        return await super().on_tick(counter)


@contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Keeps a port for processes that serve as workers; yields its number, a free one for 0.

    Raises InputError where ports cannot be shared, and OSError if the port is taken.
    """
    if sys.platform != "linux":  # other systems give all connections to one process
        raise InputError("--workers needs ports that processes share, which this system lacks; start several servers")
    with socket.create_server((host, port), family=_family(host)) as alone:  # this fails if another process listens
        port = alone.getsockname()[1]
    with socket.socket(_family(host)) as keeper:  # it does not listen, so no connection comes here
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((host, port))
        yield port


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def serve(
    config: ServeConfig,
    host: str,
    port: int,
    key: str | None,
    started: Callable[[str], object] = print,
    worker_of: int | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT; then finishes accepted requests, for `drain` seconds at most.

    Calls `started` with the address. A worker of the process `worker_of` ends with it, and shares the port with the
    other workers: the system gives each of them a part of the connections.

    Raises InputError or OSError before serving, for example without a model or if the port is taken.
    """
    with socket.create_server(
        (host, port), family=_family(host), backlog=1024, reuse_port=worker_of is not None
    ) as listening:
        service = Service(config)
        traffic = Traffic(config.most_requests)
        app = create_app(service, key, traffic)
        options = uvicorn.Config(
            app,
            http=partial(Connection, seconds=config.sending),  # type: ignore[arg-type]
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=1,  # requests that are still at work after `drain` get another second
        )
        server = Server(options, traffic, config.drain)
        http = threading.Thread(target=_http, args=(server, listening, service), name="elmo-http")

        def stop(*_: int | FrameType | None) -> None:
            server.stop()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        if worker_of is not None:
            threading.Thread(target=_stop_with_parent, args=(worker_of, server.stop), daemon=True).start()
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        gc.collect()
        gc.freeze()  # otherwise each collection would visit the whole model while requests wait
        http.start()
        try:
            name = f"[{host}]" if ":" in host else host
            started(f"http://{name}:{listening.getsockname()[1]}")
            service.batcher.run()
        finally:
            server.should_exit = True
            http.join()
            for number, handler in before.items():
                signal.signal(number, handler)


def _stop_with_parent(parent: int, stop: Callable[[], None]) -> None:
    """Stops a worker when the command that started it was killed, and can no longer pass on a signal."""
    while os.getppid() == parent:
        time.sleep(1)
    stop()


def _http(server: uvicorn.Server, listening: socket.socket, service: Service) -> None:
    try:
        server.run(sockets=[listening])
    finally:
        service.batcher.close()
