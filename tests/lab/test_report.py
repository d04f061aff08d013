"""Reports of results that nobody measured: the right tables, nothing that runs or is loaded, a page for a browser."""

import html.parser
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from browser import Browser
from command import printed, run
from links import link
from refusals import refusal, refused
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
    write,
    write_record,
)

from elmo_lab import figures, record
from elmo_lab.document import ABSENT
from elmo_lab.probes import weights
from elmo_lab.report import comparing, job
from elmo_lab.report.collect import collect
from elmo_lab.report.pretraining import newest_perplexities

FIGURES = 9
"""The figures of everything that is planted."""
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
    job.write_report([planted], planted.parent / "page.html", planted.parent / "page.md")
    return planted.parent / "page.html"


def written(folder: Path, *paths: Path) -> Page:
    (output,) = job.write_report(paths, folder / "page.html", overwrite=True)
    return Page(output.read_text(encoding="utf-8"))


def compared(folder: Path) -> list[list[str]]:
    """The names of the arms that are compared, the first of each before its rivals."""
    return [[arm.name for arm in group] for group in comparing.comparable_arms(collect([folder]).tasks)]


def column(table: list[list[str]], title: str) -> list[str]:
    """The cells of a column; a row that goes on with its group lacks the first one."""
    place = table[0].index(title) - len(table[0])
    return [row[place] for row in table[1:]]


# What is found


def test_tables_have_the_planted_numbers(page: Path) -> None:
    tables = Page(page.read_text(encoding="utf-8")).tables
    tasks = tables[0]
    assert [row[0] for row in tasks[1:] if len(row) == len(tasks[0])] == [
        "results/alone/sst (sst5)", "results/table/ner-wnut17", "results/table/snli",
    ]  # fmt: skip
    assert column(tasks, "arm") == ["sst", "none", "input", "none", "both", "input"]
    assert column(tasks, "mean") == ["41.25", "40.00", "46.00", "70.00", "76.00", "73.00"]
    assert column(tasks, "std")[1:3] == ["1.41", "1.41"]
    assert column(tasks, "seeds") == ["1", "2", "2", "1", "1 of 2", "1"]
    assert column(tasks, "difference") == ["", "", "+6.00", "", "+6.00", "+3.00"]
    assert column(tasks, "error reduction") == ["", "", "+10.0 %", "", "+20.0 %", "+10.0 %"]
    layers = next(table for table in tables if "place" in table[0] and ["snli", "none"] in [row[:2] for row in table])
    assert column(layers, "dev")[0] == "78.00"
    senses = next(table for table in tables if "ALL" in table[0])
    assert (column(senses, "ALL"), column(senses, "chosen")[2]) == (["60.0", "67.0", "68.5", "68.8", "65.0"], "*")
    answers = next(table for table in tables if table[0][-1] == "what ELMo saves")
    assert "With 10 % of the data the baseline scores what ELMo does with 1 %" in column(answers, "what ELMo saves")
    pretrained = next(table for table in tables if table[0][:2] == ["run", "words read"])
    assert pretrained[1][1:6] == ["8,000,000", "wiki.valid.txt", "100.00", "110.00", "107.00"]
    evaluated = next(table for table in tables if table[0][1:3] == ["task", "networks"])
    assert evaluated[1] == ["results/ensemble.json", "ner", "5", "1287", "f1 47.50"]


def test_runs_are_compared_where_folder_task_and_data_are_the_same(tmp_path: Path) -> None:
    """The best on dev without ELMo comes first, whatever its name."""
    plant(tmp_path / "a", "snli", 71.0, None, settings=["inputs.elmo=input"])
    plant(tmp_path / "b", "snli", 70.0, 69.0)
    plant(tmp_path / "b2", "snli", 68.0, 72.0)
    plant(tmp_path / "c", "snli", 60.0, 59.0, settings=["dev=other.jsonl"])
    plant(tmp_path / "d", "srl", 60.0, 59.0)
    plant(tmp_path / "e", "ner-wnut17", 10.0, 10.0, settings=["inputs.elmo=input"])
    plant(tmp_path / "f", "ner-wnut17", 20.0, 20.0, settings=["inputs.elmo=both"])
    assert compared(tmp_path) == [["b", "a", "b2"], ["c"], ["d"], ["e", "f"]]
    table = written(tmp_path, tmp_path).tables[0]
    assert column(table, "mean")[:3] == ["70.00", "71.00", "68.00"]  # on dev: one of them has no score on test
    assert column(table, "difference") == ["", "+1.00", "-2.00", "", "", "", ""]  # without ELMo, nothing to gain over


