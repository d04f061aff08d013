"""The layers that trained task models read, from results that are written by hand; and their drawing."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from command import printed, run
from links import link
from refusals import refusal, refused

from elmo_lab import figures, record
from elmo_lab.probes import weights

INPUT, OUTPUT = [0.5, 0.25, 0.25], [0.1, 0.2, 0.7]


def write_run(folder: Path, task: str, seeds: dict[int, dict[str, Any]]) -> Path:
    """A finished run: the mixes of every seed."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"task": task}))
    for seed, mixes in seeds.items():
        (folder / f"seed-{seed}").mkdir()
        result = {"seed": seed, "dev": {"f1": 50.0}, "mixes": mixes}
        (folder / f"seed-{seed}" / "result.json").write_text(json.dumps(result))
    return folder


def mix(shares: list[float], gamma: float) -> dict[str, Any]:
    return {"weights": shares, "gamma": gamma}


def collected(*folders: Path, left_out: list[str] | None = None) -> list[weights.WeightRow]:
    """The rows of these folders; names of mixes without rows are added to `left_out`."""
    omitted = [] if left_out is None else left_out
    return weights.collect(weights.WeightsConfig(tuple(map(str, folders))), omitted.append)


def panel(place: str, shares: list[float]) -> list[weights.MeanWeightRow]:
    """The means of one run at one place."""
    return [weights.MeanWeightRow("ner", "run", place, layer, share, 1.0, 1, 0.0) for layer, share in enumerate(shares)]


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    """What `elmo task compare` leaves of two rows; a seed of one is not done."""
    folder = tmp_path / "queue"
    both = {"output": mix(OUTPUT, 2.0), "input": mix(INPUT, 1.0)}
    other = {"input": mix([0.3, 0.45, 0.25], 3.0), "output": mix([0.3, 0.2, 0.5], 1.0)}
    write_run(folder / "sst-10" / "both", "sst5", {10: other, 2: both})
    write_run(folder / "sst-10" / "none", "sst5", {2: {}})
    write_run(folder / "sst-9" / "input", "sst5", {1: {"input": mix(INPUT, 0.5)}})
    (folder / "sst-9" / "input" / "seed-2").mkdir()
    return folder


def test_a_copy_of_a_seeds_folder_is_no_other_seed(queue: Path) -> None:
    before = collected(queue)
    run = queue / "sst-10" / "both"
    shutil.copytree(run / "seed-2", run / "seed-2.bak")
    file = run / "seed-2.bak" / "result.json"
    file.write_text(file.read_text(encoding="utf-8").replace("2.0", "9.0"), encoding="utf-8")  # before it was repeated
    assert collected(queue) == before


