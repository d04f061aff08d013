"""From a name to a model in the cache, and from whatever a program passes to the file there; nothing by itself."""

import errno
import hashlib
import json
import sys
import zipfile
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_server import BadServer
from bilm_files import write_zip
from command import printed, run
from refusals import names, refusal, refused
from tiny import CONFIG, write_tiny

import elmo
from elmo import formats
from elmo.cli.models import pull_verb
from elmo.formats import cache, published
from elmo.formats.download import DownloadError
from elmo.formats.published import PublishedFile, PublishedModel
from elmo.formats.pull import discard_pages, pull

OLD = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/tiny"  # as programs of old write it
OPTIONS, WEIGHTS = "elmo_tiny_options.json", "elmo_tiny_weights.hdf5"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> dict[str, bytes]:
    """The two files of a published model."""
    options, weights = write_tiny(tmp_path_factory.mktemp("tiny") / "model")
    return {OPTIONS: options.read_bytes(), WEIGHTS: weights.read_bytes()}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch, direct) -> Path:
    """The cache."""
    for name in ("XDG_CACHE_HOME", "ELMO_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def table(monkeypatch):
    """Puts models into the table's place."""

    def put(*models: PublishedModel) -> None:
        monkeypatch.setattr(published, "published_models", lambda: models)

    return put


def row(name: str, *files: PublishedFile, **fields: Any) -> PublishedModel:
    texts: dict[str, Any] = dict.fromkeys(("language", "about", "layout", "citation", "address_from"), "x")
    given: dict[str, Any] = {"page": "https://example.org"} | texts | fields
    return PublishedModel(name=name, files=files, **given)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def rows_of(server: BadServer, tiny: dict[str, bytes], hashes: bool = True) -> PublishedModel:
    files = []
    for name, content in tiny.items():
        known = (len(content), sha256(content)) if hashes else ()
        files.append(PublishedFile(name, (server.add(f"/{name}", content),), (f"{OLD}/{name}",), *known))
    return row("tiny", *files, aliases=("wee",))


# Where the cache is


def test_cache_folder(monkeypatch, tmp_path):
    assert cache.cache_folder() == tmp_path / "cache"
    monkeypatch.setenv("ELMO_CACHE", "~/models")
    assert cache.cache_folder() == Path.home() / "models"
    monkeypatch.delenv("ELMO_CACHE")
    assert cache.cache_folder() == Path.home() / ".cache" / "elmo"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "elmo"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.cache_folder() == Path.home() / ".cache" / "elmo"


def test_cache_without_a_home_folder_is_named(monkeypatch):
    monkeypatch.setenv("ELMO_CACHE", "~no-such-user/x")
    with refused("~no-such-user/x", "ELMO_CACHE"):
        cache.cache_folder()
    monkeypatch.delenv("ELMO_CACHE")
    monkeypatch.setattr(Path, "home", lambda: Path("~no-such-user").expanduser())
    with refused("~/.cache/elmo", "ELMO_CACHE"):
        cache.cache_folder()


# Pulling and opening


def test_name_is_pulled_once_and_opened(server, tiny, table, home):
    model = rows_of(server, tiny)
    table(model)
    assert not cache.is_pulled(model)
    seen = []
    pulled = pull("tiny", lambda *arguments: seen.append(arguments))
    assert {(name, len(content), len(content)) for name, content in tiny.items()} <= set(seen)
    assert pulled.path == home / "tiny"
    assert pulled.new == (OPTIONS, WEIGHTS)
    assert pulled.sha256 == {name: sha256(content) for name, content in tiny.items()}
    assert {path.name for path in pulled.path.iterdir()} == {OPTIONS, WEIGHTS, cache.RECORD}
    assert cache.is_pulled(model)
    assert pull("WEE").new == ()
    assert [len(resource.requests) for resource in server.resources.values()] == [1, 1]
    assert formats.find("tiny") == formats.find("wee") == home / "tiny"
    assert formats.describe("tiny").config == CONFIG
    vectors = elmo.load("tiny").embed([["a", "play"]])
    np.testing.assert_array_equal(vectors[0], elmo.load(home / "tiny" / WEIGHTS).embed([["a", "play"]])[0])


def test_single_file_is_what_its_model_opens(server, table, home):
    table(row("one", PublishedFile("one.zip", (server.add("/one", b"PK"),))))
    assert pull("one").path == home / "one" / "one.zip"
    assert cache.local("one") == home / "one" / "one.zip"


def test_only_what_is_missing_is_pulled(server, tiny, table, home):
    model = rows_of(server, tiny)
    table(model)
    (home / "tiny").mkdir(parents=True)
    (home / "tiny" / WEIGHTS).write_bytes(tiny[WEIGHTS])  # put there by hand
    assert not cache.is_pulled(model)
    assert pull("tiny").new == (OPTIONS,)
    assert server.resources[f"/{WEIGHTS}"].requests == []
    assert formats.describe("tiny").config == CONFIG


def test_interrupted_pull_goes_on(server, tiny, table, home):
    model = rows_of(server, tiny)
    table(model)
    server.resources[f"/{WEIGHTS}"].drop_after = [1000] + [0] * 9
    with refused("tiny", "kept", home / "tiny", error=DownloadError):
        pull("tiny")
    assert not cache.is_pulled(model)
    with refused("elmo pull tiny", error=FileNotFoundError):
        formats.load("tiny")
    server.resources[f"/{WEIGHTS}"].drop_after = []
    assert pull("tiny").new == (WEIGHTS,)
    assert server.resources[f"/{WEIGHTS}"].requests[-1]["Range"] == "bytes=1000-"


def test_a_file_with_another_hash_is_not_kept_and_not_said_to_be(server, tiny, table, home):
    table(rows_of(server, tiny))
    server.resources[f"/{WEIGHTS}"].content = b"x" * len(tiny[WEIGHTS])
    with refused("tiny", "sha256", error=DownloadError) as caught:
        pull("tiny")
    assert "is kept" not in str(caught.value)
    assert [path.name for path in (home / "tiny").iterdir() if WEIGHTS in path.name] == []


def test_name_never_downloads_by_itself(server, tiny, table, home):
    table(rows_of(server, tiny))
    for use in (formats.load, formats.describe, formats.find, elmo.load, cache.local):
        with refused("tiny", "elmo pull tiny", error=FileNotFoundError):
            use("tiny")
    assert all(resource.requests == [] for resource in server.resources.values())
    assert not home.exists()


def test_cache_that_cannot_be_written_says_the_remedy(server, tiny, table, tmp_path):
    (tmp_path / "cache").write_text("a file")
    table(rows_of(server, tiny))
    with refused("tiny", "ELMO_CACHE", error=OSError):
        pull("tiny")


def test_offline(server, tiny, table, home, monkeypatch):
    table(rows_of(server, tiny))
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    with refused("tiny", "ELMO_OFFLINE", "cache/tiny"):
        pull("tiny")
    assert not home.exists()
    monkeypatch.setenv("ELMO_OFFLINE", "0")
    pull("tiny")
    monkeypatch.setenv("ELMO_OFFLINE", "true")
    assert pull("tiny").new == ()
    assert formats.describe("tiny").config == CONFIG


def test_model_without_an_address(table):
    table(row("page", page="https://example.org/page"), row("hand", PublishedFile("hand.zip")))
    with refused("page", "https://example"):
        pull("page")
    with refused("hand.zip", "hand"):
        pull("hand")
    with refused("page", "https://", "path", error=FileNotFoundError):
        cache.local("page")


@pytest.mark.parametrize("inside", [".", "unpacked"])
def test_model_without_an_address_may_be_put_into_the_cache(tiny, table, home, inside):
    model = row("page")
    table(model)
    (home / "page").mkdir(parents=True)
    (home / "page" / ".lock").touch()
    assert not cache.is_pulled(model)
    (home / "page" / inside).mkdir(exist_ok=True)
    for name, content in tiny.items():
        (home / "page" / inside / name).write_bytes(content)
    assert cache.is_pulled(model)
    assert pull("page").new == ()
    assert formats.describe("page").config == CONFIG


def test_two_processes_do_not_write_one_file(server, tiny, table, home):
    fcntl = pytest.importorskip("fcntl")
    table(rows_of(server, tiny))
    (home / "tiny").mkdir(parents=True)
    with (home / "tiny" / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with refused("another process"):
            pull("tiny")
    assert pull("tiny").new == (OPTIONS, WEIGHTS)


def test_file_systems_without_locks_are_no_hindrance(server, tiny, table, monkeypatch):
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", refuse)
    table(rows_of(server, tiny))
    assert pull("tiny").new == (OPTIONS, WEIGHTS)


def test_damaged_record_is_no_harm(server, tiny, table, home):
    table(rows_of(server, tiny))
    pull("tiny")
    for text in ("no json", "[]", '{"files": 3}', json.dumps({"files": {WEIGHTS: 3}})):
        (home / "tiny" / cache.RECORD).write_text(text)
        assert pull("tiny").new == ()


# What programs pass


def test_old_addresses_and_file_names_lead_to_the_cache(server, tiny, table, home):
    table(rows_of(server, tiny))
    for reference in (f"{OLD}/{WEIGHTS}", WEIGHTS):
        with refused("tiny", "elmo pull tiny", error=FileNotFoundError):
            cache.local(reference)
    pull("tiny")
    assert cache.local(f"{OLD}/{WEIGHTS}") == home / "tiny" / WEIGHTS
    assert cache.local(f"https://allennlp.s3.amazonaws.com/models/elmo/tiny/{OPTIONS}") == home / "tiny" / OPTIONS
    assert cache.local(WEIGHTS) == home / "tiny" / WEIGHTS
    assert formats.describe(f"{OLD}/{WEIGHTS}").config == CONFIG


def test_paths_come_before_names(server, tiny, table, tmp_path, monkeypatch):
    table(rows_of(server, tiny))
    monkeypatch.chdir(tmp_path)
    Path("tiny").mkdir()
    Path(WEIGHTS).write_bytes(b"")
    assert cache.local("tiny") == Path("tiny")
    assert cache.local(Path(WEIGHTS)) == Path(WEIGHTS)


def test_unknown_references(table):
    table(row("one"))
    assert cache.local("no/such/path") is None
    with refused("https://example.org/weights.hdf5"):
        cache.local("https://example.org/weights.hdf5")
    with refused("elmo models", error=FileNotFoundError):
        formats.find("no/such/path")


# The command line


@pytest.fixture
def served(server, tiny, tmp_path) -> dict[str, str]:
    """The variables of a command whose mirror is the server of the test: its proxy answers for every address."""
    zipped = write_zip(tmp_path / "model.zip", tiny).read_bytes()
    for url in {url for model in published.published_models() for file in model.files for url in file.urls}:
        if url.startswith("http://vectors.nlpl.eu"):
            server.add(url, zipped)
    return {"ELMO_CACHE": str(tmp_path / "cache"), "http_proxy": server.address, "https_proxy": "http://127.0.0.1:9"}


def test_command_models():
    said = printed("models")
    assert "original" in said
    assert "nlpl-179" in said
    rows = json.loads(printed("models", "--json"))
    assert (rows[0]["name"], rows[0]["license"]) == ("english-base", "CC-BY-SA-3.0")
    rows = [row for row in rows if row["package"] is None]
    assert [row["name"] for row in rows] == [model.name for model in published.published_models()]
    assert rows[0]["files"][1]["sha256"] == published.published_models()[0].files[1].sha256
    assert rows[0]["pulled"] is False


def test_command_pull_refuses_what_it_cannot_do(tmp_path, served):
    refusal(run("pull", "smal", variables=served), "'smal' is not a known published model", "small")
    refusal(run("pull", "small", variables=served | {"ELMO_OFFLINE": "1"}), "ELMO_OFFLINE is set")
    refusal(run("pull", "german", variables=served), "no download address is known", "german-elmo-model")
    refusal(run("info", "small", variables=served), "elmo pull small")
    assert not (tmp_path / "cache").exists()
    refusal(run("pull", "seqvec", variables=served), "seqvec.zip", "rostlab.org", "connection refused")


def test_command_pulls_through_a_proxy_and_tells_what_came(served, tmp_path):
    done = run("pull", "nlpl-217", "--quiet", variables=served)
    path = tmp_path / "cache" / "nlpl-217" / "217.zip"
    assert f"{path}: nlpl-217, downloaded" in done.stdout
    digest = sha256(path.read_bytes())
    assert f"217.zip: sha256 {digest}, no published hash" in done.stdout
    assert "please cite: Andrey Kutuzov" in done.stdout
    assert done.returncode == 0, done.stderr
    path.write_bytes(b"changed")
    done = run("pull", "nlpl-217", variables=served)
    assert "already here" in done.stdout
    assert str(path) in done.stderr
    assert f"remove {path}" in done.stderr


def test_command_pulls_again_what_was_a_page_and_no_model(served, server, tmp_path):
    (resource,) = [item for url, item in server.resources.items() if url.endswith("/20/217.zip")]
    resource.content, content = b"<html>Log in</html>", resource.content
    done = run("pull", "nlpl-217", variables=served)
    assert done.returncode == 2
    names(done.stderr.splitlines()[-1], "nlpl-217", "217.zip is removed")
    resource.content = content
    assert run("pull", "nlpl-217", variables=served).returncode == 0
    assert (tmp_path / "cache" / "nlpl-217" / "217.zip").read_bytes() == content


def test_only_pages_are_discarded_of_earlier_pulls_too(server, tiny, table, home):
    page = b"\xef\xbb\xbf\n <!doctype html>"
    table(rows_of(server, tiny | {OPTIONS: page, "vocab.txt": b"<S>\n</S>\n<UNK>\n"}, hashes=False))
    pull("tiny")
    pulled = pull("tiny")
    assert pulled.new == ()
    assert discard_pages(pulled) == [OPTIONS]
    assert discard_pages(replace(pulled, model=row("other"))) == []
    assert set(cache.read_record(home / "tiny")) == {WEIGHTS, "vocab.txt"}
    assert pull("tiny").new == (OPTIONS,)


def test_command_discards_a_page_that_is_no_options_file_beside_a_checkpoint(server, tiny, table, home, monkeypatch):
    def describe(path: Path) -> None:
        raise FileNotFoundError(f"{path}: no options file")

    monkeypatch.setattr(formats, "describe", describe)  # as of the format of TensorFlow, which knows the other files
    table(rows_of(server, tiny | {OPTIONS: b"<html>Log in</html>"}, hashes=False))
    pull("tiny")
    with refused(OPTIONS, "web page", "pull"):
        pull_verb(Namespace(names=["tiny"], quiet=True))
    assert not (home / "tiny" / OPTIONS).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits")
def test_command_keeps_what_came_before_the_disk_was_full(served, server, tiny, tmp_path):
    (resource,) = [item for url, item in server.resources.items() if url.endswith("/20/218.zip")]
    files = {**tiny, "more": bytes(1_000_000)}
    resource.content = write_zip(tmp_path / "large.zip", files, zipfile.ZIP_STORED).read_bytes()
    done = run("pull", "nlpl-218", variables=served | {"FILE_SIZE_LIMIT": "600000"})
    refusal(done, "218.zip.part", "free some and pull again")
    assert 0 < (tmp_path / "cache" / "nlpl-218" / "218.zip.part").stat().st_size <= 600_000
    run("pull", "nlpl-218", variables=served)
    assert (tmp_path / "cache" / "nlpl-218" / "218.zip").read_bytes() == resource.content
    assert "Range" in resource.requests[-1]
