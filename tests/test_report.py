"""Reports of results that nobody measured: the right tables, nothing that runs or is loaded, a page for a browser."""
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

import html.parser
import json
import math
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from browser import Browser
from command import run
from small_results import (
    BILM,
    LayerRow,
    NoConfig,
    plant,
    plant_ablations,
    plant_comparisons,
    plant_everything,
    plant_pretraining,
    plant_probe,
    plant_senses,
    recipe_of,
    within_half_a_point,
    write,
)
from tiny import tiny_model

from elmo import config as configs
from elmo.cli import build_parser
from elmo.cli import pretraining as pretraining_verbs
from elmo.errors import InputError
from elmo.formats import native
from elmo.pretraining.settings import TrainConfig
from elmo.text.tokenizer import WHITESPACE
from elmo_lab import RECIPES, figures
from elmo_lab.cli import probes as probe_verbs
from elmo_lab.cli import tasks as task_verbs
from elmo_lab.probes import ablate, efficiency, neighbors, pos, record, weights, wsd
from elmo_lab.report import claims, commands, job, paper, sections
from elmo_lab.report.collect import Probe, collect, measured
from elmo_lab.report.document import ABSENT, Table
from elmo_lab.tasks.train import MAY_CHANGE, TaskConfig

EVIL = '<script>document.title="run"</script>'


class Page(html.parser.HTMLParser):
    """What a reader of HTML finds: tables by their sections, tags, everything that is referred to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.tags: set[str] = set()
        self.references: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.ids: list[str] = []
        self.titles: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag == "h2":
            self.titles.append("")
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        elif self.open and self.open[-1] == "h2":
            self.titles[-1] += data


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "results"
    plant_everything(folder)
    return folder


@pytest.fixture(scope="module")
def page(planted: Path) -> Path:
    """The page of everything, and Markdown beside it."""
    job.write([planted], planted.parent / "page.html", planted.parent / "page.md")
    return planted.parent / "page.html"


def written(folder: Path, *paths: Path) -> Page:
    (output,) = job.write(paths, folder / "page.html", overwrite=True)
    return Page(output.read_text(encoding="utf-8"))


# What is found


def test_tables_have_the_planted_numbers(page: Path) -> None:
    found = Page(page.read_text(encoding="utf-8"))
    glance = found.tables[0]
    assert glance[1] == ["NER, WNUT-17", "test f1", "40.0 ± 1.4", "46.0 ± 1.4", "+10.0 %", "+21.0 %"]
    compared = found.tables[2]
    assert compared[0][4:9] == ["std", "seeds", "difference", "error reduction", "paper's"]
    assert compared[1][:6] == ["NER, WNUT-17", "none", "test f1", "40.00", "1.41", "2"]
    assert compared[2] == ["input", "test f1", "46.00", "1.41", "2", "+6.00", "+10.0 %", "+21.0 %", "1.5"]
    assert compared[3][3:6] == ["70.00", "-", "1 of 3"]
    assert compared[4][1:] == ["test accuracy", "73.00", "-", "1", "+3.00", "+10.0 %", "+5.8 %", "1.5"]
    assert compared[5][1:] == ["test accuracy", "76.00", "-", "1 of 2", "+6.00", "+20.0 %", "+5.8 %", "1.5"]
    by_head = {tuple(table[0]): table[1:] for table in found.tables}
    ablation = ("task", "arm", "dev", "difference", "test", "difference", "seeds", "ended by", "paper's dev")
    layers = [table for table in found.tables if tuple(table[0]) == ablation][1]
    assert layers[1] == ["snli", "no ELMo", "78.00", "", "77.00", "", "1", "patience", "88.1"]
    assert layers[4] == ["all layers, lambda 0.001", "83.00", "+5.00", "82.00", "+5.00", "1", "time limit", "89.5"]
    answers = by_head["task", "what ELMo saves", "paper's"]
    assert answers[2] == ["With 10 % of the data the baseline scores what ELMo does with 1 %", "10 %"]
    senses = by_head["layer", "all", "f1 senseval2", "f1 semeval2013", "chosen", "others", "paper's"]
    assert senses[2] == ["2", "68.50", "69.50", "67.50", "yes", "68.50", "69.0"]
    assert by_head["layer", "dev", "test", "paper's"][1] == ["1", "95.00", "95.50", "97.3"]
    (trained,) = next(rows for head, rows in by_head.items() if head[:2] == ("run", "words read"))
    assert trained[1:] == [
        "8,000,000", "wiki.valid.txt", "100.00", "110.00", "107.00", "4.0 %", "50,000 (feedface)", "5,000",
        "2026-11-19",
    ]  # fmt: skip
    assert by_head["file", "task", "networks", "examples", "scores"] == [
        ["results/ensemble.json", "ner", "5", "1,287", "f1 47.50"]
    ]
    machines = next(rows for head, rows in by_head.items() if head[0] == "processor")
    assert machines[0] == ["Abacus 8", "2", "1", "2.9.0", "0.1.0", "2026-11-20", "6"]


def test_other_test_data_of_compared_networks_are_beside_their_own(tmp_path: Path) -> None:
    """As `elmo task eval --json` in the folder of every seed; what one arm lacks is not shown."""
    plant_comparisons(tmp_path / "table")
    ner = tmp_path / "table" / "ner-wnut17"
    evaluation = {"task": "ner", "version": "1", "examples": 1287, "members": 1}
    for arm, first in (("none", 30.0), ("input", 44.0)):
        for seed in (1, 2):
            write(ner / arm / f"seed-{seed}" / "tweets.json", evaluation | {"f1": first + seed})
    write(ner / "none" / "seed-1" / "web.json", evaluation | {"f1": 12.0})
    found = next(table for table in written(tmp_path, tmp_path).tables if table[0][1] == "scored on")
    assert found[1] == ["NER, WNUT-17", "test, its own", "none", "f1", "40.00", "1.41", "2", "", ""]
    assert found[2][-7:] == ["input", "f1", "46.00", "1.41", "2", "+6.00", "+10.0 %"]
    assert found[3][-8:] == ["tweets", "none", "f1", "31.50", "0.71", "2", "", ""]
    assert found[4][-7:] == ["input", "f1", "45.50", "0.71", "2", "+14.00", "+20.4 %"]
    assert len(found) == 5
    write(ner / "none" / "seed-1" / "tweets.json", evaluation)
    with pytest.raises(InputError, match=r"tweets\.json: f1 is missing"):
        collect([tmp_path])


def test_vectors_of_a_translation_model_are_compared_but_are_not_elmo(tmp_path: Path) -> None:
    """The best arm on dev is CoVe; the first table and the claim are of ELMo all the same."""
    plant(tmp_path / "none", "sst5", 40.0, 41.0)
    plant(tmp_path / "elmo", "sst5", 42.0, 43.0, settings=["inputs.elmo=input"])
    translator = BILM | {"translation": {"pairs": 29000}}
    plant(tmp_path / "cove", "sst5", 44.0, 45.0, settings=["inputs.elmo=input"], bilm=translator)
    glance, claimed, arms, *_ = written(tmp_path, tmp_path).tables
    assert glance[1][2:4] == ["41.0", "43.0"]
    assert "elmo 43.00, none 41.00" in claimed[1][2]
    cove = next(row for row in arms if "cove" in row)
    assert cove[-4:] == ["+4.00", "+6.8 %", "", "1.5"]


def test_a_translation_model_decides_no_claim_about_bilms(tmp_path: Path) -> None:
    """Neither by its probes nor by its layers' weights; rows of older records do not say what has the layers."""
    mixed = [{"task": "snli", "seed": 1, "place": "input", "layer": n, "weight": w, "gamma": 1.0}
             for n, w in enumerate((0.3, 0.4, 0.3))]  # fmt: skip
    runs = {"old": {}, "elmo": {"encoder": "biLM"}, "cove": {"encoder": "translation"}}
    plant_probe(tmp_path / "weights", "weights", [row | {"run": run} | more for run, more in runs.items()
                                                  for row in mixed])  # fmt: skip
    queries = configs.load_toml(RECIPES / "probes" / "neighbors.toml")["queries"]
    row = {"query": "a [play]", "layer": "2", "rank": 1, "similarity": 0.9, "neighbor": "the [play]", "published": True}
    row |= {"sentence_index": 1, "token_index": 1, "candidates": 147}
    plant_probe(tmp_path / "near", "neighbors", [row], {"queries": queries}, BILM | {"translation": {"pairs": 9}})
    claim = "Layer 1 has the largest weight at the input"
    assert [each[0] for each in claimed(tmp_path)] == [f"{claim}: old", f"{claim}: elmo"]


def test_the_papers_gain_stands_beside_a_gain_over_no_elmo_only(tmp_path: Path) -> None:
    rows = [{"row": "snli", "arm": arm} for arm in ("input", "both")]
    for row, test in zip(rows, (70.0, 71.0), strict=True):
        plant(tmp_path / "snli" / row["arm"], "snli", test, test, settings=[f"inputs.elmo={row['arm']}"])
    write(tmp_path / "table.json", rows)
    (comparison,) = collect([tmp_path]).comparisons
    _, both = sections._arms(comparison)
    assert both[6:9] == ("+1.00", "+3.3 %", "")