def test_runs_on_several_drives_keep_the_name_of_the_given_folder(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(paths: object) -> str:
        raise ValueError("Paths don't have the same drive")

    monkeypatch.setattr(weights.os.path, "commonpath", refuse)
    rows = collected(queue / "sst-10", queue / "sst-9")
    assert {row.run for row in rows} == {"sst-9/input", "sst-10/both"}


def test_rows_are_those_of_the_results_in_order(queue: Path) -> None:
    rows = collected(queue)
    assert [(r.run, r.place, r.layer, r.seed) for r in rows] == [
        ("sst-9/input", "input", 0, 1),
        ("sst-9/input", "input", 1, 1),
        ("sst-9/input", "input", 2, 1),
        *(
            ("sst-10/both", place, layer, seed)
            for place in ("input", "output")
            for layer in (0, 1, 2)
            for seed in (2, 10)
        ),
    ]
    assert [r.weight for r in rows if r.seed == 2] == INPUT + OUTPUT
    assert [r.gamma for r in rows if r.seed == 10] == [3.0] * 3 + [1.0] * 3
    assert {r.task for r in rows} == {"sst5"}


def test_rows_of_a_translation_models_encoder_say_so(queue: Path) -> None:
    folder = write_run(queue / "sst-9" / "cove", "sst5", {1: {"input": mix(INPUT, 0.5)}})
    result = json.loads((folder / "seed-1" / "result.json").read_text())
    (folder / "seed-1" / "result.json").write_text(json.dumps(result | {"bilm": {"translation": {"pairs": 9}}}))
    rows = collected(queue)
    assert {row.run for row in rows if row.encoder == "translation"} == {"sst-9/cove"}
    assert {row.run for row in rows if row.encoder == "biLM"} == {"sst-9/input", "sst-10/both"}


def test_means_are_over_the_seeds(queue: Path) -> None:
    means = weights.means(collected(queue))
    assert [m.seeds for m in means] == [1] * 3 + [2] * 6
    assert [m.weight for m in means] == pytest.approx([*INPUT, 0.4, 0.35, 0.25, 0.2, 0.2, 0.6])
    assert [m.gamma for m in means] == pytest.approx([0.5] * 3 + [2.0] * 3 + [1.5] * 3)
    assert means[3].weight_std == pytest.approx(0.2 / 2**0.5)  # of 0.5 and 0.3
    assert means[0].weight_std == 0.0


def test_runs_are_named_by_what_they_have_not_in_common(queue: Path, tmp_path: Path) -> None:
    def named(*folders: Path) -> list[str]:
        return list(dict.fromkeys(row.run for row in collected(*folders)))

    both, alone = queue / "sst-10" / "both", write_run(tmp_path / "ner", "ner", {1: {"input": mix(INPUT, 1.0)}})
    assert named(both) == ["both"]
    assert named(both / "seed-2") == ["both"]
    assert named(both / "seed-2", both / "seed-10") == ["both"]
    assert named(both, queue / "sst-9") == ["sst-9/input", "sst-10/both"]
    assert named(queue, alone) == ["ner", "queue/sst-9/input", "queue/sst-10/both"]
    assert named(queue, queue) == ["sst-9/input", "sst-10/both"]


def test_network_alone_says_its_task(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "ner", {1: {"input": mix(INPUT, 1.0)}})
    (folder / "config.json").unlink()
    with refused("task"):
        collected(folder)
    (folder / "seed-1" / "task.json").write_text('{"task": "ner"}')
    assert {row.task for row in collected(folder)} == {"ner"}


def test_a_mix_of_one_layer_is_left_out(queue: Path) -> None:
    """`inputs.layers=top` keeps one weight, which is not that of layer 0."""
    top = write_run(queue / "sst-9" / "top", "sst5", {1: {"input": mix([1.0], 0.5), "output": mix([1.0], 2.0)}})
    left_out: list[str] = []
    rows = collected(queue, left_out=left_out)
    assert {row.run for row in rows} == {"sst-9/input", "sst-10/both"}
    assert left_out == ["sst-9/top, seed 1, input", "sst-9/top, seed 1, output"]
    done = run("probe", "weights", queue)
    assert done.stderr.endswith("2 of 7 mixes\n")
    with refused("mixes"):
        collected(top)


def test_a_mean_of_all_layers_is_no_mix_that_was_learned(queue: Path) -> None:
    """`inputs.layers=average`: its weights are equal from the beginning to the end."""
    mean = write_run(queue / "sst-9" / "mean", "sst5", {1: {"input": mix([1 / 3] * 3, 0.5)}})
    (mean / "config.json").write_text(json.dumps({"task": "sst5", "inputs": {"layers": "average"}}))
    left_out: list[str] = []
    rows = collected(queue, left_out=left_out)
    assert {row.run for row in rows} == {"sst-9/input", "sst-10/both"}
    assert left_out == ["sst-9/mean, seed 1, input"]


def test_a_tuned_arm_is_its_best_trial(tmp_path: Path) -> None:
    """By its first seed, though another seed of it is worse; a trial that is given by itself is shown as it is."""
    arm = tmp_path / "sst5" / "input"
    for trial, first in ((1, 40.0), (2, 50.0), (10, 45.0)):
        mixes = {"input": mix([trial / 100, 1 - trial / 100], 1.0)}
        write_run(arm / f"trial-{trial}", "sst5", {1: mixes} | ({2: mixes} if trial == 2 else {}))
        for file in (arm / f"trial-{trial}").glob("seed-*/result.json"):
            score = first if file.parent.name == "seed-1" else 10.0
            file.write_text(json.dumps(json.loads(file.read_text()) | {"dev": {"accuracy": score}}))

    def shown(*folders: Path) -> list[tuple[str, int, float]]:
        rows = collected(*folders)
        return [(row.run, row.seed, row.weight) for row in rows if row.layer == 0]

    assert shown(tmp_path) == [("sst5/input", 1, 0.02), ("sst5/input", 2, 0.02)]
    assert shown(arm) == [("input", 1, 0.02), ("input", 2, 0.02)]
    assert shown(arm / "trial-10") == [("trial-10", 1, 0.1)]
    config = arm / "trial-2" / "config.json"
    config.write_text(json.dumps({"task": "sst5", "seeds": [2, 1]}))
    assert shown(arm) == [("input", 1, 0.1)]
    (arm / "trial-1" / "seed-1" / "result.json").write_text('{"seed": 1, "mixes": {}}')
    with refused("trial-1/seed-1/result.json"):
        shown(tmp_path)


def test_runs_of_different_tasks_are_no_trials_whatever_their_names(tmp_path: Path) -> None:
    for trial, task in ((1, "sst5"), (2, "snli")):
        write_run(tmp_path / "mine" / f"trial-{trial}", task, {1: {"input": mix([0.5, 0.5], 1.0)}})
    rows = collected(tmp_path)
    assert {(row.task, row.run) for row in rows} == {("sst5", "mine/trial-1"), ("snli", "mine/trial-2")}


def test_links_are_followed(queue: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    link(tmp_path / "links" / "first", queue / "sst-9")
    assert {row.run for row in collected(tmp_path / "links")} == {"first/input"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "JSON"),
        ("[]", "JSON"),
        ('{"seed": 1}', "result; trained"),
        ('{"seed": 1, "mixes": {"input": {"weights": ["a"], "gamma": 1}}}', "result; trained"),
        ('{"seed": 1, "mixes": {"middle": {"weights": [1], "gamma": 1}}}', "mix; middle"),
        ('{"seed": 1, "mixes": {}}', "ELMo's"),
    ],
)
def test_bad_result_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    folder = write_run(tmp_path / "run", "ner", {1: {}})
    (folder / "seed-1" / "result.json").write_text(text)
    with refused(folder, *said.split("; ")):
        collected(folder)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with refused("folder"):
        collected(tmp_path / "missing")
    with refused("mixes"):
        collected(tmp_path)
    with refused("runs"):
        collected()


