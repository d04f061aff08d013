"""Results that nobody measured: the files of runs and probes, with numbers that make every table's answer known."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.config import find_recipe
from elmo_lab import RECIPES, record
from elmo_lab.probes import ablate, efficiency
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks import train

MACHINE = {"date": "2026-11-20", "processor": "Abacus 8", "cores": 2, "threads": 1, "torch": "2.9.0", "elmo": "0.1.0"}
BILM = {"model": "/home/somebody/models/small", "sha256": "0123456789abcdef", "date": "2026-11-19", "words_read": 1000}


def recipe_of(name: str) -> Path:
    return find_recipe(name, RECIPES / "tasks")


def plant(
    folder: Path,
    recipe: str,
    dev: float,
    test: float | None,
    seed: int = 1,
    settings: Sequence[str] = (),
    curve: Sequence[tuple[int, float]] = (),
    **more: Any,
) -> None:
    """A run that is done, in `folder`: its configuration, a seed's result, and the scores after its epochs."""
    recipes = configs.load_toml(recipe_of(recipe)), configs.parse_overrides(settings)
    values: dict[str, Any] = {"train": "train.txt", "dev": "dev.txt"} | configs.merge_tables(*recipes)
    values |= {"output": str(folder), "seeds": [*range(1, seed + 1)], "data": "/home/somebody/data"}
    config = train.with_defaults(configs.from_dict(train.TaskConfig, values))
    (folder / f"seed-{seed}").mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(configs.to_json(config), encoding="utf-8")
    write(folder / "origin.json", {"version": "1", "bilm": None, "data": {}})
    metric = tasks.find(values["task"]).metric
    curve = curve or ((100, dev),)
    result = {
        "seed": seed, "dev": {metric: dev}, **({} if test is None else {"test": {metric: test}}),
        "epochs": len(curve), "best_epoch": 1, "stopped": "patience", "steps": curve[-1][0], "seconds": 90.0,
        "parameters": 12345, "examples": {"train": 1000}, "machine": MACHINE,
        "bilm": None if values["inputs"].get("elmo", "none") == "none" else BILM,
    }  # fmt: skip
    write(folder / f"seed-{seed}" / "result.json", result | more)
    write_record(folder)
    lines = [json.dumps({"step": step, "epoch": n, metric: score}) for n, (step, score) in enumerate(curve, 1)]
    (folder / f"seed-{seed}" / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_record(folder: Path, **more: Any) -> None:
    """The record of a run's finished seeds, as `elmo task train` writes it; `more` are other values."""
    settings, origin = (json.loads((folder / name).read_text()) for name in ("config.json", "origin.json"))
    rows = [json.loads(file.read_text()) for file in sorted(folder.glob("seed-*/result.json"))]
    found = {
        "kind": "task", "name": settings["task"], "version": origin["version"], "settings": settings, "rows": rows,
        "bilm": rows[0].get("bilm"), "data": origin["data"], "seconds": 90.0, "machine": MACHINE,
        "argv": ["elmo", "task", "train", settings["task"], "--output", str(folder)], "versions": {"elmo": "0.1.0"},
    }  # fmt: skip
    write(folder / "record.json", found | more)


def write(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")


def plant_everything(folder: Path) -> None:
    """Something of every kind that a report knows."""
    plant_comparisons(folder / "table")
    plant(folder / "alone" / "sst", "sst5", 40.0, 41.25, settings=["inputs.elmo=input", "training.lr=3e-3"])
    plant_ablations(folder / "ablate")
    plant_efficiency(folder / "efficiency")
    plant_layers(folder / "layers")
    plant_pretraining(folder / "biLM")
    perplexity = {"forward": 60.0, "backward": 62.0, "mean": 61.0, "mean_known": 65.5, "tokens": 2000}
    write(
        folder / "perplexity.json",
        {
            "text": ["test.txt"],
            "vocabulary": {"size": 50000, "sha256": "feedfacecafe"},
            "perplexity": {policy: perplexity | {"unknown_rate": 0.04} for policy in ("carry", "reset")},
        },
    )
    write(folder / "ensemble.json", {"task": "ner", "version": "1", "examples": 1287, "members": 5, "f1": 47.5})


def plant_comparisons(folder: Path) -> None:
    """As `elmo task compare` leaves it: NER 40 -> 46, SNLI 70 -> 73 and 76, of whose two seeds one is done."""
    for seed, off in ((1, -1.0), (2, 1.0)):
        plant(folder / "ner-wnut17" / "none", "ner-wnut17", 50.0, 40.0 + off, seed)
        plant(folder / "ner-wnut17" / "input", "ner-wnut17", 55.0, 46.0 + off, seed, ["inputs.elmo=input"])
    for arm, test in (("none", 70.0), ("input", 73.0), ("both", 76.0)):
        plant(folder / "snli" / arm, "snli", test, test, 1, [f"inputs.elmo={arm}"])
    config = folder / "snli" / "both" / "config.json"
    write(config, json.loads(config.read_text(encoding="utf-8")) | {"seeds": [1, 2]})
    write_record(folder / "snli" / "both")


def plant_ablations(folder: Path) -> None:
    scores = {
        "input": 82.0, "output": 80.0, "both": 83.0, "none": 78.0, "top": 81.0, "lambda-1": 81.5, "gamma-1": 81.75,
        "top-gamma-1": 60.0, "layer-0": 79.0, "elmo": 81.25,
    }  # fmt: skip
    config = ablate.AblateConfig(str(folder), ("snli",))
    for arm, dev in scores.items():
        stopped = "minutes" if arm == "both" else "patience"
        plant(folder / "snli" / arm, "snli", dev, dev - 1, stopped=stopped)
    ablate.write(config, *ablate.plan(config, recipe_of, {}))


def plant_efficiency(folder: Path) -> None:
    """With ELMo 1 % of the data is worth what 10 % are without."""
    config = efficiency.EfficiencyConfig(str(folder), ("srl", "snli"))
    scores = {"none": (20.0, 40.0, 60.0), "elmo": (40.0, 55.0, 65.0)}
    for recipe in config.recipes:
        for arm, found in scores.items():
            for fraction, test in zip(config.fractions, found, strict=True):
                slow = 400 if arm == "none" else 100
                curve = [(slow * n, test - 12.0 / n) for n in range(1, 9)]
                plant(folder / recipe / f"{arm}-{fraction:g}", recipe, curve[-1][1], test, curve=curve)
    efficiency.write(config, efficiency.plan(config, recipe_of))


@dataclasses.dataclass(frozen=True)
class LayerRow:
    """As probes have rows for layers."""

    layer: str
    all: float
    f1: dict[str, float]
    chosen: bool = False
    others: float = 0.0
    instances: int = 7253
    backed_off: int = 670
    unanswered: int = 13
    differences: dict[str, tuple[float, float, float]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TagRow:
    layer: str
    dev: float
    test: float
    epoch: int = 1
    chosen: bool = False
    differences: dict[str, tuple[float, float, float]] = dataclasses.field(default_factory=dict)


def within_half_a_point(scores: dict[str, float], name: str) -> dict[str, tuple[float, float, float]]:
    """A layer's differences to all others, each with an interval of half a point on both sides."""
    gains = {other: scores[name] - score for other, score in scores.items() if other != name}
    return {} if name == "mfs" else {other: (gain, gain - 0.5, gain + 0.5) for other, gain in gains.items()}


@dataclasses.dataclass(frozen=True)
class WeightRow:
    task: str
    run: str
    seed: int
    place: str
    layer: int
    weight: float
    gamma: float


@dataclasses.dataclass(frozen=True)
class NoConfig:
    model: str = "/home/somebody/models/small"


def plant_layers(folder: Path) -> None:
    names = [("0", 60.0), ("1", 67.0), ("2", 68.5), ("mix", 68.75), ("mfs", 65.0)]
    rows = [
        LayerRow(name, score, {"senseval2": score + 1, "semeval2013": score - 1}, name == "2", score)
        for name, score in names
    ]
    rows = [dataclasses.replace(row, differences=within_half_a_point(dict(names), row.layer)) for row in rows]
    record.write(folder / "wsd", record.probe_record("wsd", "1", NoConfig(), rows, BILM, 12.5))
    of_tags = {"0": 91.0, "1": 95.5, "2": 94.5}
    tags = [
        TagRow(name, test - 0.5, test, 1, name == "1", within_half_a_point(of_tags, name))
        for name, test in of_tags.items()
    ]
    record.write(folder / "pos", record.probe_record("pos", "1", NoConfig(), tags, BILM, 12.5))
    weights = [
        WeightRow(task, f"{task}/input", 1, "input", layer, weight, 1.1)
        for task, mix in (("snli", (0.2, 0.5, 0.3)), ("srl", (0.3, 0.6, 0.1)))
        for layer, weight in enumerate(mix)
    ]
    record.write(folder / "weights", record.probe_record("weights", "1", NoConfig(), weights, BILM, 1.0))


def plant_probe(
    folder: Path, probe: str, rows: Sequence[dict[str, Any]], config: Any = None, bilm: dict[str, Any] | None = None
) -> None:
    """A probe's folder with any rows."""
    found = {
        "kind": "probe", "name": probe, "version": "1", "settings": config or {}, "rows": list(rows), "bilm": bilm,
        "seconds": 1.0, "machine": MACHINE, "argv": ["elmo", "probe", probe, "--output", str(folder)], "versions": {},
    }  # fmt: skip
    write(folder / "record.json", found)


def plant_pretraining(folder: Path) -> None:
    lines: list[dict[str, Any]] = [{"step": 50, "tokens": 50_000, "loss": 7.0, "tokens_per_s": 5000}]
    for step, perplexity in ((1000, 400.0), (2000, 250.0), (4000, 150.0), (8000, 100.0)):
        lines.append({"step": step, "tokens": 1000 * step, "carry_mean": perplexity, "reset_mean": 1.1 * perplexity})
    folder.mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"step": 9000, "tok'  # it was killed while it wrote
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    write(
        folder / "train.json", {"train": ["/home/somebody/wiki.*.txt"], "output": str(folder), "max_words": 8_000_000}
    )
    measured = {"carry": {"mean": 100.0, "mean_known": 107.0, "unknown_rate": 0.04}, "reset": {"mean": 110.0}}
    card = {
        "date": "2026-11-19", "words_read": 8_000_000, "heldout": ["wiki.valid.txt"], "perplexity": measured,
        "vocabulary": {"size": 50000, "sha256": "feedfacecafe"},
    }  # fmt: skip
    write(folder / "model" / "config.json", {"format": "elmo-torch", "card": card})
