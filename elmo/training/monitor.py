"""What a run shows and keeps of its progress: a bar on the terminal, JSON lines, TensorBoard."""

import json
import sys
import time
from pathlib import Path
from typing import Any, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Monitor:
    """Writes `metrics.jsonl` and TensorBoard events in `folder` and shows a progress bar; a context manager.

    Metrics of steps after `first_step` (of an interrupted run that goes on from there) are dropped first. Without a
    folder it does nothing: of several processes one has it.
    """

    def __init__(self, folder: Path | None, total_steps: int, first_step: int = 0, quiet: bool = False) -> None:
        quiet = quiet or folder is None
        self._console = Console(file=sys.stderr, quiet=quiet)
        self._quiet = quiet
        self._lines = None if folder is None else _lines_after(folder / "metrics.jsonl", first_step)
        self._events = None if folder is None else _tensorboard(folder, first_step)
        self._bar = Progress(
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("train", total=total_steps, completed=first_step, status="")
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
        """A step is done."""
        self._bar.update(self._task, completed=step)

    def record(self, step: int, metrics: dict[str, Any]) -> None:
        """Keeps the metrics of a step and shows them."""
        line = {"step": step, **metrics, "time": round(time.time(), 1)}
        if self._lines is not None:
            self._lines.write(json.dumps(line) + "\n")
            self._lines.flush()
        numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
        if self._events is not None:
            for name, value in numbers.items():
                self._events.add_scalar(name, value, step)
        status = "  ".join(f"{name} {value:,.4g}" for name, value in numbers.items())
        self._bar.update(self._task, status=status)
        if not self._bar.disable or self._quiet:
            return
        done = step - self._first
        left = (time.monotonic() - self._began) / max(1, done) * (self._total - step)
        self._console.print(f"step {step}/{self._total}  {status}  {left / 60:.0f} min left", soft_wrap=True)


def _lines_after(path: Path, step: int) -> TextIO:
    """The file, open to append to what it has up to `step`."""
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []:
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except json.JSONDecodeError:  # the line that a killed run was writing
            continue
    temporary = path.with_suffix(".part")
    temporary.write_text("".join(kept), encoding="utf-8")
    temporary.replace(path)
    return path.open("a", encoding="utf-8")


def _tensorboard(folder: Path, first_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=first_step + 1)