def test_command_prints_the_means_and_keeps_the_rows(queue: Path, tmp_path: Path) -> None:
    figure, output = tmp_path / "figure2.png", tmp_path / "output"
    shown = printed("probe", "weights", queue, "--figure", figure, "--output", output)
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["task", "run", "place", "layer", "weight", "gamma", "seeds", "weight", "std"]
    assert lines[4] == ["sst5", "sst-10/both", "input", "0", "0.400", "2.00", "2", "0.141"]
    assert lines[1][-2:] == ["1", "-"]
    assert len(lines) == 10
    assert figure.read_bytes()[:4] == b"\x89PNG"
    kept = record.read(output)
    assert (kept.name, kept.version, kept.settings) == ("weights", weights.PROBE.version, {"runs": [str(queue)]})
    assert kept.rows == [vars(row) for row in collected(queue)]
    refusal(run("probe", "weights", queue, "--figure", figure, "--json"), "--overwrite")
    (output / "record.json").write_text("", encoding="utf-8")
    printed("probe", "weights", queue, "--figure", figure, "--output", output, "--overwrite")
    assert record.read(output).rows == kept.rows


@pytest.mark.parametrize("dark", [False, True])
def test_drawing_holds_every_number_and_is_the_same_again(queue: Path, tmp_path: Path, dark: bool) -> None:
    means = weights.means(collected(queue))
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        figures.save(figures.layer_weights(means, dark), tmp_path / name)
    for suffix in (".svg", ".png"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    drawn = [text.get_text() for axes in figures.layer_weights(means, dark).axes for text in axes.texts]
    assert [text for text in drawn if text[0] != "γ"] == [f"{mean.weight:.2f}" for mean in sorted_by_place(means)]
    assert [text for text in drawn if text[0] == "γ"] == ["γ 0.50", "γ 2.00", "γ 1.50"]
    svg = (tmp_path / "a.svg").read_text()
    assert not re.search(r"\d{4}-\d\d-\d\d", svg)  # no date


def sorted_by_place(means: list[weights.MeanWeightRow]) -> list[weights.MeanWeightRow]:
    return [mean for place in weights.PLACES for mean in means if mean.place == place]


def test_one_place_is_one_panel(tmp_path: Path) -> None:
    figure = figures.layer_weights(panel("output", OUTPUT))
    assert [axes.get_title() for axes in figure.axes] == ["at the output"]
    with refused("weights"):
        figures.layer_weights([])
    with refused("'.pdf'"):
        figures.save(figure, tmp_path / "figure.pdf")


@pytest.mark.parametrize("name", ["ner $\\frac$", "$x$ and $y^_$"])
def test_dollar_signs_are_drawn_as_they_are(name: str) -> None:
    """Not as formulas, some of which cannot be read."""
    series = [figures.Series(name, [1.0, 2.0], [1.0, 2.0]), figures.Series("b", [1.0], [1.0])]
    for figure in (
        figures.layer_weights([weights.MeanWeightRow("ner", name, "input", 0, 1.0, 1.0, 1, 0.0)]),
        figures.lines(series, name, name, x_ticks={1.0: name}),
        figures.gains([figures.Gain(name, 1.0, 2.0)], name),
    ):
        assert figures.svg(figure)
        texts: Any = figure.findobj(lambda each: hasattr(each, "get_parse_math"))
        assert not any(text.get_parse_math() for text in texts)


def test_a_figure_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with refused("pip install", "[probes]"):
        figures.layer_weights(panel("input", INPUT))


def test_drawing_leaves_settings_as_they_were(tmp_path: Path) -> None:
    import matplotlib

    rows = panel("input", INPUT)
    figures.save(figures.layer_weights(rows), tmp_path / "plain.svg")
    with matplotlib.rc_context({"font.size": 30.0, "svg.hashsalt": "other", "axes.grid": True}):
        before = dict(matplotlib.rcParams)
        figures.save(figures.layer_weights(rows), tmp_path / "other.svg")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "other.svg").read_bytes() == (tmp_path / "plain.svg").read_bytes()
