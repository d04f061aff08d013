"""The Hub's own mixin loads and saves our native layout, strictly; nothing here reaches for a network."""

import base64
import errno
import json
import math
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from command import run, run_program
from links import link
from places import DATA
from refusals import names, refusal, refused
from safetensors.torch import load_file, save_file
from tiny import CONFIG, tiny_model

from elmo import formats
from elmo.embedding.embedder import Embedder
from elmo.formats import Model, native
from elmo.model.bilm import BiLM
from elmo.model.lm_head import LmHead
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import SPECIAL, Vocabulary

pytest.importorskip("huggingface_hub")
from huggingface_hub import ModelCard, hub_mixin
from huggingface_hub.errors import LocalEntryNotFoundError

from elmo.formats import hub
from elmo.formats.hub import HubModel

SENTENCES = [["the", "oak", "grows"], [], ["oak"]]


@pytest.fixture
def model() -> Model:
    vocabulary = Vocabulary((*SPECIAL, "the", "oak", "grows"))
    card = {"name": "oak", "license": "cc0-1.0", "corpus": "a | b", "train": ["x", "y"], "perplexity": {"carry": 3}}
    return Model(
        CONFIG, BiLM(CONFIG).state_dict(), LmHead(6, 4).state_dict(), vocabulary, TextConfig("whitespace", "line"), card
    )


@pytest.fixture
def saved(model, tmp_path) -> Path:
    HubModel.of(model).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def same(one: Model, other: Model) -> None:
    assert replace(one, weights={}, lm_head=None) == replace(other, weights={}, lm_head=None)
    for ours, theirs in ((one.weights, other.weights), (one.lm_head or {}, other.lm_head or {})):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_saved_files_are_the_native_format_and_a_card(model, saved):
    assert {file.name for file in saved.iterdir()} == {"config.json", "model.safetensors", "vocab.txt", "README.md"}
    assert {path.name for path in saved.parent.iterdir()} == {"saved"}
    same(native.load(saved), model)
    card = ModelCard.load(saved / "README.md")
    assert (card.data.library_name, card.data.license) == ("elmo-torch", "cc0-1.0")
    assert {"elmo", "bilm"} <= set(card.data.tags)
    assert "# oak" in card.text
    assert "3 vectors of 8 numbers" in card.text
    assert "| corpus | a \\| b |\n| train | x, y |\n" in card.text
    assert "perplexity" not in card.text
    assert '.from_pretrained("user/name")' in card.text


@pytest.mark.parametrize(
    ("language", "sentence"),
    [("pt", '"Ela", "escreveu"'), ("ja", '"彼女"'), ("de-AT", '"Sie", "schrieb"'), ("tlh", '"She", "wrote"')],
)
def test_the_example_of_a_card_is_in_the_language_of_the_model(model, tmp_path, language, sentence):
    HubModel.of(replace(model, card={"language": language})).save_pretrained(tmp_path / "saved")
    assert f".embed([[{sentence}" in ModelCard.load(tmp_path / "saved" / "README.md").text


def test_what_the_native_format_saves_is_loaded(model, tmp_path):
    native.save(model, tmp_path / "native")
    loaded = HubModel.from_pretrained(tmp_path / "native")
    assert not loaded.training
    same(loaded.stored(), model)
    assert loaded.text == model.text
    vectors = Embedder(loaded, text=loaded.text, device="cpu").embed(SENTENCES)
    for ours, expected in zip(vectors, Embedder(model.bilm(), device="cpu").embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_saving_again_replaces_our_files_and_no_others(saved):
    """By those of a model without anything beside it."""
    (saved / "README.md").write_text("mine")
    (saved / "notes.txt").write_text("mine too")
    made = HubModel(CONFIG)
    made.save_pretrained(saved)
    assert (saved / "README.md").read_text() == "mine"
    assert (saved / "notes.txt").read_text() == "mine too"
    assert not (saved / "vocab.txt").exists()
    same(HubModel.from_pretrained(str(saved)).stored(), made.stored())


@pytest.fixture
def mounts(monkeypatch) -> None:
    """Each folder is a file system of its own."""
    replace_ = Path.replace

    def across(source: Path, target: Path) -> Path:
        if not source.resolve().is_relative_to(target.parent.resolve()):
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(source), None, str(target))
        return replace_(source, target)

    monkeypatch.setattr(Path, "replace", across)