def test_a_fine_tuned_bilm_has_columns_of_its_own(tmp_path: Path) -> None:
    """Beside that of the model as it is, which may be missing; a model that went on with its own text is not one."""
    origins = {"given": {"model": "small", "continues": True}, "tuned": {"model": "small", "continues": False}}
    for task, arms in (("snli", ("given", "tuned")), ("sst5", ("tuned",)), ("srl", ("given",))):
        plant(tmp_path / task / "none", task, 70.0, 60.0)
        for arm in arms:
            better, bilm = 4.0 if arm == "tuned" else 2.0, BILM | {"init_from": origins[arm]}
            plant(tmp_path / task / arm, task, 70.0 + better, 60.0 + better, settings=["inputs.elmo=input"], bilm=bilm)
    (head, *rows), claimed, *_ = written(tmp_path, tmp_path).tables
    (claim,) = (row for row in claimed if "Fine-tuning" in row[0])
    assert claim[0].endswith("/snli")
    assert claim[1:4] == ["one seed: +2.00", "tuned 64.00, given 62.00, seeds: 1", "section 3.4"]
    assert head[3:7] == ["with ELMo", "error reduction", "fine-tuned biLM", "error reduction"]
    assert {row[0].rsplit("/", 1)[-1]: row[3:7] for row in rows} == {
        "snli": ["62.0", "+5.0 %", "64.0", "+10.0 %"],
        "sst5": ["", "", "64.0", "+10.0 %"],
        "srl": ["62.0", "+5.0 %", "", ""],
    }


def test_a_fine_tuned_bilm_is_compared_with_the_original_at_the_same_place(tmp_path: Path) -> None:
    """Not with a better place of the original: the difference would be that of the places, too."""
    tuned = BILM | {"init_from": {"model": "small", "continues": False}}
    plant(tmp_path / "none", "snli", 70.0, 60.0)
    for place, score in (("input", 63.0), ("both", 62.0)):
        plant(tmp_path / place, "snli", score + 10, score, settings=[f"inputs.elmo={place}"], bilm=BILM)
    plant(tmp_path / "tuned", "snli", 74.0, 64.0, settings=["inputs.elmo=both"], bilm=tuned)
    glance, claimed, *_ = written(tmp_path, tmp_path).tables
    assert glance[1][3] == "63.0"
    (claim,) = (row for row in claimed if "Fine-tuning" in row[0])
    assert claim[1:3] == ["one seed: +2.00", "tuned 64.00, both 62.00, seeds: 1"]


def test_a_fine_tuned_bilm_is_compared_with_that_it_began_from_only(tmp_path: Path) -> None:
    """Found by its name and the words that it has read; "default" is no name. The first table names both biLMs."""
    base, other = ({"model": name, "words_read": words} for name, words in (("x/base", 9), ("x/other", 7)))
    plant(tmp_path / "none", "snli", 70.0, 60.0)
    plant(tmp_path / "a", "snli", 72.0, 62.0, settings=["inputs.elmo=input"], bilm=other)
    plant(tmp_path / "b", "snli", 73.0, 63.0, settings=["inputs.elmo=input"], bilm=other | {"model": "x/base"})
    for origin, given in (("base", ""), ("default", ""), ("other", "a"), ("base", "c"), ("default", "c")):
        if given == "c":
            plant(tmp_path / "c", "snli", 71.0, 61.0, settings=["inputs.elmo=input"], bilm=base)
        begun = {"init_from": {"model": origin, "words_read": 7 if origin == "other" else 9, "continues": False}}
        plant(tmp_path / "tuned", "snli", 74.0, 64.0, settings=["inputs.elmo=input"], bilm=BILM | begun)
        said = [row[2].split()[2] for row in claimed(tmp_path) if "Fine-tuning" in row[0]]
        assert said == ([given] if given else [])
    (page,) = job.write([tmp_path], tmp_path / "page.html")
    assert "with it; the biLM is x/base; fine-tuned: default." in page.read_text(encoding="utf-8")


