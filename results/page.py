"""Makes docs/results.md and its figures from the tables.

Each part shows the first model of MODELS that has its result; the first table shows all models.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elmo.disk.files import write_run_file as write_file
from elmo_lab import figures
from elmo_lab.document import ABSENT, Block, Document, Figure, Figures, Section, Text, table
from elmo_lab.probes import efficiency
from elmo_lab.report import job, markdown
from elmo_lab.report.arms import Arm, score_of
from elmo_lab.report.sections import machines_table
from elmo_lab.tasks.table import error_reduction, signed_percent
from results import claims, paper, tables
from results.runs import Comparison, comparisons, layer_weights
from results.tables import Run

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
MODELS = ("english-large", "english-base")
TITLES = {
    "ner-wnut17": "NER, WNUT-17",
    "ner-gum": "NER, GUM",
    "sst5": "SST-5",
    "snli": "SNLI",
    "srl": "SRL, EWT",
    "coref": "Coreference, OntoGUM",
    "squad": "SQuAD",
}
ANALYSES = {
    "places": "where ELMo is added (Table 3)",
    "layers": "which layers are used (Table 2)",
    "gamma": "the scale of the mix (supplement A.2)",
    "types": "static vectors and ELMo (Table 7)",
}
INTRO = (
    "Made by python -m results page of the tables in results/, whose README says what each file is. The numbers of"
    " english-base and english-small were made from 2026-11-22 to 27, with the recipes from before the corrections of"
    " 2026-11-28 (deviations.md has the present ones); rows of english-large are made with the corrected ones."
)
TASKS_NOTE = (
    "Mean and standard deviation over the seeds, in percent. ELMo is at the place that scores best on development data,"
    " with each biLM. Error reduction is the difference as a share of the errors without ELMo (100 minus the score)."
    " The paper's are those of its Table 1, with other data, networks, static vectors and biLM: they only show the"
    " range to expect. The static vectors of all networks, without and with ELMo, are 100-dimensional skip-grams of the"
    " biLM's own training text, so a network without ELMo knows no less text. SQuAD's network without ELMo still learns"
    " after its six epochs, so a part of its gain is speed (log.md, 2026-11-30)."
)


def write() -> Path:
    """Writes the page and its figures, and returns the page's path."""
    folder = PAGE.with_name(f"{PAGE.stem}-figures")
    text, drawn = markdown.render(document(), folder.name)
    job.write_figures(folder, drawn, overwrite=True)
    write_file(PAGE, text.encode())
    return PAGE


def document() -> Document:
    """Returns the page as a document."""
    return Document(
        "Results",
        (Text(INTRO),),
        (
            Section("At a glance", tuple(_glance())),
            Section("The paper's claims here", tuple(_claims())),
            Section("Tasks with and without ELMo", tuple(_tasks())),
            Section("Ablations", tuple(_ablations())),
            Section("Sample efficiency", tuple(_efficiency())),
            Section("Word senses and parts of speech, layer by layer", (*_senses(), *_tags(), *_uses())),
            Section("Nearest uses of a word (Table 4)", tuple(_neighbors())),
            Section("The layer weights that the tasks learned (Figure 2)", tuple(_weights())),
            Section("Other models", tuple(_others())),
            Section("Machines", tuple(_machines())),
        ),
    )


def _first(name: str) -> tuple[str, dict[str, Run]]:
    """Returns the first model that has a table, and the table; its run with the usual LSTM state comes first."""
    model, found = next((model, found) for model in MODELS if (found := tables.read(f"{model}/{name}")))
    return model, dict(sorted(found.items(), key=lambda item: item[0] != "reset"))


def _compared() -> dict[str, tuple[str, Comparison]]:
    """Returns every task with the first model that has it."""
    found: dict[str, tuple[str, Comparison]] = {}
    for model in MODELS:
        for row, each in comparisons(f"{model}/tasks").items():
            found.setdefault(row, (model, each))
    return {row: found[row] for row in [*TITLES, *found] if row in found}


