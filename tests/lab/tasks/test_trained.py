"""A trained network on what training never saw: words, labels, text and files without labels; its probabilities."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from command import printed, run
from refusals import refusal, refused
from small_tasks import NER, SMALL, run_config, write_small
from tiny import write_tiny

import elmo
from elmo import config as configs
from elmo.errors import InputError
from elmo.text.tokenizer import TextConfig, Tokenizer
from elmo_lab.tasks import coref, ner, readers, scores, snli, squad, srl, sst5, train
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.tagger import read_text, verbs_of
from elmo_lab.tasks.tagging import TagPrediction, spans
from elmo_lab.tasks.trained import TrainedTask, example_of

NEW = "Zoe\tB-person\ncrossed\tO\nLima\tB-place\n\nLima\tB-place\nglows\tO\nqqq\tO\n"


def write_vectors(path: Path, words: set[str], seed: int = 0) -> Path:
    torch.manual_seed(seed)
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in torch.randn(5).tolist())}\n" for word in sorted(words))
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Vectors of all words, but one of the new file."""
    known = {token.rpartition("/")[0].lower() for line in NER for token in line.split()}
    write_vectors(tmp_path / "vectors.txt", known | {"zoe", "crossed", "lima", "glows"})
    write_small(tmp_path, "ner")
    (tmp_path / "new.conll").write_text(NEW, encoding="utf-8")
    return tmp_path


def trained(folder: Path, name: str, **values: Any) -> TrainedTask:
    """A small network of NER."""
    base = {"inputs": {"vectors": str(folder / "vectors.txt"), "elmo": "none"}, "training": {"epochs": 3, "lr": 0.05}}
    train.train_task(run_config(folder, name, **configs.merge_tables(base, values)), quiet=True)
    return TrainedTask.load(folder / name)


def emissions(network: TrainedTask, examples: list[ner.NerExample]) -> torch.Tensor:
    with torch.inference_mode():
        return network.model(network.collate([list(example.tokens) for example in examples]))


@pytest.mark.parametrize("tuned", [False, True])
def test_words_that_are_new_have_their_vectors(folder: Path, tuned: bool) -> None:
    """As if the training had known that they would come."""
    inputs = {"vectors_tuned": tuned}
    blind = trained(folder, "blind", inputs=inputs)
    seeing = trained(folder, "seeing", inputs=inputs, test=str(folder / "new.conll"))
    examples = ner.read(folder / "new.conll")[:1]
    before = emissions(blind, examples)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert blind(examples) == seeing(examples)
    assert not torch.allclose(before, emissions(seeing, examples))
    torch.testing.assert_close(emissions(blind, examples), emissions(seeing, examples))
    small = ner.read(folder / "small.conll")
    torch.testing.assert_close(emissions(blind, small), emissions(seeing, small))
    blind(ner.read(folder / "new.conll"))  # more of them, after others
    assert blind.collate.words[-1] == "glows"
    assert blind.look_up(examples) is None


@pytest.mark.parametrize("what", ["missing", "another", "fewer", "wider"])
def test_a_file_of_vectors_that_is_not_there_is_told_of(folder: Path, what: str) -> None:
    trained(folder, "run")
    words = {line.split()[0] for line in (folder / "vectors.txt").read_text(encoding="utf-8").splitlines()}
    kept = (folder / "vectors.txt").rename(folder / "kept.txt")
    if what == "another":
        write_vectors(folder / "vectors.txt", words, seed=1)
    elif what == "fewer":
        write_vectors(folder / "vectors.txt", words - {"nora"})
    elif what == "wider":
        lines = kept.read_text(encoding="utf-8").splitlines()
        (folder / "vectors.txt").write_text("".join(f"{line} 1\n" for line in lines), encoding="utf-8")
    done = run("task", "eval", folder / "run", folder / "new.conll")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert "5 of 5" in done.stderr
    assert (
        "no such file" if what == "missing" else "not the word vectors that the network was trained with"
    ) in done.stderr
    mended = run("task", "eval", folder / "run", folder / "new.conll", "--vectors", kept)
    assert (mended.returncode, mended.stderr) == (0, "")
    with pytest.warns(UserWarning, match="5 of 5"):
        TrainedTask.load(folder / "run")(ner.read(folder / "new.conll"))