@pytest.mark.parametrize("way", ["saved", "link", "saved/below/.."])
def test_a_folder_of_another_file_system_is_saved_to(saved, mounts, way):
    (saved / "below").mkdir()
    link(saved.parent / "link", saved)
    HubModel(CONFIG).save_pretrained(saved.parent / way)
    assert HubModel.from_pretrained(saved).beside.vocabulary is None
    assert {path.name for path in saved.iterdir()} == {"config.json", "model.safetensors", "README.md", "below"}


@pytest.mark.parametrize("step", ["write", "move"])
def test_a_step_that_fails_leaves_the_old_model(model, saved, monkeypatch, step):
    replace_ = Path.replace

    def fail(source: Any, target: Path, **_: object) -> Path:
        if step == "write" or target.parent == saved:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace_(source, target)

    owner, name = (native, "save") if step == "write" else (Path, "replace")
    monkeypatch.setattr(owner, name, fail)
    with refused("No space left", error=OSError):
        HubModel(CONFIG).save_pretrained(saved)
    monkeypatch.undo()
    same(native.load(saved), model)
    assert list(saved.parent.iterdir()) == [saved]


def put_bias(folder: Path, name: str, value: float) -> None:
    """Puts a bias of one number in the place of the first layer's, or beside it."""
    weights = load_file(folder / "model.safetensors")
    weights[f"bilm.layers.0.{name}"] = torch.full_like(weights["bilm.layers.0.bias"], value)
    save_file(weights, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "config.json").write_text('{"format": "elmo'), "config.json JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "config.json 'elmo-torch'"),
        (lambda folder: (folder / "config.json").unlink(), "config.json 'elmo-torch'"),
        (lambda folder: put_bias(folder, "extra", 1), "layers.0.extra"),
        (lambda folder: put_bias(folder, "bias", math.nan), "layers.0.bias NaN"),
    ],
    ids=["cut", "list", "no config", "another weight", "not a number"],
)
def test_a_folder_is_read_strictly(saved, damage, words):
    damage(saved)
    with refused(*words.split()):
        HubModel.from_pretrained(saved)


def test_options_that_would_loosen_it_or_have_no_effect_are_refused(saved):
    for option in ("strict", "config", "proxies"):
        with refused(option, "revision"):
            HubModel.from_pretrained(saved, **{option: None})


# The Hub, played by functions


@pytest.fixture
def remote(saved, monkeypatch, tmp_path) -> list[dict[str, object]]:
    """`user/name` holds the saved model; the calls that reach the Hub's library."""
    calls: list[dict[str, object]] = []

    def snapshot_download(repo_id: str, **options: Any) -> str:
        calls.append({"repo_id": repo_id, **options})
        if options.get("local_files_only"):
            raise LocalEntryNotFoundError("not cached")
        patterns = options["allow_patterns"]
        folder = tmp_path / "snapshot"
        shutil.copytree(saved, folder, ignore=lambda _, names: [name for name in names if name not in patterns])
        return str(folder)

    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    return calls


def test_from_pretrained_by_name(model, remote, tmp_path):
    same(HubModel.from_pretrained("user/name", revision="v2", token="secret").stored(), model)
    for call in remote:
        assert (call["repo_id"], call["revision"], call["token"]) == ("user/name", "v2", "secret")
    assert {file.name for file in (tmp_path / "snapshot").iterdir()} == {
        "config.json",
        "model.safetensors",
        "vocab.txt",
    }


@pytest.mark.parametrize("kind", ["both", "characters", "words"])
def test_models_with_words_of_their_own_come_back_and_embed_as_the_card_says(saved, remote, kind):
    theirs = formats.load(DATA / "many_langs" / kind)
    HubModel.of(theirs).save_pretrained(saved, push_to_hub=False)
    model = HubModel.from_pretrained("user/name")
    same(model.stored(), theirs)
    given = Embedder(model, text=model.text, vocabulary=model.vocabulary).embed(SENTENCES)
    expected = Embedder(theirs.bilm(), vocabulary=theirs.inputs).embed(SENTENCES)
    for ours, wanted in zip(given, expected, strict=True):
        np.testing.assert_array_equal(ours, wanted)
    assert "vocabulary=model.vocabulary" in (saved / "README.md").read_text(encoding="utf-8")