def test_the_first_table_names_the_bilm_of_the_score_that_it_shows(tmp_path: Path) -> None:
    plant(tmp_path / "none", "snli", 70.0, 60.0)
    for arm, name, dev in (("a", "small", 72.0), ("b", "base", 73.0)):
        plant(tmp_path / arm, "snli", dev, dev - 10, settings=["inputs.elmo=input"], bilm=BILM | {"model": name})
    (page,) = job.write([tmp_path], tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    assert Page(text).tables[0][1][3] == "63.0"
    assert "with it; the biLM is base." in text


def test_runs_without_a_table_are_compared_where_task_and_data_are_the_same(tmp_path: Path) -> None:
    """As runs of `elmo task train` lie in a folder; the baseline is that without ELMo, whatever its name."""
    plant(tmp_path / "a", "snli", 71.0, None, settings=["inputs.elmo=input"])
    plant(tmp_path / "b", "snli", 70.0, 69.0)
    plant(tmp_path / "c", "snli", 60.0, 59.0, settings=["dev=other.jsonl"])
    plant(tmp_path / "d", "srl", 60.0, 59.0)
    plant(tmp_path / "e", "ner-wnut17", 10.0, 10.0, settings=["inputs.elmo=input"])
    plant(tmp_path / "f", "ner-wnut17", 20.0, 20.0, settings=["inputs.elmo=both"])
    results = collect([tmp_path])
    arms = [[run.folder.name for run in each.runs] for each in results.comparisons]
    assert arms == [["b", "a"], ["e", "f"]]
    assert [each.has_baseline for each in results.comparisons] == [True, False]
    assert results.comparisons[0].part == "dev"  # one of them was not scored on test data
    assert [run.folder.name for run in results.runs] == ["c", "d"]
    table = written(tmp_path, tmp_path).tables[2]
    assert table[2][:6] == ["a", "dev accuracy", "71.00", "-", "1", "+1.00"]
    assert [row[-2] for row in table[3:]] == ["", ""]  # nothing to compare with, so no difference


def test_of_several_runs_without_elmo_the_best_on_dev_is_the_baseline(tmp_path: Path) -> None:
    """As that with ELMo is the best one; the order of a queue stands."""
    for name, dev, test in (("a", 60.0, 59.0), ("b", 70.0, 66.0), ("c", 65.0, 67.0)):
        plant(tmp_path / "snli" / name, "snli", dev, test)
    plant(tmp_path / "snli" / "elmo", "snli", 72.0, 69.0, settings=["inputs.elmo=input"])
    assert [row[2] for row in claimed(tmp_path)] == ["elmo 69.00, b 66.00, seeds: 1"]
    write(tmp_path / "table.json", [{"row": "snli", "arm": arm} for arm in ("a", "elmo", "c", "b")])
    (comparison,) = collect([tmp_path]).comparisons
    assert [run.folder.name for run in comparison.runs] == ["a", "elmo", "c", "b"]


@pytest.mark.parametrize("content", ['{"a": 1}', '{"text": ["te', "reading\n{}", "[]"])
def test_a_file_that_was_named_and_has_no_results_is_an_error(tmp_path: Path, content: str) -> None:
    plant(tmp_path / "run", "snli", 70.0, 69.0)
    (tmp_path / "cut.json").write_text(content, encoding="utf-8")
    assert collect([tmp_path]).runs
    with pytest.raises(InputError, match=r"cut\.json: no results"):
        collect([tmp_path / "run", tmp_path / "cut.json"])


def test_of_a_baseline_without_an_error_there_is_no_reduction(tmp_path: Path) -> None:
    plant(tmp_path / "a", "snli", 100.0, None)
    plant(tmp_path / "b", "snli", 97.3, None, settings=["inputs.elmo=input"])
    head, *rows = written(tmp_path, tmp_path).tables[2]
    assert "error reduction" not in head  # a column with nothing in it
    assert rows[1][5] == "-2.70"


def test_the_first_table_names_the_bilms_if_they_differ(tmp_path: Path) -> None:
    for task, name in (("snli", "small"), ("srl", "base")):
        plant(tmp_path / task / "none", task, 70.0, 60.0)
        plant(tmp_path / task / "elmo", task, 72.0, 62.0, settings=["inputs.elmo=input"], bilm=BILM | {"model": name})
    head, *rows = written(tmp_path, tmp_path).tables[0]
    assert (head[-1], [row[-1] for row in rows]) == ("biLM", ["small", "base"])
    (page,) = job.write([tmp_path / "srl"], tmp_path / "one.html")
    assert Page(page.read_text(encoding="utf-8")).tables[0][0][-1] == "paper's"
    assert "Each task without ELMo and with it; the biLM is base." in page.read_text(encoding="utf-8")


def test_the_default_model_has_the_name_that_the_result_gives(tmp_path: Path) -> None:
    """So that the command repeats it when another version has another default; older results do not know it."""
    plant(tmp_path / "new", "snli", 70.0, 69.0, settings=["inputs.elmo=input"])
    plant(tmp_path / "old", "snli", 70.0, 69.0, settings=["inputs.elmo=both"], bilm=BILM | {"model": "default"})
    (page,) = job.write([tmp_path], tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    assert "elmo=input --model small --data" in text
    assert "elmo=both --data" in text


def test_a_queue_with_the_default_model_has_its_name_too(tmp_path: Path) -> None:
    """Ablations and sample efficiency keep None where the arms have the default model."""
    config = configs.to_dict(ablate.Config(str(tmp_path), ("snli",)))
    write(tmp_path / record.RECORD, {"probe": "ablate", "config": config, "bilm": BILM})
    (tmp_path / record.ROWS).touch()
    (page,) = job.write([tmp_path], tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    assert "The biLM is small." in text
    assert "model=small" in text


def test_files_of_one_name_with_other_content_are_not_compared(tmp_path: Path) -> None:
    """As of two folders of data, or of two versions of the task; nothing is claimed of such runs."""
    made = {"a": ("none", "1", "d1"), "b": ("input", "1", "d1"), "c": ("input", "1", "d2"), "d": ("none", "1", "d2")}
    made["e"] = ("input", "2", "d1")
    for name, (arm, version, digest) in made.items():
        plant(tmp_path / name, "ner-wnut17", 50.0, 40.0, settings=[f"inputs.elmo={arm}"])
        origin = {"version": version, "bilm": None, "data": {"train": digest}}
        (tmp_path / name / "origin.json").write_text(json.dumps(origin), encoding="utf-8")
    results = collect([tmp_path])
    assert [[run.folder.name for run in each.runs] for each in results.comparisons] == [["a", "b"], ["d", "c"]]
    assert [run.folder.name for run in results.runs] == ["e"]
    assert len({each.title for each in results.comparisons}) == 2


def test_runs_with_other_static_vectors_are_not_compared(tmp_path: Path) -> None:
    """A run without any is beside all others if these have the same."""
    made = {"a": ("none", "v1"), "b": ("input", "v1"), "c": ("input", "v2"), "d": ("input", None)}
    for name, (arm, vectors) in made.items():
        settings = [f"inputs.elmo={arm}", f"inputs.vectors=x/{vectors}.txt", f"inputs.static={bool(vectors)}".lower()]
        plant(tmp_path / name, "ner-wnut17", 50.0, 40.0, settings=settings)
        data = {"train": "d1"} | ({"vectors": vectors} if vectors else {})
        write(tmp_path / name / "origin.json", {"version": "1", "bilm": None, "data": data})
    results = collect([tmp_path])
    (comparison,) = results.comparisons
    assert [run.folder.name for run in comparison.runs] == ["a", "b"]
    assert ", v1.txt, " in comparison.title
    assert [run.folder.name for run in results.runs] == ["c", "d"]
    shutil.rmtree(tmp_path / "c")
    (comparison,) = collect([tmp_path]).comparisons
    assert [run.folder.name for run in comparison.runs] == ["a", "b", "d"]


def test_parts_of_speech_without_test_data_are_drawn_by_development_data(tmp_path: Path) -> None:
    for words, gain in ((2_000_000, 3.0), (1_000_000, 0.0)):
        rows = [pos.Row(name, score + gain, None, 3) for name, score in (("0", 50.0), ("1", 60.0))]
        record.write(tmp_path / f"pos-{words}", "pos", "1", NoConfig(), rows, {"model": "m", "words_read": words})
    _, *rows = written(tmp_path, tmp_path).tables[-2]
    assert rows == [["1,000,000", "50.00", "60.00"], ["2,000,000", "53.00", "63.00"]]


def test_probes_of_models_that_read_more_or_less_are_drawn_together(tmp_path: Path) -> None:
    names = [("0", 50.0), ("1", 60.0), ("mix", 62.0)]
    for words, gain in ((2_000_000, 3.0), (1_000_000, 0.0)):
        rows = [LayerRow(name, score + gain, {}, False) for name, score in names]
        record.write(tmp_path / f"wsd-{words}", "wsd", "1", NoConfig(), rows, {"model": "m", "words_read": words})
    found = written(tmp_path, tmp_path)
    head, *rows = found.tables[-2]
    assert head == ["words read", "0", "1", "mix"]
    assert rows == [["1,000,000", "50.00", "60.00", "62.00"], ["2,000,000", "53.00", "63.00", "65.00"]]
    assert "Word senses, layer by layer: F1 against the words that the model was trained on." in found.text


def test_of_an_arm_that_was_tuned_the_best_trial_is_shown_and_its_ensemble(tmp_path: Path) -> None:
    for arm, dev, test in (("none", 40.0, 39.0), ("input", 50.0, 49.0)):
        plant(tmp_path / "ner" / arm / "trial-1", "ner-wnut17", dev, test, settings=[f"inputs.elmo={arm}"])
        tried = [f"inputs.elmo={arm}", "training.lr=2e-3"]
        plant(tmp_path / "ner" / arm / "trial-2", "ner-wnut17", dev - 5, test + 5, settings=tried)
    scores = {"members": 2, "dev": {"f1": 52.0}, "test": {"f1": 51.5}}
    (tmp_path / "ner" / "input" / "trial-1" / "ensemble.json").write_text(json.dumps(scores), encoding="utf-8")
    found = written(tmp_path, tmp_path)
    table = found.tables[2]
    assert table[1][1:4] == ["none", "test f1", "39.00"]
    assert table[2][:3] == ["input", "test f1", "49.00"]
    assert table[3][:3] == ["input, 2 joined", "test f1", "51.50"]
    assert "ner/input is the best of 2 on dev, by the first seed: trial-1 50.00, trial-2 45.00." in found.text


def test_runs_of_different_tasks_or_places_are_no_trials_whatever_their_names(tmp_path: Path) -> None:
    plant(tmp_path / "mine" / "trial-1", "ner-wnut17", 50.0, 49.0)
    plant(tmp_path / "mine" / "trial-2", "snli", 70.0, 69.0)
    plant(tmp_path / "more" / "trial-1", "snli", 70.0, 69.0)
    plant(tmp_path / "more" / "trial-2", "snli", 72.0, 71.0, settings=["inputs.elmo=input"])
    results = collect([tmp_path])
    assert [run.folder.name for run in results.runs] == ["trial-1", "trial-2"]
    assert [[run.folder.name for run in each.runs] for each in results.comparisons] == [["trial-1", "trial-2"]]


def test_without_the_first_arm_of_a_queue_there_is_no_baseline(tmp_path: Path) -> None:
    """It may still be in training."""
    for arm in ("input", "both"):
        plant(tmp_path / "snli" / arm, "snli", 70.0, 69.0, settings=[f"inputs.elmo={arm}"])
    write(tmp_path / "table.json", [{"row": "snli", "arm": arm, "baseline": "none"} for arm in ("input", "both")])
    (comparison,) = collect([tmp_path]).comparisons
    assert not comparison.has_baseline
    plant(tmp_path / "snli" / "none", "snli", 60.0, 59.0)
    write(
        tmp_path / "table.json", [{"row": "snli", "arm": arm, "baseline": "none"} for arm in ("none", "input", "both")]
    )
    (comparison,) = collect([tmp_path]).comparisons
    assert comparison.has_baseline


def test_the_same_files_under_other_paths_are_the_same_data(tmp_path: Path) -> None:
    for arm, path in (("none", "a/x.conll"), ("input", "./a/x.conll")):
        plant(tmp_path / arm, "ner-wnut17", 50.0, 40.0, settings=[f"inputs.elmo={arm}", f"train={path}"])
        origin = {"version": "1", "bilm": None, "data": {"train": "d1", "dev": "d2", "test": "d3"}}
        write(tmp_path / arm / "origin.json", origin)
    assert [[run.folder.name for run in each.runs] for each in collect([tmp_path]).comparisons] == [["none", "input"]]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_are_followed_once(tmp_path: Path) -> None:
    plant(tmp_path / "disk" / "one", "snli", 70.0, 69.0)
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "one").symlink_to(tmp_path / "disk" / "one")
    (tmp_path / "disk" / "one" / "loop").symlink_to(tmp_path / "disk")
    assert [run.name for run in collect([tmp_path / "all"]).runs] == ["all/one"]
    assert [run.name for run in collect([tmp_path]).runs] == ["/".join((tmp_path.name, "all/one"))]


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode elsewhere")
def test_a_name_that_is_not_utf_8_is_escaped(tmp_path: Path) -> None:
    plant(tmp_path / "caf\udce9", "snli", 70.0, 69.0)
    job.write([tmp_path], tmp_path / "page.html", tmp_path / "page.md")
    for page in ("page.html", "page.md"):
        assert r"caf\udce9" in (tmp_path / page).read_text(encoding="utf-8")


def test_trials_are_judged_by_the_first_seed_of_the_queue_whatever_its_number(tmp_path: Path) -> None:
    arm = tmp_path / "ner" / "input"
    for trial, scores in (("trial-1", {3: 50.0, 1: 40.0}), ("trial-2", {3: 45.0})):
        for seed, dev in scores.items():
            plant(arm / trial, "ner-wnut17", dev, dev, seed)
        config = json.loads((arm / trial / "config.json").read_text(encoding="utf-8"))
        (arm / trial / "config.json").write_text(json.dumps(config | {"seeds": [3, 1, 2]}), encoding="utf-8")
    (found,) = collect([tmp_path]).runs
    assert (found.name.rpartition("/")[2], len(found.results)) == ("input", 2)
    assert found.tried == (("trial-1", 50.0), ("trial-2", 45.0))
    alone = collect([arm / "trial-2"]).runs
    assert [(run.name, run.tried) for run in alone] == [("trial-2", ())]


def test_files_that_cannot_be_read_are_none_of_ours(tmp_path: Path) -> None:
    plant(tmp_path / "srl", "srl", 60.0, 59.0)
    (tmp_path / ".#lock.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    assert len(collect([tmp_path]).runs) == 1


def test_figures_of_a_markdown_file_with_a_space_in_its_name_are_found(tmp_path: Path) -> None:
    plant_comparisons(tmp_path / "runs")
    job.write([tmp_path / "runs"], markdown_file=tmp_path / "my results.md")
    links = re.findall(r"^!\[.*\]\((.*)\)$", (tmp_path / "my results.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert links
    assert all(" " not in link and (tmp_path / unquote(link)).is_file() for link in links)


def test_folders_of_queues_are_shown_once(tmp_path: Path) -> None:
    """The runs of an ablation are in its tables; what else lies beside them is found."""
    plant_ablations(tmp_path)
    plant(tmp_path / "other", "srl", 60.0, 59.0)
    results = collect([tmp_path])
    assert (len(results.probes), len(results.comparisons)) == (1, 0)
    assert [run.folder.name for run in results.runs] == ["other"]
    assert collect([tmp_path, tmp_path / "other"]) == results  # named twice, found once


def test_a_copy_of_a_seeds_folder_is_no_other_seed(tmp_path: Path) -> None:
    plant(tmp_path / "run", "srl", 60.0, 59.0)
    write(
        tmp_path / "run" / "seed-1" / "tweets.json",
        {"task": "srl", "f1": 50.0, "version": "1", "examples": 10, "members": 1},
    )
    before = collect([tmp_path])
    shutil.copytree(tmp_path / "run" / "seed-1", tmp_path / "run" / "seed-1.bak")
    assert collect([tmp_path]) == before


def test_unknown_probes_get_the_table_of_their_rows(tmp_path: Path) -> None:
    rows = [LayerRow(str(n), float(n), {}) for n in range(150)]
    record.write(tmp_path / "new", "new", "1", NoConfig(), rows)
    found = written(tmp_path, tmp_path / "new")
    assert len(found.tables[0]) == 1 + 100
    assert "50 more rows are in new/rows.jsonl" in found.text
    assert "Probe new" in found.text


def test_probes_without_rows_or_with_others(tmp_path: Path) -> None:
    for probe in ("wsd", "efficiency", "ablate", "weights", "new"):
        record.write(tmp_path / "empty" / probe, probe, "1", NoConfig(), [])
    found = written(tmp_path, tmp_path / "empty")
    assert found.text.count("No rows yet.") == 3
    record.write(tmp_path / "other", "ablate", "0", NoConfig(), [LayerRow("1", 2.0, {})])
    with pytest.raises(InputError, match=r"rows\.jsonl, line 1: recipe is missing; damaged, or of another version"):
        written(tmp_path, tmp_path / "other")


def test_what_cannot_be_read_is_an_error_of_one_line(tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    for paths, message in (([tmp_path], "no results"), ([tmp_path / "nowhere"], "nowhere: no such file or folder")):
        with pytest.raises(InputError, match=message):
            job.write(paths, output)
    plant(tmp_path / "run", "srl", 60.0, 59.0)
    with pytest.raises(InputError, match="neither --output nor --markdown is given"):
        job.write([tmp_path / "run"])
    file = tmp_path / "run" / "seed-1" / "result.json"
    file.write_text(file.read_text(encoding="utf-8")[:50], encoding="utf-8")
    done = run("report", tmp_path / "run", "--output", output)
    assert done.returncode == 2
    assert "result.json: not valid JSON" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not output.exists()


# What is written


def test_pages_are_the_same_again_and_refused_where_they_are(planted: Path, page: Path, tmp_path: Path) -> None:
    markdown = page.with_suffix(".md")
    done = run("report", planted, "--output", tmp_path / "site", "--markdown", tmp_path / "page.md")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(tmp_path / "site" / "index.html"), str(tmp_path / "page.md")]
    assert (tmp_path / "site" / "index.html").read_bytes() == page.read_bytes()
    assert (tmp_path / "page.md").read_bytes() == markdown.read_bytes()
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "page-figures").iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in (page.parent / "page-figures").iterdir()}
    for options in (["--output", tmp_path / "site"], ["--markdown", tmp_path / "page.md"]):
        again = run("report", planted, *options)
        assert again.returncode == 2
        assert "--overwrite" in again.stderr


def test_pages_are_replaced_where_it_is_asked_for(tmp_path: Path) -> None:
    plant(tmp_path / "run", "srl", 60.0, 59.0)
    for title in ("First", "Second"):
        job.write([tmp_path / "run"], tmp_path / "site", tmp_path / "page.md", title, overwrite=True)
    assert "<h1>Second</h1>" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "page.md").read_text(encoding="utf-8").startswith("# Second\n")


def test_a_page_needs_and_tells_nothing_else(planted: Path, page: Path) -> None:
    """No script, no other file, no folder of the machine that made it."""
    text = page.read_text(encoding="utf-8")
    found = Page(text)
    assert not found.open
    assert "script" not in found.tags
    assert all(reference.startswith(("data:image/svg+xml;base64,", "#")) for reference in found.references)
    assert "url(" not in text
    for written_text in (text, page.with_suffix(".md").read_text(encoding="utf-8")):
        assert "/home/somebody" not in written_text
        assert str(planted.parent) not in written_text


def test_names_are_inert(tmp_path: Path) -> None:
    """A folder, a setting, a biLM and a row whose names are HTML are shown as they are written."""
    name = EVIL.replace("/", "\\")
    folder = tmp_path / name
    plant(folder / name, "sst5", 40.0, 41.0, settings=[f"inputs.model={EVIL}", "inputs.elmo=input"], stopped=EVIL)
    record.write(folder / "probe", EVIL, "1", NoConfig(EVIL), [LayerRow(EVIL, 1.0, {EVIL: 2.0})])
    job.write([folder], tmp_path / "page.html", tmp_path / "page.md", title=EVIL)
    found = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "script" not in found.tags
    assert found.text.count(EVIL) >= 6
    assert found.text.count(name) >= 3
    markdown = (tmp_path / "page.md").read_text(encoding="utf-8")
    outside = re.sub(r"(?ms)^```text$.*?^```$", "", markdown)
    assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", outside)


def test_markdown_has_the_tables_and_the_figures(page: Path) -> None:
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "|  | input | test f1 | 46.00 | 1.41 | 2 | +6.00 | +10.0 % | +21.0 % | 1.5 |" in text
    linked = re.findall(r"!\[[^\n]*\]\((page-figures/[^)]+)\)", text)
    assert {Path(link).name for link in linked} == {path.name for path in (page.parent / "page-figures").iterdir()}
    assert len(linked) == 9
    for link in linked:
        assert b"<svg" in (page.parent / link).read_bytes()[:600]


def test_figures_say_what_they_show(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("<picture>") == text.count('prefers-color-scheme: dark)"><img') == 9
    assert 'alt="Scores without and with ELMo: NER, WNUT-17 40.0, 46.0; SNLI 70.0, 76.0"' in text


def test_figures_draw_what_they_are_given() -> None:
    """What matplotlib holds: the lines' points, and the labels."""
    lines = [figures.Series("one", [1.0, 10.0], [3.0, 4.0]), figures.Series("two", [1.0], [2.0], [0.5], dashed=True)]
    axes = figures.lines(lines, "x", "y", x_ticks={1.0: "1 %", 10.0: "10 %"}, x_scale="log").axes[0]
    assert axes.lines[0].get_xydata().tolist() == [[1.0, 3.0], [10.0, 4.0]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1 %", "10 %"]
    scores = [figures.Gain("ner", 1.0, 2.0), figures.Gain("snli", 3.0, None, 5.0)]
    *spans, before, after, tuned = figures.gains(scores, "f1", dark=True).axes[0].lines
    assert [line.get_xydata().tolist() for line in spans] == [[[1.0, 0.0], [2.0, 0.0]], [[3.0, 1.0], [5.0, 1.0]]]
    points = [line.get_xydata().tolist() for line in (before, after, tuned)]
    assert points == [[[1.0, 0.0], [3.0, 1.0]], [[2.0, 0.0]], [[5.0, 1.0]]]
    assert b"</svg>" in figures.svg(figures.gains(scores, "f1", dark=True))
    name = "variants/english-small/" * 4
    cells = [weights.MeanRow("ner", name, "input", layer, 0.5, 1.0, 1, 0.0) for layer in range(3)]
    for long in (figures.gains([figures.Gain(name, 1.0, 2.0)], "f1"), figures.layer_weights(cells)):
        figures.svg(long)  # which lays it out
        assert long.axes[0].get_position().width * long.get_figwidth() > 1  # inches beside a long name


# The paper's numbers


def test_error_reductions_follow_from_the_scores_of_table_1() -> None:
    """The paper's own arithmetic, of its scores without and with ELMo, which it has rounded."""
    scores = {"squad": (81.1, 85.8), "snli": (88.0, 88.7), "srl": (81.4, 84.6), "coref": (67.2, 70.4)}
    scores |= {"ner": (90.15, 92.22), "sst5": (51.4, 54.7)}
    for task, (before, after) in scores.items():
        found = paper.published("error reduction", task)
        assert found is not None
        assert found.value == pytest.approx(100 * (after - before) / (100 - before), abs=0.2)
    assert paper.cell("layers", "ner", "top") == ""


# Commands


def task_config(command: str) -> TaskConfig:
    arguments = build_parser().parse_args(shlex.split(command)[1:])
    return configs.from_dict(TaskConfig, task_verbs._train_values(arguments))


@pytest.mark.parametrize("recipe", ["ner", "ner-gum", "sst5", "snli", "srl", "coref", "squad"])
@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["inputs.elmo=both", "inputs.model=a b", "training.minutes=7.5", "batch.examples=7", "seeds=[4, 2]"],
        ["train=x y.conll", "dev=2", "test=3.txt", "inputs.vectors=glove.txt", "inputs.static=false"],
        ["train=mine", "cache.dtype=float32"],
    ],
)
def test_a_command_makes_the_run_again(recipe: str, settings: list[str]) -> None:
    """What the command line makes of it is the configuration that it came from."""
    base = {"train": "a", "dev": "b", "output": "out"} | configs.load_toml(RECIPES / "tasks" / f"{recipe}.toml")
    values = configs.merge(base, configs.parse_overrides(settings))
    values = {key: str(value) if key in ("train", "dev", "test") else value for key, value in values.items()}
    if recipe != "sst5":
        values = configs.merge(values, {"model": {"dropout": 0.25}})
    if "inputs.static=false" in settings:
        values = configs.merge(values, {"inputs": {"characters": {"filters": [[2, 4]]}}})
    config = configs.from_dict(TaskConfig, values)
    command = commands.of_task(values, config.seeds, "again")
    assert command is not None
    made = task_config(command)
    kinds = (configs.to_dict(each) for each in (made, config))
    ours, wanted = ({k: v for k, v in each.items() if k not in MAY_CHANGE - {"seeds"}} for each in kinds)
    model = __import__(f"elmo_lab.tasks.{config.task}", fromlist=["Config"]).Config
    for each in (ours, wanted):
        each["model"] = configs.to_dict(configs.from_dict(model, each["model"]))
    assert ours == wanted


def test_what_cannot_be_said_has_no_command() -> None:
    values = configs.load_toml(RECIPES / "tasks" / "snli.toml") | {"output": "out"}
    assert commands.of_task(values, (1,), "again") is not None
    untested = commands.of_task(values | {"test": None}, (1,), "again")
    assert untested is not None
    assert "test=none" in untested
    assert task_config(untested).test is None
    assert commands.of_task(values | {"depth": 3}, (1,), "again") is None
    assert commands.of_task({"task": "parsing"}, (1,), "again") is None
    assert commands.of_probe("senses", {}, "again") is None
    assert commands.of_probe("record", {}, "again") is None


@pytest.mark.parametrize(
    ("probe", "values"),
    [
        (ablate, {"analyses": ["types"], "seeds": [1, 2], "vectors": "v.txt", "settings": ["training.minutes=3"]}),
        (efficiency, {"fractions": [0.5, 1.0], "recipes": ["sst5"], "small_settings": ["training.epochs=4"]}),
        (neighbors, configs.load_toml(RECIPES / "probes" / "neighbors.toml") | {"vectors": "v.txt", "layers": [2]}),
        (neighbors, {"text": "a.txt", "queries": [{"sentence": 'it \'s "play"', "word": "it"}]}),
        (pos, configs.load_toml(RECIPES / "probes" / "pos.toml") | {"train": "a", "dev": "b"}),
        (pos, configs.load_toml(RECIPES / "probes" / "pos.toml") | {"cache": {"dtype": "float32"}}),
        (wsd, configs.load_toml(RECIPES / "probes" / "wsd.toml") | {"train": "a", "tests": ["semeval2007.data.xml"]}),
    ],
)
def test_a_command_makes_the_probe_again(probe: Any, values: dict[str, Any]) -> None:
    name = probe.__name__.rpartition(".")[2]
    values |= {"output": "out"} if probe in (ablate, efficiency) else {}
    config = configs.from_dict(probe.Config, values)
    command = commands.of_probe(name, configs.to_dict(config), "out")
    assert command is not None
    arguments = build_parser().parse_args(shlex.split(command)[1:])
    made = probe_verbs.values_of(arguments, name, {"output": "out"} if "output" in values else {})
    assert configs.from_dict(probe.Config, made) == config


def test_the_curve_of_a_pretraining_is_of_one_text(tmp_path: Path) -> None:
    """A resumed run may have another held-out text; lines of older versions do not name theirs."""
    plant_pretraining(tmp_path / "biLM")
    file = tmp_path / "biLM" / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:-1]]
    first, second = ({"heldout": fingerprint, "words": 100} for fingerprint in ("feed", "cafe"))
    texts = [None, first, second, second]
    curve = [line for line in lines if "carry_mean" in line]
    for line, text in zip(curve, texts, strict=True):
        line |= {"measured_on": text} if text else {}
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert [point["step"] for point in collect([tmp_path]).pretrainings[0].curve] == [1000, 4000, 8000]
    assert [point["step"] for point in measured(lines)] == [1000, 4000, 8000]