def test_a_file_of_vectors_that_the_user_names_must_be_right(folder: Path) -> None:
    trained(folder, "run")
    other = write_vectors(folder / "other.txt", {"nora", "zoe"}, seed=1)
    for given in (other, folder / "gone.txt"):
        done = run("task", "predict", folder / "run", folder / "new.conll", folder / "out", "--vectors", given)
        refusal(done, f"{given}: no")
        assert not (folder / "out").exists()
    network = TrainedTask.load(folder / "run", vectors=str(other))
    for _ in range(2):
        with refused("word vectors"):
            network([["Zoe"]])


@pytest.mark.parametrize("option", ["", "--vectors copy.txt", "--model moved"])
def test_what_the_network_was_read_from_stays(folder: Path, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    trained(folder, "run", inputs={"elmo": "input"})
    shutil.copy("vectors.txt", "copy.txt")
    shutil.copytree("bilm", "moved")
    output = {"": "vectors.txt", "--vectors copy.txt": "copy.txt", "--model moved": "moved/options.json"}[option]
    before = Path(output).read_bytes()
    done = run("task", "predict", "run", "new.conll", output, "--overwrite", *option.split())
    refusal(done, output, "input")
    assert Path(output).read_bytes() == before


def test_a_word_that_the_file_never_had_is_not_searched_again(folder: Path) -> None:
    words = {line.split()[0] for line in (folder / "vectors.txt").read_text(encoding="utf-8").splitlines()}
    write_vectors(folder / "vectors.txt", words - {"rain"})
    network = trained(folder, "run")
    (folder / "vectors.txt").unlink()
    assert network.look_up(ner.read(folder / "small.conll")) is None
    assert "2 of 2" in str(network.look_up([ner.unlabelled([["Rain", "glows"]])]))


def test_a_bilm_that_is_not_found_is_said_with_its_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny(folder / "tiny")
    monkeypatch.chdir(folder)
    cache = {"folder": str(folder / "cache")}
    trained(folder, "run", inputs={"vectors": None, "elmo": "input", "model": "tiny"}, cache=cache)
    monkeypatch.chdir("/")
    TrainedTask.load(folder / "run")
    (folder / "tiny").rename(folder / "other")
    with refused("run/seed-1", "tiny", "--model"):
        TrainedTask.load(folder / "run")
    with refused("gone", error=FileNotFoundError):
        TrainedTask.load(folder / "run", "gone")
    TrainedTask.load(folder / "run", str(folder / "other"))


def test_a_record_that_is_damaged_or_lacks_something_is_named(folder: Path) -> None:
    trained(folder, "run")
    record = folder / "run" / "seed-1" / "task.json"
    values = json.loads(record.read_text(encoding="utf-8"))
    keys = ("bilm", "cache_dtype", "words", "vectors")
    lacking = [(json.dumps({name: value for name, value in values.items() if name != key}), key) for key in keys]
    for text, said in [(text, "JSON") for text in ("null", "3", "[]", "{")] + lacking:
        record.write_text(text, encoding="utf-8")
        with refused("task.json", said, "train the task again"):
            TrainedTask.load(folder / "run")


def test_token_lists_are_examples_without_labels(folder: Path) -> None:
    network = trained(folder, "run")
    tokens = ["Nora", "met", "Ivo"]
    assert network([tokens]) == network([tuple(tokens)]) == network([[tokens]]) == network([ner.unlabelled([tokens])])
    for wrong in ("Nora met Ivo", ["Nora met Ivo"], [[["Nora", "met", "Ivo"], "Ivo"]]):
        with pytest.raises(InputError, match=r"string|one sentence"):
            network(wrong)


@pytest.mark.parametrize("name", tasks.available())
def test_letters_are_no_tokens(name: str) -> None:
    with refused("sentence 1"):
        example_of(tasks.find(name), [["Ann", "slept"], "ab"])
    with refused("sentence 0", "string"):
        example_of(tasks.find(name), "ab")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("srl", "Mia laughed\t1\n\nMia laughed\n", "line 3: a sentence, a tab and the index of the predicate's token"),
        ("srl", "Mia laughed\t2\n", "line 1: the predicate is token 2; the sentence has 2 tokens"),
        ("snli", "Snow falls\tIt is cold\nSnow\n", "line 2: 1 tab-separated sentences"),
        ("squad", "Who\n", "line 1: 1 tab-separated sentences"),
        ("ner", "Mia\tTom\n", "line 1: 2 tab-separated sentences"),
        ("sst5", "Nice\tfilm\n", "line 1: 2 tab-separated sentences"),
    ],
)
def test_text_that_is_no_example_is_refused_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    with refused("text.txt", message):
        read_text(tasks.find(name), str(tmp_path / "text.txt"))