def test_runs_of_other_data_vectors_or_versions_are_not_compared(tmp_path: Path) -> None:
    """Files are the same by content, not by name; a run without static vectors is beside all that have the same."""
    made = {
        "a": ("none", "1", {"train": "d1", "vectors": "v1"}), "b": ("input", "1", {"train": "d1", "vectors": "v1"}),
        "c": ("input", "1", {"train": "d2", "vectors": "v1"}), "d": ("input", "2", {"train": "d1", "vectors": "v1"}),
        "e": ("output", "1", {"train": "d1"}),
    }  # fmt: skip
    for name, (arm, version, data) in made.items():
        plant(tmp_path / name, "ner-wnut17", 50.0, 40.0, settings=[f"inputs.elmo={arm}", f"train={name}/x.conll"])
        write_record(tmp_path / name, version=version, data=data)
    assert sorted(compared(tmp_path)) == [["a", "b", "e"], ["c"], ["d"]]
    plant(tmp_path / "f", "ner-wnut17", 50.0, 40.0, settings=["inputs.elmo=input"])
    write_record(tmp_path / "f", version="1", data={"train": "d1", "vectors": "v2"})
    assert sorted(compared(tmp_path)) == [["a", "b"], ["c"], ["d"], ["e"], ["f"]]


def test_runs_on_parts_of_the_data_are_not_compared(tmp_path: Path) -> None:
    for limit in ("train_fraction=0.1", "max_train=1000", "train_fraction=1.0"):
        for arm in ("none", "input"):
            plant(tmp_path / f"{arm} {limit}", "snli", 70.0, None, settings=[f"inputs.elmo={arm}", limit])
    assert sorted(map(len, compared(tmp_path))) == [2, 2, 2]


def test_of_an_arms_trials_the_best_on_dev_is_shown(tmp_path: Path) -> None:
    """By the first seed; runs of other tasks or places of ELMo are no trials, whatever their names."""
    for trial, dev, test in ((1, 50.0, 49.0), (2, 45.0, 54.0)):
        plant(tmp_path / "ner" / "none" / f"trial-{trial}", "ner-wnut17", dev, test)
    assert column(written(tmp_path, tmp_path).tables[0], "mean") == ["49.00"]
    shutil.rmtree(tmp_path / "ner")
    plant(tmp_path / "mine" / "trial-1", "ner-wnut17", 50.0, 49.0)
    plant(tmp_path / "mine" / "trial-2", "snli", 70.0, 69.0)
    plant(tmp_path / "mine" / "trial-3", "snli", 72.0, 71.0, settings=["inputs.elmo=input"])
    assert sorted(map(len, compared(tmp_path))) == [1, 2]


def test_of_a_baseline_without_an_error_there_is_no_reduction(tmp_path: Path) -> None:
    plant(tmp_path / "a", "snli", 100.0, None)
    plant(tmp_path / "b", "snli", 97.3, None, settings=["inputs.elmo=input"])
    table = written(tmp_path, tmp_path).tables[0]
    assert "error reduction" not in table[0]  # a column with nothing in it
    assert column(table, "difference") == ["", "-2.70"]


@pytest.mark.parametrize("content", ['{"a": 1}', '{"text": ["te', "reading\n{}", "[]"])
def test_a_file_that_was_named_and_has_no_results_is_an_error(tmp_path: Path, content: str) -> None:
    plant(tmp_path / "run", "snli", 70.0, 69.0)
    (tmp_path / "cut.json").write_text(content, encoding="utf-8")
    assert collect([tmp_path]).tasks
    with refused("cut.json"):
        collect([tmp_path / "run", tmp_path / "cut.json"])


MEASURED = {"text": ["a.txt"], "vocabulary": {"size": 9, "sha256": ""}, "perplexity": {"carry": {"mean": 7.0}}}
EVALUATED = {"task": "ner", "version": "1", "examples": 3, "members": 1, "f1": 70.0}


