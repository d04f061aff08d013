"""The command line: what goes wrong is one line that names file, value and remedy, and exit code 2.

Nothing is lost or half-written then. Every verb also does its work once, on a tiny model.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from command import printed, run, run_fresh
from refusals import refusal
from small_run import TINY, texts

from elmo import cli
from elmo.formats import Model, allennlp, native
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lm_head import LmHead
from elmo.model.lstm import LstmConfig
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import SPECIAL, Vocabulary

CONFIG = BiLMConfig(
    LstmConfig(dim=6, projection_dim=4), CharCnnConfig(embedding_dim=3, filters=((1, 4), (2, 5)), n_highway=1)
)
FILE_LIMIT = 40_000
CUT_GZIP = gzip.compress(b"the oak\n" * 1000, mtime=0)[:30]  # of no date: the same in every process


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """`native`, `bare` (without softmax and vocabulary) and `published`."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    vocabulary = Vocabulary((*SPECIAL, "the", "oak", "grows"))
    bilm, text = BiLM(CONFIG).state_dict(), TextConfig("whitespace", "line")
    native.save(Model(CONFIG, bilm, LmHead(6, 4).state_dict(), vocabulary, text), folder / "native")
    native.save(Model(CONFIG, bilm), folder / "bare")
    allennlp.save(Model(CONFIG, bilm), folder / "published")
    return folder


@pytest.fixture
def lines(tmp_path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("the oak grows\n\nthe elm\n", encoding="utf-8")
    return path


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rows(path: Path) -> list[np.ndarray]:
    with h5py.File(path) as file:
        count = sum(str(name).isdigit() for name in file)
        return [np.asarray(file[str(row)]) for row in range(count)]


def test_version():
    assert printed("--version").startswith("elmo-torch 0.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("dance", "'dance'; embed, "),
        ("emebd text.txt", "'emebd'; mean embed?"),
        ("help embed", "'help'; mean --help?"),
        ("version", "'version'; mean --version?"),
        ("embed", "FILE; elmo embed --help"),
        ("embed text.txt", "text.txt; --output"),
        ("embed a.txt b.npz --zzz", "--zzz; elmo embed --help"),
        ("embed a.txt b.npz --state ecko", "'ecko'; mean echo?"),
        ("embed a.txt b.hdf5 --pool average", "--pool; 'average'; mean, max, sum"),
        ("embed a.txt b.hdf5 --lines --pretokenized", "--lines; --pretokenized; elmo embed --help"),
        ("embed a.txt b.hdf5 --layres top", "--layres; mean --layers?"),
        ("info a b=c", "b=c"),
        ("neighbors play text.txt", "text.txt; --text text.txt"),
        ("neighbors play --layer top", "--layer; 'top'; elmo neighbors --help"),
        ("probe sense", "'sense'; mean senses?"),
        ("models norwgian", "'norwgian'; mean norwegian?"),
        ("train --epochs 3", "--epochs; epochs=3"),
        ("train --lr=0.1", "--lr; optim.lr=0.1"),
        ("train --lr --quiet", "--lr; optim.lr=VALUE"),
        ("train --outptu run", "--outptu; mean --output?"),
        ("train --train a.txt streams=4 --output r --sheed=3", "--sheed=3"),
        ("train --train a.txt streams=4 --output r seed", "seed"),
        ("types a.txt b.txt --output c.txt", "a.txt b.txt; 2 inputs"),
        ("types a.txt b.hdf5", "b.hdf5; word2vec; words.txt"),
        ("types a.txt b.txt.gz", "b.txt.gz; word2vec; words.txt"),
        ("types a.txt", "output; a.txt; --output"),
    ],
)
def test_a_wrong_command_is_one_line_with_what_was_meant(arguments, words):
    refusal(run(*arguments.split()), *words.split("; "))


