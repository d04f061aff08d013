"""No command replaces what it reads, whatever option names the output and whatever names the input."""

import shutil
from pathlib import Path

import pytest
from command import printed, run
from links import link
from refusals import refusal, refused
from tiny import tiny_model, write_tiny

from elmo.disk.files import check_distinct
from elmo.formats import native

SENSES = "word\tsense\tindex\tsentence\n" + "".join(
    f"{word}\t{sense}\t1\tThe {word} {sense} {number} .\n"
    for word in ("play", "bank")
    for sense in ("a", "b")
    for number in range(3)
)
TEXT = "They play chess .\nThe play opened .\n"
VECTORS = "play 1 2\nchess 2 1\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    """A working directory with a model in both layouts, a text, labelled senses, vectors, and a result."""
    native.save(tiny_model(), tmp_path / "model")
    write_tiny(tmp_path / "published")
    for name, content in (("text.txt", TEXT), ("text.svg", TEXT), ("senses.svg", SENSES), ("vectors.svg", VECTORS)):
        (tmp_path / name).write_text(content)
    (tmp_path / "result.json").write_text('{"text": {}, "vocabulary": {}, "perplexity": {}}')
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "drawn.svg").write_text("of the user")
    (tmp_path / "index" / "index.json").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("neighbors play --text text.txt --vectors vectors.svg --figure vectors.svg", "vectors.svg"),
        ("neighbors play --text text.svg --figure hard.svg", "text.svg"),
        ("neighbors play --index index --figure index/drawn.svg", "index/drawn.svg"),
        ("demo --model model --output model/model.safetensors", "model/model.safetensors"),
        ("demo --model model/config.json --output model/model.safetensors", "model/model.safetensors"),
        ("types text.txt model/config.json --model model/model.safetensors", "model/config.json"),
        ("types text.txt published/options.json --model published/weights.hdf5", "published/options.json"),
        ("embed text.txt published/weights.hdf5 --model published/options.json", "published/weights.hdf5"),
        ("index index/index.json index --model model", "index/index.json"),
        ("probe senses --data senses.svg --figure link.svg --model model", "senses.svg"),
        ("probe senses --data index/record.json --output index --model model", "index/record.json"),
        ("report result.json --markdown result.json", "result.json"),
        ("report result.json --markdown ./index/../result.json", "result.json"),
        ("embed v.npz.parts/text.txt v.npz --model model --pretokenized --resume", "v.npz.parts/text.txt"),
        ("probe weights run --figure run.svg", "run/seed-1/result.json"),
        ("report results --markdown results/perplexity.json", "results/perplexity.json"),
        ("convert linked other --store float16", "other/model.safetensors"),
        ("types text.txt other/config.json --model linked", "other/config.json"),
    ],
)
def test_an_output_that_is_read_stays(place: Path, command: str, kept: str) -> None:
    shutil.copy("senses.svg", "index/record.json")
    link(Path("link.svg"), "senses.svg")
    Path("hard.svg").hardlink_to("text.svg")
    for folder in ("results", "v.npz.parts", "run/seed-1"):
        Path(folder).mkdir(parents=True)
    shutil.copy("text.txt", "v.npz.parts")
    shutil.copy("result.json", "run/seed-1")
    link(Path("run.svg"), "run/seed-1/result.json")
    shutil.copy("result.json", "results/perplexity.json")
    shutil.copytree("model", "other")
    Path("linked").mkdir()
    for name in ("config.json", "model.safetensors"):  # as in the cache of the Hugging Face Hub
        link(Path("linked") / name, f"../other/{name}")
    before = Path(kept).read_bytes()
    done = run(*command.split(), "--overwrite")
    refusal(done, "input")
    assert Path(kept).read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        "embed text.txt v.npz --rows ./index/../v.npz --model model",
        "embed text.txt v.npz --rows ./index/../v.npz --model model --resume",
        "report result.json --output page.html --markdown ./page.html",
        "report result.json --output page-figures --markdown page.md",
        "probe senses --model model --output both.svg --figure both.svg",
    ],
)
def test_two_outputs_are_two_files(place: Path, command: str) -> None:
    before = sorted(place.iterdir())
    done = run(*command.split(), "--overwrite")
    refusal(done, "two outputs")
    assert sorted(place.iterdir()) == before


def test_outputs_within_each_other(tmp_path: Path) -> None:
    check_distinct(tmp_path / "one", None, tmp_path / "one.x")
    with refused("one/in"):
        check_distinct(tmp_path / "one", tmp_path / "one" / "in")


def test_a_probe_replaces_no_other_result(place: Path) -> None:
    """`elmo probe weights run --output run --overwrite` would replace the record of the run that it reads."""
    record = place / "run" / "record.json"
    printed("probe", "senses", "--data", "senses.svg", "--model", "model", "--output", "run")
    record.write_text(record.read_text().replace('"name": "senses"', '"name": "pos"'))
    before = record.read_bytes()
    done = run("probe", "senses", "--data", "senses.svg", "--model", "model", "--output", "run", "--overwrite")
    refusal(done, "run", "pos", "--output")
    assert record.read_bytes() == before