def test_a_command_makes_the_pretraining_again() -> None:
    for values in ({"train": ["a b.txt"], "max_words": 9, "optim": {"lr": 0.25}}, {"train": ["c"], "window": 7}):
        config = configs.from_dict(TrainConfig, values | {"output": "out"})
        command = commands.of_pretraining(configs.to_dict(config), "out")
        assert command is not None
        arguments = build_parser().parse_args(shlex.split(command)[1:])
        assert configs.from_dict(TrainConfig, pretraining_verbs._train_values(arguments, resume=False)) == config


def test_a_report_of_a_network_that_has_diverged(tmp_path: Path) -> None:
    """Its perplexities are null, as JSON has no infinite numbers."""
    plant_pretraining(tmp_path / "biLM")
    measured = {policy: {"mean": None, "unknown_rate": None} for policy in ("carry", "reset")}
    write(tmp_path / "biLM" / "model" / "config.json", {"card": {"perplexity": measured, "words_read": 9}})
    with (tmp_path / "biLM" / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('\n{"step": 9000, "tokens": 9000000, "carry_mean": null, "reset_mean": null}\n')
    write(tmp_path / "found.json", {"text": ["a.txt"], "vocabulary": None, "perplexity": measured})
    job.write([tmp_path], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.tables[0][1][2:5] == [ABSENT] * 3
    assert page.tables[1][1][3:8] == [ABSENT] * 5
    assert "against words read; at 8,000,000 words: state carried 100.0, sentence by sentence 110.0" in text


def test_a_report_says_with_which_settings_a_run_was_resumed(tmp_path: Path) -> None:
    settings = [{"epochs": 8}, {"epochs": 0.5}, {"epochs": 0.5, "new": 1}, {"optim": {"lr": 2.0}, "new": 2}]
    for name, known in (("old", None), ("one", settings[:1]), ("several", settings)):
        plant_pretraining(tmp_path / name)
        if known is not None:
            sessions = [{"step": 1000 * number, "settings": each} for number, each in enumerate(known)]
            write(tmp_path / name / "sessions.json", sessions)
    job.write([tmp_path], tmp_path / "page.html")
    text = Page((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert re.findall("Resumed with.*?last ones.", text) == [
        "Resumed with other settings at step 1,000: epochs = 0.5 (before: 8); at step 3,000: new = 2 (before: 1);"
        " the command has the last ones."
    ]


@pytest.mark.parametrize("recipe", [None, "english-base"])
def test_a_command_makes_a_pretraining_from_another_model_again(recipe: str | None, tmp_path: Path) -> None:
    """Also if its sizes and its text are the defaults, which that model's replace."""
    first = tmp_path / "first"
    native.save(replace(tiny_model(), text=WHITESPACE), first)
    values = {} if recipe is None else configs.load_toml(configs.RECIPES / f"{recipe}.toml")
    values |= {"train": ["a"], "output": "out", "init_from": str(first), "init_vocab": "replace"}
    config = configs.from_dict(TrainConfig, values)
    command = commands.of_pretraining(configs.to_dict(config), "out")
    assert command is not None
    arguments = build_parser().parse_args(shlex.split(command.replace("init_from=first", f"init_from={first}"))[1:])
    assert configs.from_dict(TrainConfig, pretraining_verbs._train_values(arguments, resume=False)) == config


# In a browser


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)])
def test_the_page_in_a_browser(page: Path, tmp_path: Path, chromium: Browser, width: int, dark: bool) -> None:
    """Nothing sticks out, also with all folds open; the figures are those of the scheme; the names are inert."""
    seen = chromium.measure(page, tmp_path, width, dark)
    assert seen["width"] == width
    assert seen["needed"] <= width
    assert seen["dark"] == [dark] * 9
    assert seen["broken"] == 0
    assert seen["tables"] == Page(page.read_text(encoding="utf-8")).tables
    if width == 360:
        assert seen["scrolled"] > 0  # tables, in boxes of their own
    assert seen["tables"][1][0][1] == "here"
    assert seen["ends"][1][1] <= width  # the verdict is on the screen
    colors = chromium.colors(page, tmp_path, width, dark)
    (background, share), *others = colors
    assert background == ((23, 23, 27) if dark else (255, 255, 255))
    assert 0.5 < share < 0.99
    assert len(others) > 20


def test_a_browser_runs_nothing(tmp_path: Path, chromium: Browser) -> None:
    plant_comparisons(tmp_path / EVIL.replace("/", "\\"))
    job.write([tmp_path / EVIL.replace("/", "\\")], tmp_path / "page.html", title=f"Results {EVIL}")
    found = chromium.dom(tmp_path / "page.html", 800, dark=False)
    assert f"<title>Results {EVIL.replace('<', '&lt;').replace('>', '&gt;')}</title>" in found
    assert "NER, WNUT-17" in found


def test_what_is_read_is_json(planted: Path) -> None:
    """The planted files are of the form that the commands write."""
    assert json.loads((planted / "ablate" / "probe.json").read_text(encoding="utf-8"))["probe"] == "ablate"
    for row in record.read(planted / "ablate")[1]:
        configs.from_dict(ablate.Row, row)


def test_claims_of_the_paper_are_decided_by_the_numbers(page: Path) -> None:
    claims = {row[0]: row[1:] for row in Page(page.read_text(encoding="utf-8")).tables[1][1:]}
    assert claims["ELMo improves NER, WNUT-17"] == [
        "holds",
        "input 46.00 ± 1.41, none 40.00 ± 1.41, seeds: 2",
        "Table 1",
        "results/table/ner-wnut17",
    ]
    assert claims["ELMo improves SNLI"][:2] == ["one seed: +6.00", "both 76.00, none 70.00, seeds: 1"]
    best = claims["The best layer is above the most frequent sense"]
    said = "2 (chosen): 68.50, mfs: 65.00, difference +3.50 (+3.00 to +4.00)"
    assert best == ["holds", said, "Table 5", "results/layers/wsd"]
    tags = claims["Layer 1 knows parts of speech better than layer 2"]
    assert tags[1] == "1: 95.50, 2: 94.50, difference +1.00 (+0.50 to +1.50)"
    assert claims["ELMo is best at both places: snli"][:2] == [
        "one seed: +1.00",
        "both 83.00, input 82.00, seeds: 1",
    ]
    assert claims["ELMo helps more with fewer examples: srl"][1] == (
        "gain with 1 % 20.00, gain with 100 % 5.00, seeds: 1"
    )
    assert claims["Layer 1 has the largest weight at the input: srl/input"][1] == "1: 0.60, 0: 0.30, seeds: 1"
    assert {row[0] for row in claims.values() if "one seed" not in row[0]} == {"holds"}
    assert {row[0].split(":")[0] for row in claims.values() if row[1].endswith("seeds: 1")} == {"one seed"}


def test_a_claim_holds_beyond_the_spread_only() -> None:
    for better, worse, said in (
        (70.0, 67.0, "holds"),
        (70.0, 68.5, "undecided"),
        (68.5, 70.0, "undecided"),
        (67.0, 70.0, "does not hold"),
    ):
        assert claims.verdict(claims.Score(better, 1.0, 3), claims.Score(worse, 1.0, 3)) == said
    assert claims.verdict(claims.Score(70.0), claims.Score(69.9)) == "holds"
    assert claims.verdict(claims.Score(70.0, 0.0, 1), claims.Score(60.0, 1.0, 3)) == "one seed: +10.00"
    assert claims.verdict(claims.Score(70.0), claims.Score(70.0)) == "undecided"


def test_the_best_place_is_claimed_of_all_three_only() -> None:
    common = {"recipe": "snli", "task": "snli", "seeds": [1, 2], "dev_std": 0.1, "analysis": "places"}
    rows = [common | {"arm": arm, "dev": dev} for arm, dev in (("both", 82.0), ("input", 80.0), ("output", 84.0))]
    assert not list(claims._ablations(Probe("ablate", "ablate", {}, rows[:2])))
    assert [row[1] for row in claims._ablations(Probe("ablate", "ablate", {}, rows))] == ["does not hold"]


@pytest.mark.parametrize(("std", "said"), [(0.5, "holds"), (1.5, "undecided")])
def test_the_spread_of_ablations_and_of_gains_counts(std: float, said: str) -> None:
    """Arms two points apart; of what ELMo adds, the spreads of both arms of both parts of the data."""
    analysis, better, worse, _, _ = claims.ABLATIONS[0]
    common = {"recipe": "srl", "task": "srl", "seeds": [1, 2], "dev_std": std}
    rows = [common | {"analysis": analysis, "arm": arm, "dev": dev} for arm, dev in ((better, 82.0), (worse, 80.0))]
    probe = Probe("ablate", "ablate", {}, rows)
    assert [row[1] for row in claims._ablations(probe)] == [said]
    scores = {("none", 0.1): 60.0, ("elmo", 0.1): 65.0, ("none", 1.0): 80.0, ("elmo", 1.0): 82.0}
    rows = [
        {
            "kind": "score",
            "recipe": "srl",
            "arm": arm,
            "fraction": part,
            "test": test,
            "test_std": std / math.sqrt(2),
            "seeds": [1, 2],
        }
        for (arm, part), test in scores.items()
    ]
    gains = claims._gains(rows)
    assert [(gain.value, pytest.approx(gain.std)) for gain in gains.values()] == [(5.0, std), (2.0, std)]
    gains = claims._gains([row | {"seeds": [1]} if row["arm"] == "none" else row for row in rows])
    assert [gain.seeds for gain in gains.values()] == [1, 1]  # another process is at the second


def claimed(*paths: Path) -> list[tuple[str, ...]]:
    """The rows of the table of claims."""
    (section,) = claims.section(collect(paths))
    assert isinstance(section.blocks[0], Table)
    return list(section.blocks[0].rows)


def test_runs_that_are_given_by_themselves_are_named_by_their_folder(tmp_path: Path) -> None:
    plant_comparisons(tmp_path / "table")
    (tmp_path / "table" / "table.json").unlink(missing_ok=True)
    arms = [tmp_path / "table" / row / arm for row in ("ner-wnut17", "snli") for arm in ("none", "input")]
    found = collect(arms).comparisons
    assert [each.title for each in found] == ["ner-wnut17", "snli"]


def test_folders_that_overlap_are_read_once(tmp_path: Path) -> None:
    plant_everything(tmp_path / "all")
    once = collect([tmp_path / "all"])
    twice = collect([tmp_path / "all" / "ablate", tmp_path / "all"])
    assert len(once.comparisons) == len(twice.comparisons)
    assert len(once.probes) == len(twice.probes)


def test_claims_that_do_not_hold(tmp_path: Path) -> None:
    scores = {"1": 62.0, "2": 61.0, "mfs": 65.0}
    rows = [
        LayerRow(name, score, {}, False, score, within_half_a_point(scores, name)) for name, score in scores.items()
    ]
    record.write(tmp_path / "wsd", "wsd", "1", NoConfig(), rows, None, 1.0)
    config = efficiency.Config(str(tmp_path / "efficiency"), ("srl",), (0.1, 1.0))
    for arm, few, many in (("none", 30.0, 60.0), ("elmo", 31.0, 55.0)):
        for fraction, test in ((0.1, few), (1.0, many)):
            plant(tmp_path / "efficiency" / "srl" / f"{arm}-{fraction:g}", "srl", test, test)
    efficiency.write(config, efficiency.plan(config, recipe_of))
    said = [row[1] for row in claimed(tmp_path)]
    assert said == ["does not hold", "does not hold", "one seed: +6.00", "one seed: not reached"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"value": 0.5, "reached": 3, "seeds": 3, "std": 0.2, "sooner": 3}, "holds"),
        ({"value": 0.5, "reached": 1, "seeds": 3, "std": None, "sooner": 1}, "undecided"),
        ({"value": 0.4, "reached": 3, "seeds": 3, "std": 0.5, "sooner": 2}, "undecided"),
        ({"value": 0.5, "reached": 3, "seeds": 3, "std": 0.2}, "undecided"),
        ({"value": None, "reached": 0, "seeds": 3, "std": None}, "does not hold"),
        ({"value": 1.0, "reached": 1, "seeds": 1, "std": None, "at_most": True}, "one seed: at most 100 %"),
        ({"value": 1.5, "reached": 1, "seeds": 1, "std": None, "at_most": True}, "one seed: at most 150 %"),
        ({"value": 1.5, "reached": 3, "seeds": 3, "std": 0.2, "sooner": 0}, "undecided"),
        ({"value": 0.5, "reached": None, "seeds": None, "std": None}, "undecided"),
        ({"value": 0.5}, "undecided"),  # of a record that does not say with how many of its three seeds
    ],
)
def test_fewer_updates_are_needed_only_if_every_seed_needs_fewer(tmp_path: Path, answer: Any, said: str) -> None:
    named = {"recipe": "srl", "task": "srl", "metric": "f1"}
    score = {"kind": "score", "arm": "elmo", "fraction": 1.0, "examples": 9, "dev": 1.0, "dev_std": 0.0, "test": None}
    score |= {"test_std": None, "seeds": [1, 2, 3], "steps": 9, "stopped": ["patience"]}
    asked = {"kind": "answer", "question": "updates", "at_most": False, "text": "so many"}
    plant_probe(tmp_path / "probe", "efficiency", [named | score, named | asked | answer])
    assert [row[:3] for row in claimed(tmp_path)] == [("ELMo needs fewer updates: srl", said, "so many")]