@pytest.mark.parametrize("command", ["embed {} v.hdf5", "score {}", "neighbors play --text {}", "perplexity {}"])
def test_a_table_or_a_text_in_the_place_of_a_file_is_refused(tmp_path, command):
    table = tmp_path / "my.csv"
    table.write_text("id,text\n1,The oak grows.\n", encoding="utf-8")
    refusal(run(*command.format(table).split()), table, "is a table", f"read_csv({str(table)!r})", ".txt")
    if not command.startswith("perplexity"):  # which reads patterns
        given = [each if each != "{}" else "The oak grows." for each in command.split()]
        refusal(run(*given), "The oak grows.", "write it to a file")


def test_a_value_of_a_million_characters_is_cut(tmp_path, models):
    folder = shutil.copytree(models / "native", tmp_path / "m")
    content = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].replace(b'"F32"', b'"' + b"x" * 1_000_000 + b'"', 1)
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])
    done = run("info", folder)
    refusal(done, folder / "model.safetensors", "xxx", "copy it again")
    assert len(done.stderr) < 3000


@pytest.mark.parametrize("size", [9999999999999, 2**62, 2**61 - 1])
def test_a_lack_of_memory_is_one_line(lines, tmp_path, size):
    """More than any machine can address, so no system promises it, or more than 64 bits can count."""
    done = run("train", "--train", lines, "--pretokenized", "--output", tmp_path / "run", f"model.lstm.dim={size}")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "out of memory" in done.stderr
    assert "smaller model" in done.stderr


@pytest.mark.parametrize(
    "problem",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79 GiB"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_a_gpu_that_is_full_is_one_line(problem, capsys, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr("elmo.pretraining.train.pretrain", full)
    with pytest.raises(SystemExit, match="1"):
        cli.main(["train", "english-small", "--train", "text.txt", "--output", "run"])
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "2.50 GiB more" in error or "2.50" not in str(problem)
    assert "smaller batches" in error


@pytest.mark.slow
def test_new_interpreter_does_what_the_tests_fork(models, lines, tmp_path):
    done = run_fresh("embed", lines, tmp_path / "v.hdf5", "--model", models / "native")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / 'v.hdf5'}: 3 sentences, 5 tokens\n"
    refusal(run_fresh("embed", tmp_path / "none.txt", tmp_path / "w.hdf5", "--model", models / "native"), "none.txt")


# Embed


@pytest.mark.parametrize(("model", "suffix"), [("native", "txt.gz"), ("bare", "txt"), ("published", "txt")])
def test_embed_gives_the_same_vectors_whatever_holds_model_and_text(models, lines, tmp_path, model, suffix):
    source = tmp_path / f"again.{suffix}"
    content = lines.read_bytes()
    source.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    for path, name in ((lines, "native"), (source, model)):
        printed("embed", path, tmp_path / f"{name}.h5", "--model", models / name, "--pretokenized", "--overwrite")
    for one, other in zip(rows(tmp_path / "native.h5"), rows(tmp_path / f"{model}.h5"), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("command", "content", "parts"),
    [
        ("embed none.txt v.hdf5 --model MODEL", None, "none.txt; No such file"),
        ("embed latin.txt v.hdf5 --model MODEL", b"the oak\ncaf\xe9\n", "latin.txt; line 2; 0xe9; iconv"),
        ("train --train none.txt", None, "none.txt; matches no file"),
        ("train --train blank.txt", b" \n\n \t\n", "blank.txt; no words"),
        ("train --train latin.txt", b"the oak\ncaf\xe9 .\n", "latin.txt; line 2; iconv"),
        ("train --train cut.gz", CUT_GZIP, "cut.gz; damaged"),
        ("train --train lines.txt --heldout blank.txt", b"\n \n", "blank.txt; no words"),
        ("train --train lines.txt other.txt", b"the elm\n", "other.txt; quotes"),  # a pattern as the shell expands it
        ("train --train tagged.conllu", b"1\tthe\n", "tagged.conllu"),  # its markup would become words
        ("perplexity tagged.conllu --model MODEL", b"1\tthe\n", "tagged.conllu"),
        ("score tagged.conllu --model MODEL", b"1\tthe\n", "tagged.conllu"),
        ("train none.toml --train a.txt", None, "none.toml; no such file; english-small"),
        ("train bad.toml --train a.txt", b"streams = = 4\n", "bad.toml; not valid TOML; line 1"),
        ("train latin.toml --train a.txt", b"output = 'caf\xe9'\n", "latin.toml; UTF-8"),
    ],
)
def test_files_that_cannot_be_read_are_refused(models, lines, tmp_path, monkeypatch, command, content, parts):
    monkeypatch.chdir(tmp_path)
    name, *words = parts.split("; ")
    if content is not None:
        Path(name).write_bytes(content)
    before = files(tmp_path)
    given = command.replace("MODEL", str(models / "native")).split()
    more = ("--pretokenized", "--output", "run") if given[0] == "train" else ()
    refusal(run(*given, *more), name, *words)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("output", "flags", "parts"),
    [
        ("there.hdf5", (), ("there.hdf5", "exists", "--overwrite")),
        ("v.txt", (), ("v.txt", ".hdf5", ".npz", ".parquet")),
        ("none/v.hdf5", (), ("none", "does not exist", "create it")),
        ("v.hdf5", ("--layers", "bottom"), ("layers", "'bottom'", "average")),
        ("v.hdf5", ("--batch-tokens", "0"), ("batch_tokens", "0", "at least 1")),
        ("v.hdf5", ("--device", "abacus"), ("device", "'abacus'", "cpu")),
    ],
)
def test_embed_refuses_arguments(models, lines, tmp_path, output, flags, parts):
    (tmp_path / "there.hdf5").write_bytes(b"of yesterday")
    before = files(tmp_path)
    refusal(run("embed", lines, tmp_path / output, "--model", models / "native", *flags), *parts)
    assert files(tmp_path) == before


