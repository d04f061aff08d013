"""This project's tables of results: the page is theirs, runs are added to them, claims are decided as it says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from refusals import refused
from small_results import BILM, MACHINE, plant, plant_probe, write

from elmo_lab import figures
from elmo_lab.probes.weights import MeanWeightRow
from elmo_lab.report import markdown
from elmo_lab.report.arms import MeanScore
from results import claims, page, tables
from results.runs import comparisons, layer_weights


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of runs; tables are written beside it, not to the repository."""
    monkeypatch.setattr(tables, "FOLDER", tmp_path / "tables")
    (tmp_path / "tables").mkdir()
    return tmp_path / "runs"


def test_the_page_is_that_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures are drawn, but not turned into files, which are not compared."""
    monkeypatch.setattr(figures, "svg", lambda figure, transparent: b"")
    text, drawn = markdown.render(page.document(), "results-figures")
    assert text == page.PAGE.read_text(encoding="utf-8"), "make results writes docs/results.md"
    assert len(text.splitlines()) <= 300
    folder = page.PAGE.with_name("results-figures")
    assert set(drawn) == {path.name for path in folder.iterdir()} == set(re.findall(r"results-figures/([^)]+)", text))


def test_every_table_is_sorted_and_named_in_the_readme() -> None:
    readme = (tables.FOLDER / "README.md").read_text(encoding="utf-8")
    for file in tables.FOLDER.glob("*/*.jsonl"):
        name = f"{file.parent.name}/{file.stem}"
        assert f"`{file.parent.name}/`" in readme
        assert f"`{file.stem.partition('-')[0]}`" in readme
        if not file.stem.startswith("pretraining"):
            assert list(tables.read(name)) == sorted(tables.read(name))


def test_a_folder_of_runs_becomes_lines_without_this_machines_paths(folder: Path) -> None:
    for seed, test in ((1, 40.0), (2, 42.0)):
        plant(folder / "ner" / "none", "ner", 50.0, test, seed)
        plant(folder / "ner" / "input", "ner", 55.0, test + 6, seed, ["inputs.elmo=input"])
    write(folder / "ner" / "input" / "seed-1" / "web.json", {"task": "ner", "examples": 9, "members": 1, "f1": 12.0})
    assert tables.add("small/tasks", folder) == ["ner/input", "ner/none"]
    found = tables.read("small/tasks")["ner/input"]
    assert (found["kind"], found["name"], found["version"], found["data"]) == ("task", "ner", "1", {})
    assert [row["test"] for row in found["rows"]] == [{"f1": 46.0}, {"f1": 48.0}]
    assert found["rows"][0]["elsewhere"]["web"]["f1"] == 12.0
    assert (found["bilm"]["model"], found["machine"]) == ("small", MACHINE)
    assert "somebody" not in json.dumps(found)
    (compared,) = comparisons("small/tasks").values()
    assert [(arm.name, compared.score(arm).value) for arm in compared.arms] == [("none", 41.0), ("input", 47.0)]
    elmo, *others = claims.of_task("NER", compared)
    assert (elmo.verdict, elmo.difference) == (claims.HOLDS, 6.0)
    assert not others


def test_a_line_is_replaced_by_that_of_its_id(folder: Path) -> None:
    for accuracy in (0.5, 0.75):
        plant_probe(folder / "senses", "senses", [{"layer": 1, "accuracy": accuracy}], {"state": "echo"}, BILM)
        assert tables.add("small/senses", folder / "senses", "echo") == ["echo"]
    (run,) = tables.read("small/senses").values()
    assert (run["name"], run["settings"], run["rows"]) == (
        "senses",
        {"state": "echo"},
        [{"layer": 1, "accuracy": 0.75}],
    )
    with refused("finished"):
        tables.add("small/senses", folder.parent / "tables")


def test_a_damaged_output_of_a_command_is_named(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.json").write_text("[1]")
    (folder / "web.json").write_text('{"text": "web.txt", "vocabulary": 9, "perplexity"')
    with refused("web.json"):
        tables.add("small/perplexity", folder)


def test_a_task_that_is_not_finished_gives_the_lines_of_its_seeds(folder: Path) -> None:
    plant(folder / "snli" / "both", "snli", 70.0, 60.0, settings=["inputs.elmo=both"])
    tables.add("new/tasks", folder)
    (folder / "snli" / "both" / "record.json").unlink()
    tables.add("old/tasks", folder)
    (new,), (old,) = (tables.read(f"{age}/tasks").values() for age in ("new", "old"))
    assert old == {key: value for key, value in new.items() if key not in ("argv", "versions", "seconds")}


def test_of_an_arms_trials_the_best_on_dev_counts(folder: Path) -> None:
    plant(folder / "snli" / "none", "snli", 70.0, 60.0)
    for trial, dev, test in ((1, 71.0, 69.0), (2, 72.0, 62.0)):
        plant(folder / "snli" / "both" / f"trial-{trial}", "snli", dev, test, settings=["inputs.elmo=both"])
    tables.add("small/tasks", folder)
    (compared,) = comparisons("small/tasks").values()
    assert [compared.score(arm).value for arm in compared.arms] == [60.0, 62.0]


def test_a_fine_tuned_bilm_is_compared_with_what_it_began_from_at_the_same_place(folder: Path) -> None:
    plant(folder / "snli" / "none", "snli", 70.0, 60.0)
    for arm, place, score in (("input", "input", 63.0), ("both", "both", 62.0), ("fine-tuned", "both", 64.0)):
        tuned = {"init_from": {"model": "small", "words_read": 1000, "continues": False}} if arm == "fine-tuned" else {}
        settings = [f"inputs.elmo={place}"]
        plant(folder / "snli" / arm, "snli", score + 10, score, settings=settings, bilm=BILM | tuned)
    tables.add("small/tasks", folder)
    (compared,) = comparisons("small/tasks").values()
    improved, tuned = claims.of_task("SNLI", compared)
    assert (improved.better, improved.worse) == ("fine-tuned 64.00", "none 60.00")
    assert (tuned.better, tuned.worse, tuned.verdict) == ("fine-tuned 64.00", "both 62.00", "one seed")


def test_a_translation_model_is_not_elmo(folder: Path) -> None:
    mixes = {"input": {"weights": [0.25, 0.75], "gamma": 1.0}}
    plant(folder / "sst5" / "none", "sst5", 40.0, 41.0)
    plant(folder / "sst5" / "input", "sst5", 42.0, 43.0, settings=["inputs.elmo=input"], mixes=mixes)
    translator = BILM | {"translation": {"pairs": 29000}}
    plant(folder / "sst5" / "cove", "sst5", 44.0, 45.0, settings=["inputs.elmo=input"], bilm=translator, mixes=mixes)
    tables.add("small/tasks", folder)
    (compared,) = comparisons("small/tasks").values()
    (claim,) = claims.of_task("SST-5", compared)
    assert claim.better == "input 43.00"
    assert [(mean.run, mean.weight) for mean in layer_weights([compared])] == [
        ("sst5/input", 0.25),
        ("sst5/input", 0.75),
    ]


@pytest.mark.parametrize(
    ("better", "worse", "verdict"),
    [
        (MeanScore(60.0, 1.0, 3), MeanScore(57.0, 1.0, 3), claims.HOLDS),
        (MeanScore(57.0, 1.0, 3), MeanScore(60.0, 1.0, 3), claims.FAILS),
        (MeanScore(58.0, 1.0, 3), MeanScore(57.0, 1.0, 3), claims.OPEN),
        (MeanScore(60.0), MeanScore(40.0), "one seed"),
        (MeanScore(60.0, 1.0, 3), MeanScore(40.0), "one seed"),
    ],
)
def test_arms_are_decided_by_the_spread_of_their_seeds(better: MeanScore, worse: MeanScore, verdict: str) -> None:
    assert claims.of_arms("", "", ("a", better), ("b", worse)).verdict == verdict


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.1, 2.0), claims.HOLDS), ((-2.0, -0.1), claims.FAILS), ((-0.1, 2.0), claims.OPEN), (None, "no interval")],
)
def test_layers_are_decided_by_their_interval(interval: tuple[float, float] | None, verdict: str) -> None:
    rows: list[dict[str, Any]] = [
        {"layer": "1", "all": 60.0, "others": 60.0},
        {"layer": "2", "all": 61.0, "others": 61.0},
    ]
    rows.append({"layer": "mfs", "all": 65.0, "others": 65.0})
    if interval is not None:
        rows[1]["differences"] = {"1": [1.0, *interval], "mfs": [-4.0, -5.0, -3.0]}
    first, second = claims.of_senses({"settings": {}, "rows": rows})
    assert first.verdict == verdict
    assert second.verdict == ("no interval" if interval is None else claims.FAILS)


def test_ablations_at_another_place_than_the_papers_decide_nothing() -> None:
    def row(analysis: str, arm: str, dev: float, place: str) -> dict[str, Any]:
        found = {"recipe": "snli", "task": "snli", "analysis": analysis, "arm": arm, "dev": dev, "dev_std": 0.5}
        return found | {"seeds": [1, 2], "place": place}

    for place, count in (("both", 1), ("input", 0)):
        rows = [row("layers", "top", 70.0, place), row("layers", "lambda-0.001", 72.0, place)]
        assert len(list(claims.of_ablations(rows))) == count
    places = [row("places", arm, dev, arm) for arm, dev in (("input", 70.0), ("output", 71.0), ("both", 73.0))]
    (claim,) = claims.of_ablations(places)
    assert (claim.better, claim.worse, claim.verdict) == ("both 73.00 ± 0.50", "output 71.00 ± 0.50", claims.HOLDS)


def test_updates_are_fewer_only_if_they_are_with_every_seed() -> None:
    answer = {"kind": "answer", "question": "updates", "recipe": "srl", "text": "half", "value": 0.5, "seeds": 2}
    for sooner, verdict in ((2, claims.HOLDS), (1, claims.OPEN)):
        (claim,) = claims.of_efficiency([answer | {"sooner": sooner}])
        assert claim.verdict == verdict
    (claim,) = claims.of_efficiency([answer | {"sooner": 0, "value": None}])
    assert claim.verdict == claims.FAILS


def test_layer_weights_are_counted_over_arms() -> None:
    def means(run: str, *shares: float) -> list[MeanWeightRow]:
        return [MeanWeightRow("snli", run, "input", layer, share, 1.0, 2, 0.01) for layer, share in enumerate(shares)]

    claim = claims.of_weights([*means("a", 0.2, 0.6, 0.2), *means("b", 0.2, 0.5, 0.3)])
    assert claim is not None
    assert claim.verdict == claims.HOLDS
    claim = claims.of_weights([*means("a", 0.2, 0.6, 0.2), *means("b", 0.2, 0.2, 0.6)])
    assert claim is not None
    assert (claim.verdict, "does not hold in 1" in claim.better) == (claims.OPEN, True)