# Which results decide


def test_the_papers_neighbours_are_the_nearest_only_if_both_are_found(tmp_path: Path) -> None:
    queries = configs.load_toml(RECIPES / "probes" / "neighbors.toml")["queries"]
    row = {"query": "a [play]", "layer": "2", "rank": 1, "similarity": 0.9, "neighbor": "the [play]", "published": True}
    row |= {"sentence_index": 1, "token_index": 1, "candidates": 147}
    for found, said in (([row], "does not hold"), ([row, row], "holds")):
        plant_probe(tmp_path / str(len(found)), "neighbors", found, {"queries": queries})
        assert [each[1] for each in claimed(tmp_path / str(len(found)))] == [said]
    assert claimed(tmp_path / "1")[0][2] == "1 and not found of 147 at layer 2"


def test_a_quick_run_does_not_stand_for_the_real_one(tmp_path: Path) -> None:
    """Nor one with less to learn from, nor one of a fine-tuned model."""
    plant_senses(tmp_path / "small", 1_000_000, {"1": 60.0, "2": 62.0})
    plant_senses(tmp_path / "large", 2_000_000, {"1": 63.0, "2": 66.0})
    plant_senses(tmp_path / "few", 3_000_000, {"1": 9.0, "2": 8.0}, tests=["x/one.xml"], instances=10)
    plant_senses(tmp_path / "limited", 3_000_000, {"1": 9.0, "2": 8.0}, limit=50)
    plant_senses(tmp_path / "tuned", 4_000_000, {"1": 9.0, "2": 8.0}, init_from={"model": "large"})
    plant_senses(tmp_path / "cove", 5_000_000, {"1": 9.0, "2": 8.0}, translation={"pairs": 9})
    plant_senses(tmp_path / "foreign", None, {"1": 9.0, "2": 8.0})
    first, *_ = claimed(tmp_path)
    said = "2: 66.00, 1: 63.00, difference +3.00 (+2.50 to +3.50)"
    assert first[1:] == ("holds", said, "Table 5", f"{tmp_path.name}/large")
    assert written(tmp_path, tmp_path).tables[-2] == [
        ["words read", "1", "2", "mfs"],
        ["1,000,000", "60.00", "62.00", "65.00"],
        ["2,000,000", "63.00", "66.00", "65.00"],
    ]