# Models


def damaged(models: Path, folder: Path, name: str) -> Path:
    """A copy of a model with something wrong."""
    kind, problem = name.split("-")
    copy = Path(shutil.copytree(models / kind, folder / name))
    weights = next(path for path in copy.iterdir() if path.suffix in (".hdf5", ".safetensors"))
    options = next(path for path in copy.iterdir() if path.suffix == ".json")
    if problem == "cut":
        weights.write_bytes(weights.read_bytes()[:-1000])
    elif problem == "gone":
        weights.unlink()
    elif problem == "misfit":
        options.write_text(options.read_text().replace('"dim": 6', '"dim": 12'), encoding="utf-8")
    return copy


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("native-gone", ("model.safetensors", "no such file")),
        ("native-misfit", ("model.safetensors", "(2, 24, 4)", "(2, 48, 4)", "config.json")),
        ("published-cut", (".hdf5", "bytes")),
    ],
)
@pytest.mark.parametrize("verb", ["embed", "info", "convert"])
def test_models_that_cannot_be_read_are_refused(models, lines, tmp_path, name, parts, verb):
    model = damaged(models, tmp_path, name)
    before = files(tmp_path)
    arguments = {
        "embed": ("embed", lines, tmp_path / "v.hdf5", "--model", model),
        "info": ("info", model),
        "convert": ("convert", model, tmp_path / "converted"),
    }[verb]
    refusal(run(*arguments), *parts)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "verb", [("info",), ("perplexity", "a.txt", "--model"), ("embed", "a.txt", "v.npz", "--model")], ids=lambda v: v[0]
)
def test_model_that_does_not_exist(verb, tmp_path):
    refusal(run(*verb, tmp_path / "nowhere"), tmp_path / "nowhere", "no such file or folder", "packaged")