def _glance() -> Iterator[Block]:
    rows, drawn = [], []
    for model in MODELS:
        found = comparisons(f"{model}/tasks")
        for row in (row for row in TITLES if row in found):
            each = found[row]
            baseline, (given, tuned) = each.arms[0], (each.best(fine_tuned) for fine_tuned in (False, True))
            published = paper.cell("error reduction", baseline.run.record.name, form="{:+.1f} %")
            score = f"{each.part} {baseline.scores[0]}"
            gains = [*_gained(each, given), *_gained(each, tuned)]
            rows.append((model, TITLES[row], score, _short(each, baseline), *gains, published))
            if model == _compared()[row][0]:
                means = [None if arm is None else each.score(arm).value for arm in (given, tuned)]
                drawn.append(figures.Gain(TITLES[row], each.score(baseline).value, *means))
    alt = "Scores without and with ELMo, and with a fine-tuned biLM: " + "; ".join(
        f"{gain.name} {', '.join(f'{score:.1f}' for score in gain.scores)}" for gain in drawn
    )
    figure = Figure("tasks", alt, lambda dark: figures.gains(drawn, "score, percent", dark))
    yield Figures((figure,), "Each task without ELMo, with it, and with a biLM fine-tuned on the task's sentences.")
    reduction = "error reduction"
    head = ("biLM", "task", "score", "without ELMo", "with ELMo", reduction, "fine-tuned biLM", reduction, "paper's")
    yield table(head, rows, groups=True)
    yield Text(TASKS_NOTE)


def _gained(each: Comparison, arm: Arm | None) -> tuple[str, str]:
    """Formats the score with ELMo and its error reduction; both are empty if there is no such run."""
    if arm is None:
        return "", ""
    before, after = each.score(each.arms[0]).value, each.score(arm).value
    return _short(each, arm), signed_percent(error_reduction(after, before))


def _short(each: Comparison, arm: Arm) -> str:
    score = each.score(arm)
    return f"{score.value:.1f} ± {score.std:.1f}" if score.seeds > 1 else f"{score.value:.1f}"


def _claims() -> Iterator[Block]:
    compared = _compared()
    found = [claim for row, (_, each) in compared.items() for claim in claims.of_task(TITLES.get(row, row), each)]
    of_probes = {"wsd": claims.of_senses, "pos": claims.of_tags, "neighbors": claims.of_neighbors}
    for name, judge in of_probes.items():
        found += [claim for run in _first(name)[1].values() for claim in judge(run)]
    found += claims.of_ablations(_ablation_rows())
    found += claims.of_efficiency(_first("efficiency")[1]["efficiency"]["rows"])
    of_weights = claims.of_weights(layer_weights(each for _, each in compared.values()))
    found += [] if of_weights is None else [of_weights]
    yield table(claims.HEAD, [claim.cells for claim in found])
    yield Text(claims.NOTE)


def _tasks() -> Iterator[Block]:
    rows = []
    for row, (model, each) in _compared().items():
        baseline = each.score(each.arms[0]).value
        for arm in each.arms:
            score, gain = each.score(arm), ("", "")
            if arm is not each.arms[0]:
                gain = f"{score.value - baseline:+.2f}", signed_percent(error_reduction(score.value, baseline))
            std = f"{score.std:.2f}" if score.seeds > 1 else ABSENT
            cells = (f"{each.part} {arm.scores[0]}", f"{score.value:.2f}", std, str(score.seeds), *gain)
            rows.append((f"{TITLES.get(row, row)} ({model})", arm.name, *cells, f"{arm.minutes:.1f}"))
    head = ("task", "arm", "score", "mean", "std", "seeds", "difference", "error reduction", "minutes a seed")
    yield table(head, rows, groups=True)
    yield Text(
        "Fine-tuning of the biLM on each task's sentences: its perplexity of held-out sentences, mean of both"
        " directions, state carried and reset at every sentence."
    )
    cells = []
    for row, (model, pair) in _tuned().items():
        means = (f"{run['perplexity'][state]['mean']:.2f}" for state in ("carry", "reset") for run in pair)
        cells.append((f"{TITLES[row]} ({model})", *means))
    yield table(("task", "carried, as it is", "fine-tuned", "reset, as it is", "fine-tuned"), cells)


def _tuned() -> dict[str, tuple[str, list[Run]]]:
    """Returns the perplexities of every task before and after fine-tuning, with the first model that has them."""
    found: dict[str, tuple[str, list[Run]]] = {}
    for row in TITLES:
        for model in MODELS:
            runs = tables.read(f"{model}/tuning")
            pair = [runs[key] for when in ("as-it-is", "fine-tuned") if (key := f"{row}/{when}") in runs]
            if len(pair) == 2:
                found.setdefault(row, (model, pair))
    return found


