"""A trained network on what training never saw: words, labels, text, and token lists by the Python API."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from command import run
from refusals import refusal, refused
from small_tasks import NER, SMALL, run_config, write_small
from tiny import write_tiny

from elmo import config as configs
from elmo.errors import InputError
from elmo_lab.tasks import coref, ner, readers, snli, squad, sst5, train
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.tagger import read_text
from elmo_lab.tasks.tagging import TagPrediction
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


def small_run(folder: Path, name: str) -> Path:
    """A network of any task, and what it learned from."""
    train.train_task(run_config(folder, name, name, inputs={"elmo": "none"}, training={"epochs": 1}), quiet=True)
    return folder / SMALL[name].file


UNLABELLED = {
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


@pytest.mark.parametrize("name", UNLABELLED)
def test_what_cannot_be_scored_is_neither_scored_nor_learned_from(tmp_path: Path, name: str) -> None:
    path = small_run(tmp_path, name)
    text, message = UNLABELLED[name]
    path = path.with_stem("other")
    path.write_text(text, encoding="utf-8")
    small = tmp_path / SMALL[name].file
    for arguments in (
        ("eval", tmp_path / name, path),
        ("train", name, "--train", small, "--dev", path, "--output", tmp_path / "new"),
    ):
        refusal(run("task", *arguments), f"{path}: {message}")


def test_roles_of_sentences_without_a_predicate_are_written_empty(tmp_path: Path) -> None:
    path = small_run(tmp_path, "srl")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"tokens": ["Rain"], "props": []}\n')
    out, text = tmp_path / "out.jsonl", tmp_path / "text.txt"
    assert run("task", "predict", tmp_path / "srl", path, out).returncode == 0
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


def test_a_training_without_an_epoch_is_told_of(tmp_path: Path) -> None:
    path = small_run(tmp_path, "ner")
    (tmp_path / "ner" / "seed-1" / "model.safetensors").unlink()
    refusal(run("task", "eval", tmp_path / "ner", path), "epoch")


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