def test_offline_is_passed_on(remote, monkeypatch):
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    with refused("user/name", "not a folder", "not cached"):
        HubModel.from_pretrained("user/name")
    assert remote
    assert all(call["local_files_only"] is True for call in remote)


def test_names_that_the_hub_cannot_have():
    for name in ("no/such/folder", "user/../name", ""):
        with refused("not a folder", "Hub"):
            HubModel.from_pretrained(name)


@pytest.fixture
def uploaded(monkeypatch) -> dict[str, Any]:
    """What was pushed last."""
    uploaded: dict[str, Any] = {}

    class Api:
        def __init__(self, token: str | None) -> None:
            uploaded["token"] = token

        def create_repo(self, repo_id: str, **options: object) -> object:
            if repo_id == "user/refused":
                raise OSError("refused")
            return type("Made", (), {"repo_id": repo_id})

        def upload_folder(self, folder_path: Path, **options: object) -> str:
            uploaded.update(
                options, files={file.name: file.read_text("latin-1") for file in Path(folder_path).iterdir()}
            )
            return "https://example.org/commit"

    monkeypatch.setattr(hub_mixin, "HfApi", Api)
    return uploaded


def test_push_uploads_the_four_files(model, uploaded):
    pushed = HubModel.of(model).push_to_hub("user/oak", token="secret", commit_message="Grow")
    assert pushed == "https://example.org/commit"
    assert (uploaded["repo_id"], uploaded["token"], uploaded["commit_message"]) == ("user/oak", "secret", "Grow")
    files = uploaded["files"]
    assert set(files) == {"config.json", "model.safetensors", "vocab.txt", "README.md"}
    assert json.loads(files["config.json"])["format"] == "elmo-torch"
    assert '.from_pretrained("user/oak")' in files["README.md"]


def test_saving_pushes_last_so_that_a_refused_push_keeps_the_files(model, uploaded, tmp_path):
    made, options = HubModel.of(model), {"push_to_hub": True, "model_card_kwargs": {"title": "Mine"}}
    with pytest.raises(OSError, match="refused"):
        made.save_pretrained(tmp_path / "oak", repo_id="user/refused", **options)
    same(native.load(tmp_path / "oak"), model)
    assert made.save_pretrained(tmp_path / "oak", token="secret", **options) == "https://example.org/commit"
    assert (uploaded["repo_id"], uploaded["token"]) == ("oak", "secret")
    assert "# Mine\n" in uploaded["files"]["README.md"]
    assert "# Mine\n" in (tmp_path / "oak" / "README.md").read_text(encoding="utf-8")


def test_without_the_extra_the_error_has_the_pip_line():
    program = "import sys; sys.modules['huggingface_hub'] = None\nfrom elmo import *\nimport elmo\nelmo.HubModel"
    done = run_program(program)
    names(done.stderr.splitlines()[-1], "pip install", "[hub]")
    assert done.returncode == 1


# elmo push


