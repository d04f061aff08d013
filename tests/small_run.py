"""A training run that takes a second: its settings, and what it leaves behind in comparable form."""

import json
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file
from small_corpus import write_corpus

TINY = (
    "--pretokenized",
    "streams=4",
    "window=5",
    "accelerator=cpu",
    "model.lstm.dim=8",
    "model.lstm.projection_dim=4",
    "model.char_cnn.embedding_dim=4",
    "model.char_cnn.filters=[[1,4],[2,4]]",
    "objective.negatives=8",
    "optim.warmup_steps=10",
    "epochs=100",
    "compiled=false",  # compiling takes longer than these steps
)
LEARNS = ("streams=16", "window=10", "max_words=16000", "optim.lr=0.05")
"""After `TINY`: 100 steps, after which it has learned much. More rows of a step cost next to nothing, more steps do."""
UNTIMED = ("time", "tokens_per_s")


def texts(folder: Path) -> tuple[str, ...]:
    """Flags that name a training and a held-out text, written to `folder`."""
    train, heldout = write_corpus(folder / "train.txt", 60, seed=1), write_corpus(folder / "heldout.txt", 8, seed=2)
    return ("--train", str(train), "--heldout", str(heldout))


def metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics, without what depends on the clock."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in UNTIMED} for line in lines]


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in metrics(run) if "loss" in line]


def steps_done(run: Path) -> int:
    """The last step of which there is a trace, while the run is being written."""
    try:
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return 0
    return json.loads(lines[-2])["step"] if len(lines) > 1 else 0


def model_bytes(run: Path) -> dict[str, bytes]:
    """The files of the model that was made, byte by byte, but for the date in its card."""
    return {path.name: path.read_bytes() for path in (run / "model").iterdir() if path.name != "config.json"}


def last_checkpoint(run: Path) -> dict[str, bytes]:
    """The tensors of the last checkpoint."""
    newest = max((run / "checkpoints").glob("step-*"))
    return {
        f"{path.name} {name}": array.tobytes()
        for path in newest.glob("*.safetensors")
        for name, array in load_file(path).items()
    }
