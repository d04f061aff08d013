"""Shows and records a run's progress: a line on the terminal or in a log, JSON lines, TensorBoard."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from elmo.config import read_regular, without_nonfinite
from elmo.disk.files import AppendedFile, write_run_file
from elmo.terminal import Counter, format_value


@runtime_checkable
class Logger(Protocol):
    """Another destination of numbers, such as the loggers of Lightning and Fabric (TensorBoard, wandb, MLflow, CSV)."""

    def log_metrics(self, metrics: Any, step: int) -> None: ...

    def finalize(self, status: str) -> None: ...


class Monitor:
    """Writes `metrics.jsonl` and TensorBoard events in `folder`, and shows the progress. It is a context manager.

    When an interrupted run resumes from `first_step`, the metrics of later steps (or those after `kept_step`, if given)
    are dropped first. `label` names the run in the terminal, and `loggers` get the numbers of every record, too. Only
    the first process has a folder; without one a monitor does nothing.
    """

    def __init__(
        self,
        folder: Path | None,
        total_steps: int,
        first_step: int = 0,
        quiet: bool = False,
        kept_step: int | None = None,
        label: str = "",
        loggers: Sequence[Logger] = (),
    ) -> None:
        quiet = quiet or folder is None
        kept_step = first_step if kept_step is None else kept_step
        self._lines = None if folder is None else _lines_after(folder / "metrics.jsonl", kept_step)
        self._events = None
        with suppress(ImportError):  # tensorboard is not installed
            self._events = None if folder is None else _Events(folder / "tensorboard", kept_step)
        self._counter = Counter("steps", quiet, label)
        self._counter.begin(first_step)
        self._total = total_steps
        self._loggers = () if folder is None else loggers

    def __enter__(self) -> Self:
        self._counter.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._counter.__exit__(*exception)
        for logger in self._loggers:
            logger.finalize("success" if exception[0] is None else "failed")
        if self._lines is not None:
            self._lines.close()
        if self._events is not None:
            self._events.close()

    def advance(self, step: int) -> None:
        """Shows a finished step."""
        self._counter.update(step, self._total)

    def record(self, step: int, metrics: dict[str, Any]) -> None:
        """Writes and shows the metrics of a step."""
        line = {"step": step, **metrics, "time": round(time.time(), 1)}
        if self._lines is not None:
            self._lines.write(json.dumps(without_nonfinite(line)).encode() + b"\n")
        numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
        if self._events is not None:
            self._events.add(step, numbers)
        for logger in self._loggers:
            logger.log_metrics(numbers, step)
        self._counter.update(step, self._total, [f"{name} {format_value(value)}" for name, value in numbers.items()])
        self._counter.show()


def _lines_after(path: Path, step: int) -> AppendedFile:
    """Opens the file to append, after dropping lines of steps after `step`."""
    kept = []
    content = read_regular(path) if path.exists() else b""
    for line in content.decode("utf-8", "replace").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError, RecursionError):  # a killed run has not finished this line
            continue
    write_run_file(path, "".join(f"{line}\n" for line in kept).encode())
    return AppendedFile(path)


class _Events:
    """Writes a file for TensorBoard. TensorBoard's own writer has a thread whose errors nobody can catch."""

    def __init__(self, folder: Path, first_step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[attr-defined]
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[attr-defined]
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        self._event, self._summary = Event, Summary
        self._writer = RecordWriter(AppendedFile(folder / f"events.out.tfevents.{time.time():.6f}.{os.getpid()}"))
        self._write(file_version="brain.Event:2")
        # Hides what an interrupted run wrote after the step from which this one resumes.
        self._write(step=first_step + 1, session_log=SessionLog(status=SessionLog.START))

    def add(self, step: int, numbers: Mapping[str, int | float]) -> None:
        """Adds the numbers of a step, by name."""
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        self._write(step=step, summary=self._summary(value=values))

    def close(self) -> None:
        self._writer.close()

    def _write(self, **content: Any) -> None:
        self._writer.write(self._event(wall_time=time.time(), **content).SerializeToString())