def test_every_state_of_the_lstms_decides_for_itself(tmp_path: Path) -> None:
    """A record that does not say it is of `reset`, which is what there was."""
    plant_senses(tmp_path / "old", 1_000_000, {"1": 60.0, "2": 62.0})
    plant_senses(tmp_path / "new", 2_000_000, {"1": 61.0, "2": 63.0}, state="reset")
    plant_senses(tmp_path / "read-on", 2_000_000, {"1": 62.0, "2": 66.0}, state="carry")
    best = {row[0]: (row[1], row[2].split(", diff")[0]) for row in claimed(tmp_path) if row[0].startswith("The best")}
    assert best == {
        "The best layer is above the most frequent sense": ("does not hold", "2 (oracle): 63.00, mfs: 65.00"),
        "The best layer is above the most frequent sense (state carry)": ("holds", "2 (oracle): 66.00, mfs: 65.00"),
    }
    assert [row[0] for row in written(tmp_path, tmp_path).tables[-2][1:]] == ["1,000,000", "2,000,000"]


def test_a_model_that_went_on_with_the_same_text_has_read_more_of_it(tmp_path: Path) -> None:
    plant_senses(tmp_path / "first", 2_000_000, {"1": 63.0, "2": 66.0})
    plant_senses(tmp_path / "next", 4_000_000, {"1": 64.0, "2": 67.0}, init_from={"model": "a", "continues": True})
    assert claimed(tmp_path)[0][4] == f"{tmp_path.name}/next"
    assert [row[0] for row in written(tmp_path, tmp_path).tables[-2][1:]] == ["2,000,000", "4,000,000"]