def test_a_no_break_space_belongs_to_a_token_of_text_as_to_one_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Il a vu 10\u00a0000 amis dormir\t5\n", encoding="utf-8")
    (found,) = read_text(tasks.find("srl"), str(tmp_path / "text.txt"))
    assert found.tokens[3] == "10\u00a0000"
    assert found.predicate is not None
    assert found.tokens[found.predicate] == "dormir"


def test_examples_of_text_are_told_apart(tmp_path: Path) -> None:
    """By their lines, where what is written has a name for every example."""
    text = tmp_path / "text.txt"
    text.write_text("Who slept\tMia slept\n\nWho ran\tTom ran\n", encoding="utf-8")
    first, blank, second = read_text(squad.TASK, str(text))
    assert blank is None
    asked = [first, second]
    squad.write(tmp_path / "out.json", asked, [squad.SquadPrediction(each.passage.tokens[0], ()) for each in asked])
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == {"1": "Mia", "3": "Tom"}
    documents = [each for each in read_text(coref.TASK, str(text)) if each is not None]
    for name in ("out.conll", "out.jsonl"):
        coref.write(tmp_path / name, documents, [coref.CorefPrediction(())] * 2)
        assert [each.name for each in coref.read(tmp_path / name)] == ["line-1", "line-3"]


UNSCORED = {
    "ner": ("Nora\nsings\n", "line 1 has 'Nora' in column 1, that of the tags"),
    "snli": ('{"sentence1": "a", "sentence2": "b"}\n', "line 1 has no gold_label"),
    "srl": ('{"tokens": ["Run"], "props": [{"pred": 0}]}\n', "line 1: the predicate of token 0 has no 'tags'"),
    "coref": ('{"doc_key": "d", "sentences": [["a"]]}\n', "line 1: the document 'd' has no 'clusters'"),
    "squad": (
        '{"data": [{"title": "t", "paragraphs": [{"context": "So.", "qas": [{"id": "q", "question": "Why?",'
        ' "answers": []}]}]}]}\n',
        "question 'q' has no answers",
    ),
    "sst5": ("\n", "no examples"),
}


@pytest.mark.parametrize("name", UNSCORED)
def test_what_cannot_be_scored_is_neither_scored_nor_learned_from(runs: Path, tmp_path: Path, name: str) -> None:
    text, message = UNSCORED[name]
    small = write_small(tmp_path, name)
    path = small.with_stem("other")
    path.write_text(text, encoding="utf-8")
    for arguments in (
        ("eval", runs / name, path),
        ("train", name, "--train", small, "--dev", path, "--output", tmp_path / "new"),
    ):
        refusal(run("task", *arguments), f"{path}: {message}")


def test_roles_of_sentences_without_a_predicate_are_written_empty(runs: Path, tmp_path: Path) -> None:
    path = write_small(tmp_path, "srl")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"tokens": ["Rain"], "props": []}\n')
    out, text = tmp_path / "out.jsonl", tmp_path / "text.txt"
    assert run("task", "predict", runs / "srl", path, out).returncode == 0
    assert out.read_text(encoding="utf-8").endswith('{"tokens": ["Rain"], "props": []}\n')
    assert run("task", "sentences", "srl", path, text).returncode == 0
    assert text.read_text(encoding="utf-8").endswith("Rain\n")