@pytest.mark.parametrize("values", [MEASURED, EVALUATED], ids=["perplexity", "evaluation"])
@pytest.mark.parametrize("damage", ["cut", "with a line before", "a damaged byte"])
def test_a_damaged_output_in_a_folder_is_named(tmp_path: Path, values: dict[str, Any], damage: str) -> None:
    plant(tmp_path / "run", "snli", 70.0, 69.0)
    whole = json.dumps(values, indent=2)
    damaged = {"cut": whole[:-20], "with a line before": f"reading\n{whole}", "a damaged byte": whole}[damage].encode()
    path = tmp_path / "out.json"
    path.write_bytes(damaged.replace(b"a", b"\xff", 1) if damage == "a damaged byte" else damaged)
    with refused(path, "JSON", "again"):
        collect([tmp_path])


def test_an_output_as_powershell_saves_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(json.dumps(MEASURED), encoding="utf-16")
    assert [file.values for file in collect([tmp_path]).perplexities] == [MEASURED]


def test_links_are_followed_once(tmp_path: Path) -> None:
    plant(tmp_path / "disk" / "one", "snli", 70.0, 69.0)
    (tmp_path / "all").mkdir()
    link(tmp_path / "all" / "one", tmp_path / "disk" / "one")
    link(tmp_path / "disk" / "one" / "loop", tmp_path / "disk")
    assert [run.name for run in collect([tmp_path / "all"]).tasks] == ["all/one"]
    assert [run.name for run in collect([tmp_path]).tasks] == ["/".join((tmp_path.name, "all/one"))]


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode elsewhere")
def test_a_name_that_is_not_utf_8_is_escaped(tmp_path: Path) -> None:
    plant(tmp_path / "caf\udce9", "snli", 70.0, 69.0)
    job.write_report([tmp_path], tmp_path / "page.html", tmp_path / "page.md")
    for page in ("page.html", "page.md"):
        assert r"caf\udce9" in (tmp_path / page).read_text(encoding="utf-8")


def test_files_that_cannot_be_read_are_none_of_ours(tmp_path: Path) -> None:
    plant(tmp_path / "srl", "srl", 60.0, 59.0)
    link(tmp_path / ".#lock.json", tmp_path / "nowhere")
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    assert len(collect([tmp_path]).tasks) == 1


