"""Task models as people use taggers: text and files without labels in, probabilities and scores by label out."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import run
from refusals import refusal, refused
from small_tasks import run_config, write_small

import elmo
from elmo.errors import InputError
from elmo.text.tokenizer import TextConfig, Tokenizer
from elmo_lab.tasks import ner, scores, srl, train
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.tagger import verbs_of
from elmo_lab.tasks.tagging import spans
from elmo_lab.tasks.trained import TrainedTask

TEXT = {
    "ner": ("Nora lives in Porto. Ivo sings.\n\nRain.\n", 3),
    "sst5": ("A splendid film.\n\nIt isn't dull.\n", 2),
    "snli": ("Snow falls.\tIt's cold.\n\nA man plays.\tA man sleeps.\n", 2),
    "srl": ("Mia laughed.\t1\n\nRun!\t0\n", 2),
    "coref": ("Mia slept. She dreamt.\n\nTom waved. He smiled.\n", 2),
    "squad": ("Who slept?\tMia slept; Tom didn't.\n\nWho ran?\tTom ran.\n", 2),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network for each task."""
    folder = tmp_path_factory.mktemp("text")
    for name in tasks.available():
        train.train_task(run_config(folder, name, name, inputs={"elmo": "none"}, training={"epochs": 1}), quiet=True)
    return folder


@pytest.mark.parametrize("name", tasks.available())
def test_text_is_split_and_blank_lines_keep_their_place(runs: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "in.txt").write_text(TEXT[name][0], encoding="utf-8")
    done = run("task", "predict", runs / name, tmp_path / "in.txt", tmp_path / "out.jsonl", "--text")
    assert done.returncode == 0, done.stderr
    assert f"{TEXT[name][1]} predictions" in done.stdout
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    if name != "squad":  # answers have ids instead
        assert [number for number, line in enumerate(lines) if not line] == [TEXT[name][1] - 1]
    records = [json.loads(line) for line in lines if line]
    assert len(records) == TEXT[name][1]
    assert all(0 < probability <= 1 + 1e-6 for record in records for probability in _probabilities(record))


def _probabilities(found: Any) -> list[float]:
    """All numbers under the key `probability` or `probabilities`."""
    if isinstance(found, list):
        return [number for each in found for number in _probabilities(each)]
    if not isinstance(found, dict):
        return []
    own = [found["probability"]] if "probability" in found else []
    own += found["probabilities"].values() if "probabilities" in found else []
    return own + [number for value in found.values() for number in _probabilities(value)]


UNLABELLED = {
    "ner": {
        "a.conll": "Nora\nsings\n\nRain\n",
        "b.conll": "Nora NNP\nsings VBZ\n\nRain NN\n",
        "c.jsonl": '{"tokens": ["Nora", "sings"]}\n{"tokens": ["Rain"]}\n',
        "d.conllu": "1\tNora\n2\tsings\n\n1\tRain\n",
        "e.conll": "1\tNora\t_\n2\tsings\t_\n\n1\tRain\t_\n",
    },
    "sst5": {"a.jsonl": '{"text": "Nice film."}\n{"sentence": "Dull."}\n'},
    "snli": {
        "a.jsonl": '{"premise": "a", "hypothesis": "b"}\n{"premise": "a", "hypothesis": "c", "label": -1}\n',
        "b.tsv": "sentence1\tsentence2\na\tb\na\tc\n",
    },
    "srl": {
        "a.jsonl": '{"tokens": ["Run"], "props": [{"pred": 0}]}\n{"tokens": ["Oh"]}\n',
        "b.conllu": "1\tMia\t_\tPROPN\n2\truns\t_\tVERB\n\n1\tOh\t_\tINTJ\n",
        "c.jsonl": '{"tokens": ["Run"], "verb_indicator": [1]}\n{"tokens": ["Oh"], "verb_indicator": [0]}\n',
    },
    "coref": {"a.jsonl": '{"sentences": [["Mia", "ran"]]}\n{"sentences": [["Oh"]]}\n'},
    "squad": {
        "a.jsonl": '{"id": 1, "question": "Who?", "context": "Mia."}\n'
        '{"id": 2, "question": "Who?", "context": "Tom."}\n',
    },
}


@pytest.mark.parametrize("name", UNLABELLED)
def test_files_without_labels_are_read(runs: Path, tmp_path: Path, name: str) -> None:
    task = tasks.find(name)
    network = TrainedTask.load(runs / name)
    for file, text in UNLABELLED[name].items():
        (tmp_path / file).write_text(text, encoding="utf-8")
        examples = tasks.read_all(task, tmp_path / file)
        assert len(examples) == 2, file
        assert len(network(examples)) == 2
    if name == "srl":
        assert [each.predicate for each in srl.read(tmp_path / "b.conllu", unlabelled=True)] == [1, None]


@pytest.mark.parametrize("name", tasks.available())
def test_a_tagger_in_two_lines(runs: Path, name: str) -> None:
    tagger = elmo.tasks.load(runs / name)
    text = TEXT[name][0].splitlines()[0]
    (found,) = tagger([text])
    assert json.loads(json.dumps(found))
    with refused("list of texts"):
        tagger(text)