def test_fine_tuned_models_decide_for_want_of_others(tmp_path: Path) -> None:
    plant_senses(tmp_path / "tuned", 4_000_000, {"1": 64.0, "2": 61.0}, init_from={"model": "large"})
    assert claimed(tmp_path)[0][1] == "does not hold"


def test_only_models_of_one_size_are_joined(tmp_path: Path) -> None:
    sizes = {"cells": 512, "projection_dim": 64}
    plant_senses(tmp_path / "a", 1_000_000, {"1": 60.0, "2": 61.0}, **sizes)
    plant_senses(tmp_path / "b", 3_000_000, {"1": 62.0, "2": 64.0}, **sizes)
    plant_senses(tmp_path / "c", 2_000_000, {"1": 70.0, "2": 75.0}, cells=4096, projection_dim=512)
    plant_senses(tmp_path / "d", 2_500_000, {"1": 55.0, "2": 56.0})
    plant_senses(tmp_path / "e", 1_500_000, {"1": 50.0, "2": 51.0}, cells=512, projection_dim=None)
    (output,) = job.write([tmp_path], tmp_path / "page.html")
    text = output.read_text(encoding="utf-8")
    head, *rows = Page(text).tables[-2]
    assert head[:4] == ["cells / projection", "words read", "1", "2"]
    assert [row[:4] for row in rows] == [
        ["", "2,500,000", "55.00", "56.00"],
        ["512", "1,500,000", "50.00", "51.00"],
        ["512 / 64", "1,000,000", "60.00", "61.00"],
        ["512 / 64", "3,000,000", "62.00", "64.00"],
        ["4,096 / 512", "2,000,000", "70.00", "75.00"],
    ]
    drawn = "F1 by words read in training, cells / projection 512 / 64 (1,000,000, 3,000,000): layer 1 60.0, 62.0; "
    assert re.findall("F1 by words read[^;]*; ", text) == [drawn]


def test_what_is_shown_is_chosen_on_development_data(tmp_path: Path) -> None:
    """The arm, and the layer; where none was chosen, the best one is called an oracle."""
    for arm, dev, test in (("none", 70.0, 69.0), ("input", 75.0, 72.0), ("both", 74.0, 73.0)):
        plant(tmp_path / "runs" / arm, "snli", dev, test, settings=[f"inputs.elmo={arm}"])
    plant_senses(tmp_path / "wsd", 1_000_000, {"1": 66.0, "2": 67.0}, chosen="1")
    said = {row[0]: row[2].split(", diff")[0] for row in claimed(tmp_path)}
    assert said[f"ELMo improves {tmp_path.name}/runs"] == "input 72.00, none 69.00, seeds: 1"
    assert said["The best layer is above the most frequent sense"] == "1 (chosen): 66.00, mfs: 65.00"
    plant_senses(tmp_path / "wsd", 1_000_000, {"1": 66.0, "2": 67.0})
    said = {row[0]: row[2].split(", diff")[0] for row in claimed(tmp_path)}
    assert said["The best layer is above the most frequent sense"] == "2 (oracle): 67.00, mfs: 65.00"


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ([0.2, 0.1, 0.3], "holds"),
        ([0.2, -0.4, 0.8], "undecided"),
        ([-0.2, -0.3, -0.1], "does not hold"),
        (None, "no int"),
    ],
)
def test_a_difference_of_layers_is_decided_by_its_interval(tmp_path: Path, interval: Any, said: str) -> None:
    """Not by its sign; a record of before, which has none, decides nothing."""
    rows: list[dict[str, Any]] = [{"layer": "1", "all": 66.0}, {"layer": "2", "all": 66.2}]
    rows[1] |= {} if interval is None else {"differences": {"1": interval}}
    plant_probe(tmp_path / "wsd", "wsd", rows, bilm={"model": "m", "sha256": "m"})
    (row,) = claimed(tmp_path)
    assert row[1].startswith(said)


