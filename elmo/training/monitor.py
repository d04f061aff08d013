"""Shows and records a run's progress: a bar on the terminal, JSON lines, TensorBoard."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from elmo.config import finite
from elmo.disk.files import Appended, write
from elmo.terminal import shown


class Monitor:
    """Writes `metrics.jsonl` and TensorBoard events in `folder` and shows a progress bar; a context manager.

    When an interrupted run resumes from `first_step`, metrics of later steps (or those after `kept_step`, if given) are
    dropped first. `label` names the progress bar. Without a folder it does nothing: only one process has it.
    """

    def __init__(
        self,
        folder: Path | None,
        total_steps: int,
        first_step: int = 0,
        quiet: bool = False,
        kept_step: int | None = None,
        label: str = "",
    ) -> None:
        quiet = quiet or folder is None
        kept_step = first_step if kept_step is None else kept_step
        self._console = Console(file=sys.stderr, quiet=quiet, force_terminal=sys.stderr.isatty())
        self._label = f"{label}: " if label else ""
        self._quiet = quiet
        self._lines = None if folder is None else _lines_after(folder / "metrics.jsonl", kept_step)
        self._events = None if folder is None else _Events.open(folder / "tensorboard", kept_step)
        self._bar = Progress(
            TextColumn("{task.description}step {task.completed}/{task.total}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._bar.add_task(self._label, total=total_steps, completed=first_step, status="")
        self._total, self._first, self._began = total_steps, first_step, time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()
        if self._lines is not None:
            self._lines.close()
        if self._events is not None:
            self._events.close()

    def advance(self, step: int) -> None:
        """Moves the bar to a finished step."""
        self._bar.update(self._task, completed=step)

    def record(self, step: int, metrics: dict[str, Any]) -> None:
        """Writes and shows the metrics of a step."""
        line = {"step": step, **metrics, "time": round(time.time(), 1)}
        if self._lines is not None:
            self._lines.write(json.dumps(finite(line)).encode() + b"\n")
        numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
        if self._events is not None:
            self._events.add(step, numbers)
        status = "  ".join(f"{name} {shown(value)}" for name, value in numbers.items())
        self._bar.update(self._task, status=status)
        if not self._bar.disable or self._quiet:
            return
        done = step - self._first
        left = (time.monotonic() - self._began) / max(1, done) * (self._total - step)
        line = f"{self._label}step {step}/{self._total}  {status}  {left / 60:.0f} min left"
        self._console.print(line, soft_wrap=True, markup=False)


def _lines_after(path: Path, step: int) -> Appended:
    """Opens the file to append, after dropping lines of steps after `step`."""
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []:
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except json.JSONDecodeError:  # the line that a killed run was writing
            continue
    write(path, "".join(kept).encode())
    return Appended(path)


class _Events:
    """A file for TensorBoard, whose own writer has a thread with errors that nobody can catch."""

    def __init__(self, folder: Path, first_step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[attr-defined]
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[attr-defined]
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        self._event, self._summary = Event, Summary
        self._writer = RecordWriter(Appended(folder / f"events.out.tfevents.{time.time():.6f}.{os.getpid()}"))
        self._write(file_version="brain.Event:2")
        # Hides what an interrupted run wrote after the step from which this one resumes.
        self._write(step=first_step + 1, session_log=SessionLog(status=SessionLog.START))

    @classmethod
    def open(cls, folder: Path, first_step: int) -> "_Events | None":
        """None if tensorboard is not installed."""
        try:
            return cls(folder, first_step)
        except ImportError:
            return None

    def add(self, step: int, numbers: Mapping[str, int | float]) -> None:
        """Adds the numbers of a step, by name."""
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        self._write(step=step, summary=self._summary(value=values))

    def close(self) -> None:
        self._writer.close()

    def _write(self, **content: Any) -> None:
        self._writer.write(self._event(wall_time=time.time(), **content).SerializeToString())