def test_figures_of_a_markdown_file_with_a_space_in_its_name_are_found(tmp_path: Path) -> None:
    plant_comparisons(tmp_path / "runs")
    job.write_report([tmp_path / "runs"], markdown_file=tmp_path / "my results.md")
    links = re.findall(r"^!\[.*\]\((.*)\)$", (tmp_path / "my results.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert links
    assert all(" " not in link and (tmp_path / unquote(link)).is_file() for link in links)


def test_the_runs_of_a_probe_are_shown_in_its_tables_alone(tmp_path: Path) -> None:
    plant_ablations(tmp_path / "ablate")
    plant(tmp_path / "other", "srl", 60.0, 59.0)
    results = collect([tmp_path])
    assert (len(results.probes), [run.name.rpartition("/")[2] for run in results.tasks]) == (1, ["other"])
    assert collect([tmp_path, tmp_path / "other"]) == results  # named twice, found once


def test_unknown_probes_and_tasks_get_the_table_of_their_rows(tmp_path: Path) -> None:
    """As of a package that is not installed here."""
    rows = [LayerRow(str(n), float(n), {}) for n in range(150)]
    record.write(tmp_path / "new", record.probe_record("new", "1", NoConfig(), rows))
    plant(tmp_path / "task", "snli", 70.0, 69.0)
    write_record(tmp_path / "task", name="parsing")
    found = written(tmp_path, tmp_path / "new", tmp_path / "task")
    assert "Probe new" in found.titles
    assert len(found.tables[-2]) == 1 + 100
    assert column(found.tables[0], "score") == ["test accuracy"]


def test_a_record_shows_the_command_and_the_settings(tmp_path: Path) -> None:
    plant_probe(tmp_path / "run", "new", [{"layer": 1}], {"data": "/home/somebody/x.tsv", "lr": 0.5}, BILM)
    text = written(tmp_path, tmp_path / "run").text
    assert "elmo probe new --output run" in text
    assert 'settings.data = "x.tsv"' in text
    assert "settings.lr = 0.5" in text
    assert "The biLM is small." in text


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for place in ("one/results", "two/results", "one/results/a b", "one/results/a-b"):
        plant_probe(tmp_path / place / "new", "new", [{"layer": 1}])
    found = written(tmp_path, tmp_path / "one" / "results", tmp_path / "two" / "results")
    assert [title for title in found.titles if title.startswith("Probe")] == [
        "Probe new: one/results/a b/new", "Probe new: one/results/a-b/new", "Probe new: one/results/new",
        "Probe new: two/results/new",
    ]  # fmt: skip
    assert len(set(found.ids)) == len(found.ids) == len(found.titles)
    assert [reference for reference in found.references if reference[0] == "#"] == [f"#{each}" for each in found.ids]


def test_the_curve_of_a_pretraining_is_of_one_text(tmp_path: Path) -> None:
    """A resumed run may have another held-out text."""
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
    assert [point["step"] for point in newest_perplexities(lines)] == [1000, 4000, 8000]


def test_a_report_of_a_network_that_has_diverged(tmp_path: Path) -> None:
    """Its perplexities are null, as JSON has no infinite numbers."""
    plant_pretraining(tmp_path / "biLM")
    measured = {policy: {"mean": None, "unknown_rate": None} for policy in ("carry", "reset")}
    write(tmp_path / "biLM" / "model" / "config.json", {"card": {"perplexity": measured, "words_read": 9}})
    with (tmp_path / "biLM" / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('\n{"step": 9000, "tokens": 9000000, "carry_mean": null, "reset_mean": null}\n')
    write(tmp_path / "found.json", {"text": ["a.txt"], "vocabulary": None, "perplexity": measured})
    job.write_report([tmp_path], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.tables[0][1][2:5] == [ABSENT] * 3
    assert page.tables[1][1][3:8] == [ABSENT] * 5
    assert "against words read; at 8,000,000 words: state carried 100.0, sentence by sentence 110.0" in text


# What is damaged


@pytest.mark.parametrize(
    ("file", "values", "said"),
    [
        ("wsd/record.json", [], "JSON"),
        ("wsd/record.json", {"kind": "probe"}, "name is None"),
        ("wsd/record.json", {"machine": None}, "machine is None"),
        ("wsd/record.json", {"settings": [1]}, "settings"),
        ("wsd/record.json", {"rows": [3]}, "rows; objects"),
        ("wsd/record.json", {"rows": [{"layer": "1"}]}, "probe; write"),
        ("wsd/record.json", {"kind": "other"}, "task; probe"),
        ("run/record.json", {"rows": [{"seed": 1}]}, "task's"),
        ("run/record.json", {"rows": []}, "task's"),
        ("biLM/metrics.jsonl", None, "metrics; train"),
        ("biLM/train.json", [], "JSON"),
        ("biLM/model/config.json", {"card": {"perplexity": [3.5]}}, "train"),
        ("biLM/model/config.json", {"card": {"perplexity": {"carry": {"mean": "low"}}}}, "train"),
        ("found.json", {"text": [], "vocabulary": None, "perplexity": 3.5}, "perplexity; again"),
        ("found.json", {"text": [], "vocabulary": None, "perplexity": {"a": {"mean": "b"}}}, "perplexity; again"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, values: Any, said: str) -> None:
    """Valid JSON of another shape: one line with the file and what is wrong with it."""
    folder = tmp_path / "results"
    plant(folder / "run", "srl", 60.0, 59.0)
    plant_probe(folder / "wsd", "wsd", [])
    plant_pretraining(folder / "biLM")
    path = folder / file
    if isinstance(values, dict) and path.is_file() and values != {"kind": "probe"}:
        values = json.loads(path.read_text(encoding="utf-8")) | values
    path.write_text(json.dumps(values) + "\n", encoding="utf-8")
    with refused(file.partition("/")[0], *said.split("; ")):
        job.write_report([folder], tmp_path / "page.html")


def test_of_many_records_the_damaged_one_is_named(tmp_path: Path) -> None:
    for name in "abcde":
        plant(tmp_path / name, "srl", 60.0, 59.0)
    write_record(tmp_path / "d", rows=[{"seed": 1}])
    with refused(f"{tmp_path.name}/d: ", "train again") as raised:
        job.write_report([tmp_path], tmp_path / "page.html")
    assert f"{tmp_path.name}/a" not in str(raised.value)


def test_what_cannot_be_read_is_an_error_of_one_line(tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    for paths, message in (([tmp_path], "results"), ([tmp_path / "nowhere"], "nowhere; folder")):
        with refused(*message.split("; ")):
            job.write_report(paths, output)
    plant(tmp_path / "run", "srl", 60.0, 59.0)
    with refused("--output", "--markdown"):
        job.write_report([tmp_path / "run"])
    file = tmp_path / "run" / "record.json"
    file.write_text(file.read_text(encoding="utf-8")[:50], encoding="utf-8")
    refusal(run("report", tmp_path / "run", "--output", output), "record.json")
    assert not output.exists()


# What is written


def test_pages_are_the_same_again_and_refused_where_they_are(planted: Path, page: Path, tmp_path: Path) -> None:
    markdown = page.with_suffix(".md")
    shown = printed("report", planted, "--output", tmp_path / "site", "--markdown", tmp_path / "page.md")
    assert shown.splitlines() == [str(tmp_path / "site" / "index.html"), str(tmp_path / "page.md")]
    assert (tmp_path / "site" / "index.html").read_bytes() == page.read_bytes()
    assert (tmp_path / "page.md").read_bytes() == markdown.read_bytes()
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "page-figures").iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in (page.parent / "page-figures").iterdir()}
    for options in (["--output", tmp_path / "site"], ["--markdown", tmp_path / "page.md"]):
        refusal(run("report", planted, *options), "--overwrite")


def test_pages_are_replaced_where_it_is_asked_for(tmp_path: Path) -> None:
    plant(tmp_path / "run", "srl", 60.0, 59.0)
    for title in ("First", "Second"):
        job.write_report([tmp_path / "run"], tmp_path / "site", tmp_path / "page.md", title, overwrite=True)
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
    rows = [LayerRow(EVIL, 1.0, {EVIL: 2.0})]
    record.write(folder / "probe", record.probe_record(EVIL, "1", NoConfig(EVIL), rows))
    job.write_report([folder], tmp_path / "page.html", tmp_path / "page.md", title=EVIL)
    found = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "script" not in found.tags
    assert found.text.count(EVIL) >= 6
    assert found.text.count(name) >= 3
    markdown = (tmp_path / "page.md").read_text(encoding="utf-8")
    outside = re.sub(r"(?ms)^```text$.*?^```$", "", markdown)
    assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", outside)


def test_markdown_has_the_tables_and_the_figures(page: Path) -> None:
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "|  | input | test f1 | 46.00 | 1.41 | 2 | +6.00 | +10.0 % | 1.5 |" in text
    linked = re.findall(r"!\[[^\n]*\]\((page-figures/[^)]+)\)", text)
    assert {Path(name).name for name in linked} == {path.name for path in (page.parent / "page-figures").iterdir()}
    assert len(linked) == FIGURES
    for name in linked:
        assert b"<svg" in (page.parent / name).read_bytes()[:600]


def test_figures_say_what_they_show(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("<picture>") == text.count('prefers-color-scheme: dark)"><img') == FIGURES
    assert 'alt="Scores without and with ELMo: results/table/ner-wnut17 40.0, 46.0; ' in text


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
    cells = [weights.MeanWeightRow("ner", name, "input", layer, 0.5, 1.0, 1, 0.0) for layer in range(3)]
    for long in (figures.gains([figures.Gain(name, 1.0, 2.0)], "f1"), figures.layer_weights(cells)):
        figures.svg(long)  # which lays it out
        assert long.axes[0].get_position().width * long.get_figwidth() > 1  # inches beside a long name


# In a browser


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)])
def test_the_page_in_a_browser(page: Path, tmp_path: Path, chromium: Browser, width: int, dark: bool) -> None:
    """Nothing sticks out, also with all folds open; the figures are those of the scheme; the names are inert."""
    seen = chromium.measure(page, tmp_path, width, dark)
    assert seen["width"] == width
    assert seen["needed"] <= width
    assert seen["dark"] == [dark] * FIGURES
    assert seen["broken"] == 0
    assert seen["tables"] == Page(page.read_text(encoding="utf-8")).tables
    if width == 360:
        assert seen["scrolled"] > 0  # tables, in boxes of their own
    colors = chromium.colors(page, tmp_path, width, dark)
    (background, share), *others = colors
    assert background == ((23, 23, 27) if dark else (255, 255, 255))
    assert 0.5 < share < 0.99
    assert len(others) > 20


def test_a_browser_runs_nothing(tmp_path: Path, chromium: Browser) -> None:
    plant_comparisons(tmp_path / EVIL.replace("/", "\\"))
    job.write_report([tmp_path / EVIL.replace("/", "\\")], tmp_path / "page.html", title=f"Results {EVIL}")
    found = chromium.dom(tmp_path / "page.html", 800, dark=False)
    assert f"<title>Results {EVIL.replace('<', '&lt;').replace('>', '&gt;')}</title>" in found
    assert "ner-wnut17" in found