def test_ablations_at_another_place_than_the_papers_decide_nothing() -> None:
    common = {"recipe": "snli", "task": "snli", "seeds": [1, 2], "dev_std": 0.1, "analysis": "layers"}
    arms = (("lambda-0.001", 82.0), ("top", 80.0))
    for place, decided in (("both", ["holds"]), ("input", []), (None, [])):
        at = {} if place is None else {"place": place}
        rows = [common | at | {"arm": arm, "dev": dev} for arm, dev in arms]
        assert [row[1] for row in claims._ablations(Probe("ablate", "ablate", {}, rows))] == decided


def test_runs_are_compared_on_data_that_all_were_scored_on(tmp_path: Path) -> None:
    for arm, dev, test in (("none", 70.0, 69.0), ("input", 75.0, None)):
        plant(tmp_path / "runs" / arm, "snli", dev, test, settings=[f"inputs.elmo={arm}"])
    assert [row[2] for row in claimed(tmp_path)] == ["input 75.00, none 70.00, seeds: 1"]


def test_the_seeds_of_both_sides_are_said(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        plant(tmp_path / "none", "snli", 70.0 + seed, None, seed)
    plant(tmp_path / "input", "snli", 80.0, None, settings=["inputs.elmo=input"])
    assert [row[2] for row in claimed(tmp_path)] == ["input 80.00, none 72.00 ± 1.00, seeds: 1 and 3"]


def test_a_queue_that_says_its_seeds_has_those_that_are_not_done(tmp_path: Path) -> None:
    config = ablate.Config(str(tmp_path), ("snli",), seeds=(1, 2, 3))
    for arm in ("none", "input", "both"):
        plant(tmp_path / "snli" / arm, "snli", 70.0, None)
    ablate.write(config, *ablate.plan(config, recipe_of, {}))
    places = written(tmp_path, tmp_path).tables[1]
    assert [cell for row in places for cell in row if " of " in cell] == ["1 of 3"] * (len(places) - 1)


def test_runs_on_other_parts_of_the_data_are_not_compared(tmp_path: Path) -> None:
    for limit in ("train_fraction=0.1", "max_train=1000", "train_fraction=1.0"):
        for arm in ("none", "input"):
            plant(tmp_path / f"{arm} {limit}", "snli", 70.0, None, settings=[f"inputs.elmo={arm}", limit])
    plant(tmp_path / "all", "snli", 70.0, None, settings=["inputs.elmo=both"])
    found = collect([tmp_path]).comparisons
    train = found[0].runs[0].config["train"].rpartition("/")[2]
    assert {each.title.partition(", ")[0] for each in found} == {f"snli on {train}"}
    assert sorted(sorted(run.folder.name for run in each.runs) for each in found) == [
        ["all", "input train_fraction=1.0", "none train_fraction=1.0"],
        ["input max_train=1000", "none max_train=1000"],
        ["input train_fraction=0.1", "none train_fraction=0.1"],
    ]
    assert sum(", 10 %, " in each.title for each in found) == sum("1,000 examples" in each.title for each in found) == 1


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for place in ("one/results", "two/results", "one/results/a b", "one/results/a-b"):
        plant_senses(tmp_path / place / "wsd", 1_000_000, {"1": 60.0, "2": 62.0})
        plant_comparisons(tmp_path / place / "table")
    found = written(tmp_path, tmp_path / "one" / "results", tmp_path / "two" / "results")
    titles = [title for title in found.titles if title.startswith("Word senses")]
    assert titles == [
        "Word senses, layer by layer: one/results/a b/wsd",
        "Word senses, layer by layer: one/results/a-b/wsd",
        "Word senses, layer by layer: one/results/wsd",
        "Word senses, layer by layer: two/results/wsd",
    ]
    assert len(set(found.ids)) == len(found.ids) == len(found.titles)
    assert [reference for reference in found.references if reference[0] == "#"] == [f"#{each}" for each in found.ids]
    compared = collect([tmp_path / "one" / "results", tmp_path / "two" / "results"]).comparisons
    assert len({each.title for each in compared}) == len(compared) == 8


def test_accuracies_are_percent(tmp_path: Path) -> None:
    rows = [{"layer": layer, "accuracy": 0.5 + layer / 10, "occurrences": 122, "by_word": {"bank": 0.25}}
            for layer in range(3)]  # fmt: skip
    plant_probe(tmp_path / "senses", "senses", rows)
    found = written(tmp_path, tmp_path)
    assert found.tables[0][1:] == [["0", "50.00", "25.00"], ["1", "60.00", "25.00"], ["2", "70.00", "25.00"]]
    assert "Of every row: occurrences 122." in found.text
    assert 'alt="accuracy by layer: 0 50.00, 1 60.00, 2 70.00"' in (tmp_path / "page.html").read_text(encoding="utf-8")


# What is damaged


SENSES = {"layer": "1", "all": 60.0}
WEIGHT = {"task": "snli", "run": "r", "seed": 1, "place": "input", "layer": 0, "weight": 0.5, "gamma": 1.0}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of which nothing is damaged: they make a page."""
    folder = tmp_path_factory.mktemp("sound") / "results"
    for arm in ("none", "input"):
        plant(folder / "all" / "run" / arm, "srl", 60.0, 59.0, settings=[f"inputs.elmo={arm}"])
    plant(folder / "all" / "run", "srl", 60.0, 59.0)
    plant_probe(folder / "all" / "wsd", "wsd", [SENSES])
    plant_probe(folder / "all" / "weights", "weights", [WEIGHT | {"version": 2}])
    plant_probe(folder / "all" / "efficiency", "efficiency", [])
    plant_pretraining(folder / "all" / "biLM")
    job.write([folder], folder.parent / "whole.html")
    return folder


@pytest.mark.parametrize(
    ("file", "values", "said"),
    [
        ("wsd/probe.json", [], "not a JSON object"),
        ("wsd/probe.json", None, "not a JSON object"),
        ("wsd/probe.json", {"probe": "wsd", "machine": None}, "machine is null where an object is expected"),
        ("wsd/probe.json", {"probe": "wsd", "config": [1]}, r"config is \[1\] where an object is expected"),
        ("wsd/rows.jsonl", 3, "rows.jsonl, line 1: not a JSON object"),
        ("wsd/rows.jsonl", {"layer": "1"}, "rows.jsonl, line 1: all is missing"),
        ("wsd/rows.jsonl", {"all": 60.0}, "layer is missing"),
        ("wsd/rows.jsonl", SENSES | {"all": "60"}, 'all is "60" where a number is expected'),
        ("weights/rows.jsonl", {k: v for k, v in WEIGHT.items() if k != "gamma"}, "gamma is missing"),
        ("weights/rows.jsonl", WEIGHT | {"place": "middle"}, 'place is "middle" where "input" or "output" is expected'),
        ("weights/rows.jsonl", WEIGHT | {"layer": 0.5}, "layer is 0.5 where a whole number from 0 to 99 is expected"),
        ("weights/rows.jsonl", WEIGHT | {"layer": 1000000}, "layer is 1000000 where"),
        ("weights/rows.jsonl", WEIGHT | {"layer": -1}, "layer is -1 where"),
        ("efficiency/rows.jsonl", {"kind": []}, r"kind is \[\] where text is expected"),
        ("efficiency/rows.jsonl", {"kind": "answer"}, "recipe is missing"),
        ("run/seed-1/result.json", {}, "seed is missing"),
        ("run/seed-1/result.json", [], r"the value is \[\] where an object is expected"),
        ("run/seed-1/result.json", {"seed": 1, "seconds": 2.0}, "dev is missing"),
        ("run/seed-1/result.json", {"seed": 1, "seconds": 2.0, "dev": {}}, "dev.f1 is missing"),
        ("run/config.json", None, "the value is null where an object is expected"),
        ("run/config.json", {"task": "parsing"}, 'task is "parsing" where "ner" or'),
        ("table.json", None, "the value is null where a list is expected"),
        ("biLM/metrics.jsonl", None, "metrics.jsonl, line 1: the value is null"),
        ("biLM/train.json", [], "an object is expected"),
        ("foreign.json", {"text": [], "vocabulary": None, "perplexity": 3.5}, "perplexity is 3.5 where an object"),
    ],
)
def test_damaged_files_are_named(sound: Path, tmp_path: Path, file: str, values: Any, said: str) -> None:
    """Valid JSON of another shape: one line with the file and what is wrong with it."""
    folder = shutil.copytree(sound, tmp_path / "results")
    (folder / "all" / file).write_text(json.dumps(values) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=said) as caught:
        job.write([folder], tmp_path / "page.html")
    assert Path(file).name in str(caught.value)
    assert "; " in str(caught.value)
    assert "\n" not in str(caught.value)