class FakeHub(BaseHTTPRequestHandler):
    """What the Hub's library asks of it for a push; files come in the commit itself."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[tuple[str, str]]] = []
    commit: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, self.headers["Authorization"]))
        if self.headers["Authorization"] != "Bearer secret":
            return self.answer(401, {"error": "Invalid credentials"})
        if self.path == "/api/repos/create":
            name = "/".join(filter(None, (json.loads(body).get("organization"), json.loads(body)["name"])))
            return self.answer(200, {"url": f"http://{self.headers['Host']}/{name}", "name": name})
        if self.path == "/api/validate-yaml":
            if "license: cc-by\n" in json.loads(body)["content"]:
                return self.answer(400, {"errors": [{"message": '"license" must be one of [mit]'}], "warnings": []})
            return self.answer(200, {"errors": [], "warnings": []})
        if self.path == "/api/models/user/oak/preupload/main":
            files = [{**file, "uploadMode": "regular", "shouldIgnore": False} for file in json.loads(body)["files"]]
            return self.answer(200, {"files": files})
        assert self.path == "/api/models/user/oak/commit/main"
        self.commit.extend(json.loads(line) for line in body.splitlines())
        url = f"http://{self.headers['Host']}/user/oak/commit/1"
        return self.answer(200, {"commitUrl": url, "commitOid": "1", "pullRequestUrl": None})

    def answer(self, status: int, content: dict[str, Any]) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def endpoint(tmp_path) -> Iterator[dict[str, str]]:
    """The variables of a command that takes the fake for the Hub."""
    FakeHub.asked.clear()
    FakeHub.commit.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeHub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
        yield {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "no_proxy": "127.0.0.1", **home}
        server.shutdown()


@pytest.fixture
def prepared(tmp_path) -> Callable[..., str]:
    """The README that a push of this model would make, beside what else it sends."""

    def readme(path: Path, license: str | None = None, language: str | None = None) -> str:
        shutil.rmtree(tmp_path / "made", ignore_errors=True)
        (tmp_path / "made").mkdir()
        hub.prepare(path, "user/oak", tmp_path / "made", license, language)
        return (tmp_path / "made" / "README.md").read_text(encoding="utf-8")

    return readme


@pytest.fixture
def trained(model, tmp_path) -> Path:
    """A folder with the record that `elmo train` writes."""
    card = {
        "made_by": "elmo train",
        "words_read": 125002240,
        "train": ["wiki.*"],
        "heldout": ["valid.txt"],
        "perplexity": {"carry": {"mean": 63.487}, "reset": {"mean": 73.796, "tokens": 20000}},
    }
    (tmp_path / "run").mkdir()
    native.save(replace(model, card=card, text=TextConfig("spacy", "rule", "nb")), tmp_path / "run" / "model")
    return tmp_path / "run"


def test_push_sends_the_model_and_a_card_of_its_own_record(trained, endpoint):
    done = run("push", trained, "user/oak", "--license", "cc0-1.0", variables={**endpoint, "HF_TOKEN": "secret"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"{endpoint['HF_ENDPOINT']}/user/oak/commit/1"
    sent = {line["value"]["path"]: line["value"]["content"] for line in FakeHub.commit if line["key"] == "file"}
    for name in ("config.json", "model.safetensors", "vocab.txt"):
        assert base64.b64decode(sent.pop(name)) == (trained / "model" / name).read_bytes()
    card = ModelCard(base64.b64decode(sent.pop("README.md")).decode())
    assert not sent
    assert (card.data.library_name, card.data.license, card.data.language) == ("elmo-torch", "cc0-1.0", "nb")
    assert card.data.pipeline_tag == "feature-extraction"
    assert "# oak\n" in card.text
    for row in (
        "| words read | 125,002,240 |",
        "| train | wiki.* |",
        "| perplexity on the held-out text | 63.5 with carried state, 73.8 sentence by sentence |",
    ):
        assert row in card.text
    assert {header for _, header in FakeHub.asked} == {"Bearer secret"}


def test_a_dry_run_shows_what_would_be_sent_and_asks_nobody(trained, endpoint):
    done = run("push", trained, "user/oak", "--dry-run", variables=endpoint)
    assert done.returncode == 0, done.stderr
    size = (trained / "model" / "model.safetensors").stat().st_size
    assert re.search(rf"^    model\.safetensors +{size:,} bytes$", done.stdout, re.MULTILINE)
    assert "library_name: elmo-torch" in done.stdout
    assert "license" not in done.stdout
    assert not FakeHub.asked
    refusal(run("push", trained.parent, "user/oak", "--dry-run"), "not a known model")


def test_a_readme_beside_the_model_is_the_text_of_the_card(trained, prepared):
    readme, text = trained / "model" / "README.md", "---\nlicense: mit\n---\n# Größe\n"
    readme.write_text("# My oak\n", encoding="utf-8")
    card = ModelCard(prepared(trained, language="nn"))
    assert (card.data.language, card.text.strip()) == ("nn", "# My oak")
    for encoding in ("utf-8", "utf-8-sig"):
        readme.write_text(text, encoding=encoding)
        assert prepared(trained) == text
    for given in ({"license": "cc0-1.0"}, {"language": "nn"}):
        with refused("README.md", "header"):
            prepared(trained, **given)
    readme.write_text(text, encoding="latin-1")
    with refused("README.md", "byte 25", "UTF-8"):
        prepared(trained)


def test_another_licence_than_that_of_the_card_is_refused(tmp_path, prepared):
    native.save(replace(tiny_model(), card={"license": "CC BY-SA 3.0"}), tmp_path / "model")
    assert "license: cc-by-sa-3.0\n" in prepared(tmp_path / "model", "cc-by-sa-3.0")
    with refused("model", "CC BY-SA 3.0", "mit", "elmo convert"):
        prepared(tmp_path / "model", "mit")


def test_what_is_sent_was_checked_even_if_the_model_is_replaced_meanwhile(trained, prepared, tmp_path, monkeypatch):
    load, weights = formats.load, trained / "model" / "model.safetensors"
    whole = weights.read_bytes()

    def load_before_a_change(path: Path) -> Model:
        model = load(path)
        weights.write_bytes(whole[:-1])
        return model

    monkeypatch.setattr(formats, "load", load_before_a_change)
    prepared(trained)
    assert (tmp_path / "made" / "model.safetensors").read_bytes() == whole
    monkeypatch.undo()
    with refused(weights):  # it is damaged now
        prepared(trained)


def test_a_model_of_another_format_is_sent_as_ours_with_the_texts_beside_it(tmp_path, prepared):
    source = shutil.copytree(DATA / "many_langs" / "both", tmp_path / "theirs")
    assert ModelCard(prepared(source)).data.get("language") is None
    same(native.load(tmp_path / "made"), formats.load(source))
    (source / "LICENSE").write_text("CC0", encoding="utf-8")
    (source / "README.md").write_text("# Theirs\n", encoding="utf-8")
    assert "# Theirs\n" in prepared(source)
    assert (tmp_path / "made" / "LICENSE").read_text(encoding="utf-8") == "CC0"


CODES = [("nb", "de", "nb"), ("pt-BR", "de", "pt"), ("EN", "de", "en"), ("multilingual", "de", "multilingual")]
CODES += [("German", "de", "de"), (None, "de", "de"), (None, "xx", None)]  # xx is spaCy's name for several languages


@pytest.mark.parametrize(("named", "text", "code"), CODES)
def test_the_readme_has_a_code_that_the_hub_knows_and_no_row_of_what_is_unknown(model, named, text, code):
    card = {"words_read": None} | ({} if named is None else {"language": named})
    made = HubModel.of(replace(model, text=TextConfig(language=text), card=card)).generate_model_card()
    assert made.data.get("language") == code
    assert "words read" not in made.text


def test_a_language_that_is_no_code_is_refused(trained, tmp_path, prepared):
    with refused("--language", "German", "code"):
        prepared(trained, language="German")
    assert not list((tmp_path / "made").iterdir())


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        ("user/oak", {}, "no token; hf auth login; HF_TOKEN"),
        ("user/oak", {"HF_TOKEN": "wrong"}, "user/oak; 401"),
        ("user/oak", {"HF_TOKEN": "secret", "HF_ENDPOINT": "http://127.0.0.1:9"}, "user/oak; refused"),
        ("user/oak", {"HF_TOKEN": "secret", "ELMO_OFFLINE": "1"}, "ELMO_OFFLINE is set"),
        ("user/oak --license CC-BY", {"HF_TOKEN": "secret"}, "user/oak; README.md; must be one of; --license"),
        ("oak", {}, "'oak'; user/name"),
        ("user/o--ak", {}, "'user/o--ak'"),
    ],
    ids=["no token", "wrong token", "no answer", "offline", "unknown licence", "no user", "bad name"],
)
def test_push_refuses_in_one_line(trained, endpoint, arguments, variables, words):
    refusal(run("push", trained, *arguments.split(), variables={**endpoint, **variables}), *words.split("; "))