def test_no_networks_and_no_device_are_no_tagger(tmp_path: Path) -> None:
    with refused("no folder", "elmo task train"):
        elmo.tasks.load()
    with refused("'gpu'", "cuda"):
        elmo.tasks.load(tmp_path, device="gpu")


def test_a_tagger_takes_tokens_and_text(runs: Path, tmp_path: Path) -> None:
    tagger = elmo.tasks.load(runs / "ner")
    text, tokens, listed = tagger(["Nora lives in Porto.", ["Nora", "lives"], [["Nora", "lives"]]])
    assert text["tokens"] == ("Nora", "lives", "in", "Porto", ".")
    assert tokens == listed
    assert [each["label"] for each in text["spans"]] == [kind for _, _, kind in spans(text["tags"])]
    assert "f1" in tagger.score(ner.read(write_small(tmp_path, "ner")))
    for wrong, number in ((" ", 0), ("Nora\tIvo", 2)):
        with refused(repr(wrong), f"{number} examples", "text"):
            tagger([wrong])
    with pytest.raises(InputError, match="different tasks"):
        elmo.tasks.load(runs / "ner", runs / "sst5")
    with pytest.raises(AttributeError, match="no attribute 'task'"):
        _ = elmo.task


def test_verbs_of_a_pipeline_are_the_predicates(runs: Path, tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("attribute_ruler")
    ruler.add([[{"LOWER": {"IN": ["sings", "runs"]}}]], {"POS": "VERB"})
    ruler.add([[{"LOWER": {"IN": ["nora", "."]}}]], {"POS": "X"})
    pipeline.to_disk(tmp_path / "pipeline")
    assert verbs_of(str(tmp_path / "pipeline"))(["Nora", "sings", "and", "runs"]) == [1, 3]
    (tmp_path / "in.txt").write_text("Nora sings and runs. Nora.\n", encoding="utf-8")
    command = ("task", "predict", runs / "srl", tmp_path / "in.txt", tmp_path / "out.jsonl", "--text")
    refusal(run(*command), "--tagger", ".conllu")
    done = run(*command, "--tagger", tmp_path / "pipeline")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [[prop["pred"] for prop in record["props"]] for record in records] == [[1, 3], []]
    refusal(run(*command, "--overwrite", "--tagger", "no_such_pipeline"), "spacy download")


def test_eval_has_scores_by_label_and_support(runs: Path, tmp_path: Path) -> None:
    path = write_small(tmp_path, "ner")
    shown = run("task", "eval", runs / "ner", path)
    assert shown.returncode == 0, shown.stderr
    assert "support" in shown.stdout
    found = json.loads(run("task", "eval", runs / "ner", path, "--json").stdout)
    assert {label: each["support"] for label, each in found["labels"].items()} == {"person": 4, "place": 5}
    for name in tasks.available():
        task = tasks.find(name)
        network = TrainedTask.load(runs / name)
        examples = task.read(write_small(tmp_path, name))
        labels = task.by_label(examples, network(examples))
        assert labels
        assert all("support" in each for each in labels.values())


def test_label_scores_add_up_to_the_whole() -> None:
    gold = [["B-X", "I-X", "O", "B-Y"], ["B-Y", "O"]]
    predicted = [["B-X", "I-X", "O", "B-X"], ["B-Y", "B-Z"]]
    sides = [[[((b, e), kind) for b, e, kind in spans(tags)] for tags in side] for side in (gold, predicted)]
    found = scores.label_scores(*sides)
    assert found["X"] == {"precision": 50.0, "recall": 100.0, "f1": pytest.approx(200 / 3), "support": 1}
    assert found["Y"] == {"precision": 100.0, "recall": 50.0, "f1": pytest.approx(200 / 3), "support": 2}
    assert found["Z"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}


@pytest.mark.parametrize("moved", ["nothing", "both", "cache"])
def test_a_network_knows_its_bilm_by_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: str) -> None:
    """Trained with a relative path, used from another folder, and after both have moved together."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    cache = {"folder": str(tmp_path / "cache")}
    train.train_task(run_config(Path(), cache=cache, training={"epochs": 1}), quiet=True)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "work" / "run"
    if moved != "nothing":
        shutil.move(tmp_path / "work", tmp_path / "elsewhere")
        folder = tmp_path / "elsewhere" / "run"
    if moved == "cache":
        shutil.rmtree(tmp_path / "elsewhere" / "bilm")
        with refused("biLM", "--model"):
            elmo.tasks.load(folder)
        return
    (found,) = elmo.tasks.load(folder)([["Nora"]])
    assert found["tokens"] == ("Nora",)


def test_of_text_uses_the_tokenizer_it_is_given() -> None:
    tokenizer = Tokenizer(TextConfig("whitespace", "rule"))
    assert [each.tokens for each in ner.of_text(["A b . C d ."], tokenizer)] == [("A", "b", "."), ("C", "d", ".")]