@pytest.mark.parametrize(("suffix", "begin"), [(".gz", b"\x1f\x8b"), (".xz", b"\xfd7"), (".bz2", b"BZh")])
@pytest.mark.parametrize("name", tasks.available())
def test_what_is_written_is_compressed_as_its_name_says(tmp_path: Path, name: str, suffix: str, begin: bytes) -> None:
    task = tasks.find(name)
    examples = task.read(write_small(tmp_path, name))
    gold = {
        "ner": lambda each: TagPrediction(each.tags),
        "sst5": lambda each: sst5.ClassPrediction(each.label, ()),
        "snli": lambda each: snli.ClassPrediction(each.label, ()),
        "srl": lambda each: TagPrediction(each.tags),
        "coref": lambda each: coref.CorefPrediction(each.clusters),
        "squad": lambda each: squad.SquadPrediction(each.answers[0].text, ()),
    }[name]
    plain, packed = tmp_path / f"out{Path(SMALL[name].file).suffix}", tmp_path / f"out{SMALL[name].file[5:]}{suffix}"
    for path in (plain, packed):
        task.write(path, examples, list(map(gold, examples)))
    assert packed.read_bytes().startswith(begin)
    assert "".join(f"{line}\n" for _, line in readers.numbered_lines(packed)) == plain.read_text(encoding="utf-8")


def test_a_training_without_an_epoch_is_told_of(runs: Path, tmp_path: Path) -> None:
    begun = Path(shutil.copytree(runs / "ner", tmp_path / "ner"))
    (begun / "seed-1" / "model.safetensors").unlink()
    refusal(run("task", "eval", begun, write_small(tmp_path, "ner")), "epoch")


def test_escapes_of_treebanks_are_read_as_raw_text(folder: Path) -> None:
    """A file with the Penn Treebank's escapes and its plain twin make the same network, and each keeps its tokens."""
    small = SMALL["ner"].text
    write_vectors(folder / "vectors.txt", {"zoe", "lima", "(", ")", '"'})
    weights, found = [], []
    for name, tokens in (("plain", ('"', "(", "Zoe", ")", '"')), ("escaped", ("``", "-LRB-", "Zoe", "-RRB-", "''"))):
        file = folder / f"{name}.conll"
        tags = ("O", "O", "B-person", "O", "O")
        rows = "".join(f"{token}\t{tag}\n" for token, tag in zip(tokens, tags, strict=True))
        file.write_text(f"{small.rstrip()}\n\n{rows}", encoding="utf-8")
        network = trained(folder, name, train=str(file), dev=str(file))
        examples = network.task.read(file)
        assert examples[-1].tokens == tokens
        weights.append(network.model.state_dict())
        found.append(network(examples))
    torch.testing.assert_close(*weights, rtol=0, atol=0)
    assert found[0] == found[1]


def test_learned_vectors_have_no_more_words(folder: Path) -> None:
    network = trained(folder, "run", inputs={"vectors": None})
    assert network.look_up(ner.read(folder / "new.conll")) is None


# As people use taggers: text and files without labels in, probabilities and scores by label out

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
    shown = printed("task", "predict", runs / name, tmp_path / "in.txt", tmp_path / "out.jsonl", "--text")
    assert f"{TEXT[name][1]} predictions" in shown
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    if name != "squad":  # answers have ids instead
        assert [number for number, line in enumerate(lines) if not line] == [TEXT[name][1] - 1]
    records = [json.loads(line) for line in lines if line]
    assert len(records) == TEXT[name][1]
    assert all(0 < probability <= 1 + 1e-6 for record in records for probability in _probabilities(record))
    for record in records if name in ("sst5", "snli") else ():
        chances = record["probabilities"]
        assert sum(chances.values()) == pytest.approx(1, abs=1e-5)
        label = record["gold_label"] if name == "snli" else list(chances)[record["label"]]
        assert label == max(chances, key=chances.__getitem__)


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
    refusal(run("task", "eval", runs / "ner", runs / "sst5", "no-such-file"), "different tasks")
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
    printed(*command, "--tagger", tmp_path / "pipeline")
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