def test_info_and_convert(models, tmp_path):
    found = json.loads(printed("info", models / "native", "--json"))
    assert (found["format"], found["vector size"], found["vocabulary"]) == ("elmo-torch", 8, 6)
    assert str(models / "native") in printed("info", models / "native")
    printed("convert", models / "native", tmp_path / "a")
    printed("convert", tmp_path / "a", tmp_path / "b")
    one, other = native.load(models / "bare"), native.load(tmp_path / "b")
    assert one.config == other.config
    assert all(torch.equal(weight, other.weights[name]) for name, weight in one.weights.items())
    said = printed("convert", models / "native", tmp_path / "d", "--to", "allennlp")
    assert all(word in said for word in ("softmax", "vocabulary", "tokenizer")), said
    native.save(replace(one, card={"license": "cc0-1.0", "options": {}}), tmp_path / "card")
    assert "without the card" in printed("convert", tmp_path / "card", tmp_path / "e")
    native.save(replace(one, card={"options": {}}), tmp_path / "none")
    assert printed("convert", tmp_path / "none", tmp_path / "f").endswith("written as allennlp\n")
    refusal(run("convert", models / "native", tmp_path / "a"), tmp_path / "a", "exists", "--overwrite")
    refusal(run("convert", models / "native", tmp_path / "c", "--to", "allennlp", "--store", "int8"), "--store", "omit")
    assert printed("convert", models / "native", tmp_path / "g", "--store", "float16").endswith("as native\n")
    assert json.loads(printed("info", tmp_path / "g", "--json"))["stored as"] == "float16"


# Other verbs


def test_perplexity_refuses(models, tmp_path, lines):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n", encoding="utf-8")
    refusal(run("perplexity", lines, "--model", models / "bare"), "no softmax", "elmo train")
    refusal(run("perplexity", empty, "--model", models / "native"), empty, "no text")
    refusal(run("perplexity", tmp_path / "*.none", "--model", models / "native"), "*.none", "matches no file")
    refusal(run("perplexity", lines, "--max-words", "0", "--model", models / "native"), "max_words is 0", "at least 1")
    refusal(run("perplexity", lines, "--device", "abacus", "--model", models / "native"), "'abacus'", "cpu")


