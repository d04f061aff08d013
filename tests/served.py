"""A server in a process of its own, and its application in this one, for tests."""

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tiny import tiny_model

from elmo.formats import Model, native
from elmo.server.app import create_app
from elmo.server.service import ServeConfig, Service


@dataclass
class Served:
    """A server process."""

    url: str
    process: subprocess.Popen

    def post(self, path: str, content: object, **options) -> httpx.Response:
        return httpx.post(self.url + path, json=content, timeout=30, **options)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)


def start(log: Path, *flags: str, **variables: str) -> Served:
    """`elmo serve` at a free port, when it is ready; its log goes to a file."""
    command = [sys.executable, "-m", "elmo", "serve", "--port", "0", *flags]
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True, env=os.environ | variables)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://\S+", line)
    assert found, log.read_text(encoding="utf-8")
    return Served(found[0], process)


def start_tiny(folder: Path, *flags: str) -> Served:
    """`elmo serve` with a random model; `folder` gets it as `model`, and the log as `log`."""
    native.save(tiny_model(), folder / "model")
    return start(folder / "log", "--model", str(folder / "model"), *flags)


def stop(served: Served) -> None:
    """SIGTERM, and the end."""
    served.process.terminate()
    assert served.process.wait(15) == 0
    assert served.process.stdout is not None
    served.process.stdout.close()


def kill(served: Served) -> None:
    """SIGKILL, which leaves nobody time for a good end."""
    served.process.kill()
    served.process.communicate()


def held(pid: int) -> tuple[int, int]:
    """Open files and threads of a process; zeros where the system does not say."""
    process = Path("/proc", str(pid))
    if not process.exists():
        return 0, 0
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def comes_back(process: int, before: tuple[int, int]) -> bool:
    """Whether it holds no more than before, within some seconds."""
    end = time.monotonic() + 10
    while any(now > then for now, then in zip(held(process), before, strict=True)):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def running_service(folder: Path, model: Model) -> Iterator[Service]:
    """The application's service with `model`, which is written to `folder`; its model runs in a thread."""
    native.save(model, folder)
    service = Service(ServeConfig(str(folder)))
    thread = threading.Thread(target=service.batcher.run)
    thread.start()
    try:
        yield service
    finally:
        service.batcher.close()
        thread.join(10)


def asked(service: Service, asking: Callable[[httpx.AsyncClient], Any], key: str | None = None) -> Any:
    """What the coroutine of `asking` returns, for a client of the application."""

    async def run() -> Any:
        transport = httpx.ASGITransport(create_app(service, key))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await asking(client)

    return asyncio.run(run())