def _ablation_rows() -> list[dict[str, Any]]:
    """Returns the rows of every recipe's ablations, with the first model that has them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for model in MODELS:
        for run in tables.read(f"{model}/ablations").values():
            if run["kind"] == "probe":
                rows = [row | {"model": model} for row in run["rows"]]
                found.setdefault(rows[0]["recipe"], rows)
    return [row for rows in found.values() for row in rows]


def _ablations() -> Iterator[Block]:
    rows = _ablation_rows()
    for analysis, title in ANALYSES.items():
        arms: dict[str, list[str]] = {}
        chosen = [row for row in rows if row["analysis"] == analysis]
        columns = list(dict.fromkeys((row["recipe"], row["model"]) for row in chosen))
        for row in chosen:
            std = f" ± {row['dev_std']:.2f}" if len(row["seeds"]) > 1 else ""
            cells = arms.setdefault(row["arm"], [""] * 2 * len(columns))
            place = 2 * columns.index((row["recipe"], row["model"]))
            cells[place] = f"{row['dev']:.2f}{std}"
            cells[place + 1] = paper.cell(analysis, row["task"], row["arm"])
        yield Text(f"Score on dev by {title}; one seed where there is no deviation.")
        head = [name for recipe, model in columns for name in (f"{recipe} ({model})", "paper's")]
        yield table(("arm", *head), [(arm, *cells) for arm, cells in arms.items()])
    yield Text("The paper's numbers are from other data and networks: only the order of the arms is comparable.")


def _efficiency() -> Iterator[Block]:
    model, found = _first("efficiency")
    rows = found["efficiency"]["rows"]
    scores = [row for row in rows if row["kind"] == "score"]
    recipes = list(dict.fromkeys(row["recipe"] for row in scores))
    yield efficiency.figure(rows)
    said = {"updates": "updates", "baseline": "data"}
    answers = [
        (row["recipe"], row["text"], paper.cell(said.get(row["question"], ""), row["task"], form="{:.0f} %"))
        for row in rows
        if row["kind"] == "answer"
    ]
    yield table(("task", f"what ELMo saves ({model})", "paper's"), answers, groups=True)
    cells = [
        (row["recipe"], f"{100 * row['fraction']:g} %", row["arm"], f"{row['dev']:.2f}", f"{row['test']:.2f}")
        for row in sorted(scores, key=lambda row: (recipes.index(row["recipe"]), row["fraction"]))
    ]
    yield table(("task", "data", "arm", "dev", "test"), cells, groups=True)


def _senses() -> Iterator[Block]:
    model, runs = _first("wsd")
    rows = []
    for state, run in runs.items():
        for row in run["rows"]:
            others = f"{row['others']:.2f}" if "others" in row else ""
            tests = [f"{score:.2f}" for score in row["f1"].values()]
            published = paper.cell("wsd", arm=str(row["layer"])) if state == "reset" else ""
            rows.append((state, row["layer"], *tests, f"{row['all']:.2f}", others, published))
    names = next(iter(runs.values()))["rows"][0]["f1"]
    yield Text(f"Word senses (Table 5): F1 of {model} by its LSTM state and layer; mfs is the most frequent sense.")
    yield table(("state", "layer", *names, "ALL", "the paper's four", "paper's"), rows, groups=True)
    yield Text(
        "The layer is chosen on SemEval-2007. The paper's numbers are of the four other sets; there WordNet's first"
        " sense scores 65.9 in the paper, and the most frequent sense of SemCor 65.5 here."
    )


def _tags() -> Iterator[Block]:
    model, runs = _first("pos")
    rows = [
        (str(row["layer"]), f"{row['dev']:.2f}", f"{row['test']:.2f}", paper.cell("pos", arm=str(row["layer"])))
        for row in next(iter(runs.values()))["rows"]
    ]
    yield Text(f"Parts of speech (Table 6): accuracy of a linear classifier on {model}'s layers; EWT's English tags.")
    yield table(("layer", "dev", "test", "paper's"), rows)


def _uses() -> Iterator[Block]:
    model, runs = _first("senses")
    rows = zip(*(run["rows"] for run in runs.values()), strict=True)
    cells = [(str(row[0]["layer"]), *(f"{100 * each['accuracy']:.2f}" for each in row)) for row in rows]
    yield Text(f"How often the nearest use of a word has the same sense (elmo probe senses, {model}), by LSTM state.")
    yield table(("layer", *runs), cells)


def _neighbors() -> Iterator[Block]:
    model, runs = _first("neighbors")
    rows = [
        (row["query"], row["layer"], f"{row['rank']:,}", row["neighbor"], "yes" if row["published"] else "")
        for row in next(iter(runs.values()))["rows"]
        if row["layer"].isdecimal() and (row["rank"] == 1 or row["published"])
    ]
    yield table(("query", "layer", "rank", f"nearest by {model}", "in the paper"), rows, groups=True)


def _weights() -> Iterator[Block]:
    means = layer_weights(each for _, each in _compared().values())
    alt = "Weights of the biLM's layers in the mixes of every task"
    figure = Figure("weights", alt, lambda dark: figures.layer_weights(means, dark))
    yield Figures((figure,), "The weight of every layer in the mixes that the tasks learned, mean over the seeds.")


def _others() -> Iterator[Block]:
    """Summarizes english-small, CoVe, the editions and the domains in some lines and a table."""
    small, cove = comparisons("english-small/tasks"), comparisons("cove/tasks")
    tuned = comparisons("english-small/tuning", "tasks/")
    yield Text(f"english-small (1,024 cells, projection 128, 125M words), fine-tuned: {_against(tuned, 'fine-tuned')}.")
    senses, tags = tables.read("cove/wsd")["cove"]["rows"], tables.read("cove/pos")["cove"]["rows"]
    yield Text(
        f"CoVe, the encoder of a small translation model: {_against(cove, 'cove')}; word senses"
        f" {max(row['all'] for row in senses if row['layer'] != 'mfs'):.2f} and parts of speech"
        f" {max(row['test'] for row in tags if row['layer'] != 'word'):.2f} at best."
    )
    yield Text(f"Editions, with more text each: {_editions()}.")
    for model in (*MODELS, "english-small"):
        if found := comparisons(f"{model}/domains"):
            yield Text(f"Networks with {model} for three kinds of names, gains in F1: {_domains(found)}.")
    rows = []
    for name, each in small.items():
        given = each.best(fine_tuned=False)
        rows.append((TITLES[name], _short(each, each.arms[0]), *_gained(each, given)))
    yield table(("task with english-small", "without ELMo", "with ELMo", "error reduction"), rows)


def _against(compared: Mapping[str, Comparison], name: str) -> str:
    """Compares the score of an arm with those of the other arms, for every task."""
    said = []
    for row, each in compared.items():
        scores = {arm.name: each.score(arm) for arm in each.arms}
        others = ", ".join(f"{score} {arm}" for arm, score in scores.items() if arm != name)
        said.append(f"{row} {scores[name]} ({others})")
    return "; ".join(said)


def _editions() -> str:
    """Lists the scores of word senses at layer 2 and parts of speech at layer 1 by the words that models have read."""
    said = []
    for name, run in tables.read("editions/wsd").items():
        senses = next(row["all"] for row in run["rows"] if row["layer"] == "2")
        tags = next(row["test"] for row in tables.read("editions/pos")[name]["rows"] if row["layer"] == "1")
        said.append(f"{run['bilm']['words_read'] / 1e6:.1f}M words {senses:.2f} and {tags:.2f}")
    return f"word senses of layer 2 and parts of speech of layer 1, {'; '.join(said)}; the first has 512 cells"


def _domains(compared: Mapping[str, Comparison]) -> str:
    """Lists what ELMo gains on test data of its own domain and of other domains."""
    said = []
    for name, each in compared.items():
        none, elmo = (each.arms[place].run.record.rows for place in (0, -1))
        names = list(none[0]["elsewhere"])
        means = [
            [score_of(row["elsewhere"][other]["f1"] for row in rows).value for other in names] for rows in (none, elmo)
        ]
        gains = [f"{after - before:+.2f} on {other}" for other, before, after in zip(names, *means, strict=True)]
        own = each.score(each.arms[-1]).value - each.score(each.arms[0]).value
        said.append(f"trained on {name} {own:+.2f}, {', '.join(gains)}")
    return "; ".join(said)


def _machines() -> Iterator[Block]:
    found: list[dict[str, Any]] = []
    for file in sorted(tables.FOLDER.glob("*/*.jsonl")):
        if file.stem.startswith("pretraining"):
            continue
        for run in tables.read(f"{file.parent.name}/{file.stem}").values():
            found += filter(None, [run.get("machine"), *(row.get("machine") for row in run.get("rows", ()))])
    yield machines_table(found, ("processor", "cores", "threads", "torch"))