def test_neighbors(models, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the oak grows\nthe old oak\nan oak\n", encoding="utf-8")
    more = ("--text", text, "--model", models / "native")
    assert printed("neighbors", "oak", *more, "-k", "1").count("[oak]") == 6
    shown = printed("neighbors", "an oak fell", "--word", "oak", *more, "-k", "2")
    assert shown.startswith("oak, by layer 2:\nan [oak] fell\n")
    refusal(run("neighbors", "quince", *more), text, "'quince'", "not occur")
    refusal(run("neighbors", "an oak", "--word", "elm", *more), "'elm'", "'an oak'")


def test_senses(models, tmp_path):
    data = tmp_path / "senses.tsv"
    head = "word\tsense\tindex\tsentence\n"
    rows = [("oak", "tree", 1, "an oak grows"), ("oak", "wood", 1, "of oak"), ("oak", "tree", 1, "the oak fell")]
    data.write_text(head + "".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    asked = ["probe", "senses", "--data", data, "--model", models / "native", "--json", "--output", tmp_path / "out"]
    rows = [json.loads(line) for line in printed(*asked).splitlines()]
    assert [row["layer"] for row in rows] == [0, 1, 2]
    kept = json.loads((tmp_path / "out" / "record.json").read_text(encoding="utf-8"))
    assert kept["rows"] == rows
    assert kept["argv"] == ["elmo", *map(str, asked)]
    refusal(run(*asked), tmp_path / "out", "--overwrite")
    printed(*asked[:-2], "--state", "echo", "--output", tmp_path / "echo")
    assert json.loads((tmp_path / "echo" / "record.json").read_text())["settings"]["state"] == "echo"
    data.write_text(head + "oak\ttree\tan oak grows\n", encoding="utf-8")
    refusal(run("probe", "senses", "--data", data, "--model", models / "native"), data, "2")
    refusal(run("probe", "senses", "--data", tmp_path / "none", "--model", models / "native"), tmp_path / "none")


# Train


REFUSED = {
    "streams=many": "streams; 'many'; whole number",
    "streams=0": "streams; 0; at least 1",
    "stream=4": "unknown key 'stream'; streams",
    "optim.rate=1": "unknown key 'optim.rate'; lr",
    "optim.name=sgd": "optim.name; 'sgd'; 'adamw', 'muon', 'adagrad'",
    "optim.betas=[2,3]": "from 0 to less than 1",
    "optim.weight_decay=-0.1": "at least 0",
    "optim.initial_accumulator=-1": "at least 0",
    "loop.log_steps=0": "loop.log_steps; 0; at least 1",
    "optim.decay=1.5": "at most 1",
    "objective.reset_probability=-1": "at least 0",
    "loop.checkpoint_minutes=-1": "at least 0",
    "objective.dropout=1.5": "objective.dropout; 1.5; less than 1",
    "objective.loss_scale=-1": "above 0",
    "objective.loss_scale=nan": "a finite number",
    "model.lstm.dim=0": "dim; 0; at least 1",
    "model.char_cnn.n_characters=261": "at least 262",
    "model.char_cnn.max_characters_per_token=10001": "at most 10000",
    "accelerator=abacus": "accelerator; 'abacus'",
    "devices=3": "streams is 4; a multiple of 3 processes",
    "vocab=none.txt": "none.txt; No such file",
    "vocab_size=3": "vocab_size is 3; at least 4",
    "min_count=100000": "lower min_count",
    "epochs=nan": "a finite number",
    "epochs=inf": "a finite number",
    "epochs=-1": "above 0",
    "epochs=1e308": "32 bits",
    "max_words=0": "at least 1",
    "evaluate_words=0": "at least 1",
    "window=0": "at least 1",
    "seed=99999999999999": "to less than",
    "text.tokens=spacy text.language=tlh": "language 'tlh'; 'xx'",
    "--heldout none.txt": "none.txt; matches no file",
}


@pytest.mark.parametrize("settings", REFUSED)
def test_train_refuses_settings_and_leaves_nothing(tmp_path, settings):
    given = texts(tmp_path)
    before = files(tmp_path)
    done = run("train", *given, *TINY, "--quiet", "--output", tmp_path / "run", *settings.split())
    refusal(done, *REFUSED[settings].split("; "))
    assert files(tmp_path) == before
    assert not (tmp_path / "run").exists()


def test_train_refuses_outputs(tmp_path):
    given = texts(tmp_path)
    full, file = tmp_path / "full", tmp_path / "file"
    full.mkdir()
    (full / "letter.txt").write_text("mine", encoding="utf-8")
    file.write_text("mine", encoding="utf-8")
    before = files(tmp_path)
    refusal(run("train", *given, *TINY, "--output", full), full, "holds no run", "another --output")
    refusal(run("train", *given, *TINY, "--output", file), file, "is a file", "name a folder")
    refusal(run("train", *given, *TINY), "--output is missing", "for example")
    refusal(run("train", *given, *TINY, "--resume"), "--resume needs --output")
    refusal(run("train", "--output", full), "--train is missing")
    assert files(tmp_path) == before


def test_settings_and_flags_may_be_mixed():
    mixed = ("english-small", "--train", "a.txt", "streams=4", "--output", "r", "seed=3")
    shown = json.loads(printed("train", *mixed, "--print-config"))
    assert (shown["streams"], shown["seed"]) == (4, 3)
    bare = json.loads(printed("train", "--print-config"))
    assert (bare["train"], bare["output"]) == (["TRAIN"], "OUTPUT"), "only their names"


# A full disk (in elmo.embedding and elmo.formats: test_embedding_full_disk.py)


def test_train_on_a_full_disk_can_be_resumed(tmp_path):
    """Under the limit on a file's size: system calls fail as on a full disk. The metrics are the first to reach it."""
    settings = ("max_words=2600", "optim.name=adagrad", "loop.log_steps=1", "loop.checkpoint_steps=20")
    arguments, variables = (*texts(tmp_path), *TINY, *settings), {"FILE_SIZE_LIMIT": "16000"}
    done = run("train", *arguments, "--quiet", "--output", tmp_path / "run", variables=variables)
    refusal(done, tmp_path / "run", "File too large", "--resume")
    assert list((tmp_path / "run" / "checkpoints").glob("step-*"))
    printed("train", "--resume", "--output", tmp_path / "run")


def test_train_on_a_full_disk_at_a_checkpoint(tmp_path):
    arguments = (*texts(tmp_path), *TINY, "max_words=400", "loop.checkpoint_steps=7", "model.lstm.dim=300")
    variables = {"FILE_SIZE_LIMIT": str(FILE_LIMIT)}
    done = run("train", *arguments, "--quiet", "--output", tmp_path / "run", variables=variables)
    refusal(done, tmp_path / "run" / "checkpoints", "model.safetensors", "File too large", "--resume")
    assert not list((tmp_path / "run" / "checkpoints").glob("step-*"))


def by_shell(command: str, before: str = "true") -> "subprocess.CompletedProcess[str]":
    line = f"{before} && exec {sys.executable} -m elmo {command}"
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_error(closed: str) -> None:
    done = by_shell(f"info {closed}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", ["models --json", "models", "info --json", "--help", "--version"])
def test_a_full_standard_output_is_one_line(arguments: str) -> None:
    refusal(by_shell(f"{arguments} > /dev/full"), "standard output", "space")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(("words", "code"), [("info no-such-model", 2), ("embed text.txt v.npz --model m", 0)])
def test_a_full_log_ends_no_command(tmp_path: Path, models: Path, words: str, code: int) -> None:
    shutil.copytree(models / "native", tmp_path / "m")
    (tmp_path / "text.txt").write_text("They play .\n")  # how it was split is not known, which is a warning
    assert by_shell(f"{words} 2> /dev/full", f"cd {tmp_path}").returncode == code


def test_a_current_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    refusal(by_shell("embed text.txt vectors.npz", f"cd {tmp_path}/gone && rmdir ../gone"), "current folder", "cd")


def test_empty_names_of_files_are_refused(tmp_path: Path, monkeypatch) -> None:
    """An empty name would be the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("They play .\n")
    for setting, word in (("vocab", "vocab"), ("ids", "ids"), ("init_from", "model")):
        refusal(run("train", "--train", "text.txt", "--output", "run", f"{setting}="), word, "give another")
    refusal(run("train", "--train", "", "--output", "run"), "text", "give another")
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_locale_without_letters_shows_escapes(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("They play \u00e9t\u00e9 .\n", encoding="utf-8")
    variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run_fresh("score", tmp_path / "text", "--pretokenized", env=os.environ | variables)
    assert done.returncode == 0, done.stderr
    assert "\\xe9t\\xe9" in done.stdout


def run_main(prepare: str, verb: str) -> "subprocess.CompletedProcess[str]":
    """`python -m elmo` with a verb, in a process that was prepared."""
    program = (
        "import runpy, signal, sys, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"{prepare}\nsys.argv = ['elmo', {verb!r}]\nrunpy.run_module('elmo', run_name='__main__')"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


CALLBACK = """
import elmo.cli
class Refused(Exception):
    code = 403
class Ends:
    def __del__(self): {}
def run(_):
    Ends()
    time.sleep({})
    print('done')
elmo.cli.models.info_verb = run
"""
"""A program that is interrupted in a callback, as of a weak reference: Python prints and ignores what it raises."""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_in_a_callback_is_not_lost(number: str, code: int) -> None:
    done = run_main(CALLBACK.format(f"signal.raise_signal(signal.{number})", 60), "info")
    assert (done.returncode, done.stderr) == (code, "elmo: error: interrupted\n" if code == 130 else "")


@pytest.mark.parametrize("end", ["sys.exit(3)", "sys.exit('reason')", "raise Refused"])
def test_an_error_in_a_callback_is_no_signal(end: str) -> None:
    """Python prints it and goes on, as without elmo."""
    done = run_main(CALLBACK.format(end, 0.2), "info")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("Traceback") == 1


@pytest.mark.parametrize("module", ["elmo.cli", "elmo.bench.job"])
def test_ctrl_c_while_importing_is_one_line(module: str) -> None:
    finder = (
        "class Interrupt:\n    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: signal.raise_signal(signal.SIGINT)\nsys.meta_path.insert(0, Interrupt())"
    )
    done = run_main(finder, "bench")
    assert (done.returncode, done.stderr) == (130, "elmo: error: interrupted\n")
