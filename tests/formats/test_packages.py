"""Model packages: found by name once installed, and never in the place of another model."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from command import run_fresh
from refusals import refused
from tiny import tiny_model

from elmo import formats
from elmo.formats import native, packages

CARD = {"license": "CC-BY-SA-3.0", "words_read": 1_000_000}


def put(site: Path, name: str, package: str = "", version: str = "1.0.0") -> Path:
    """Installs a package with a tiny model called `name` into `site`, as pip would; returns the model's folder."""
    package = package or f"elmo-torch-{name}"
    folder = site / package.replace("-", "_")
    site.mkdir(exist_ok=True)
    native.save(replace(tiny_model(), card=CARD), folder)
    about = site / f"{folder.name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {package}\nVersion: {version}\n")
    (about / "entry_points.txt").write_text(f"[{packages.GROUP}]\n{name} = {folder.name}\n")
    return folder


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


def test_a_model_is_found_by_its_name(site):
    folder = put(site, "oak-tiny")
    assert formats.find("oak-tiny") == folder
    assert formats.load("oak-tiny").card == CARD
    assert packages.installed_packages()["oak-tiny"] == "elmo-torch-oak-tiny 1.0.0"


@pytest.mark.parametrize("name", ["english-base", "default", "small", "original"])
def test_no_package_takes_the_name_of_a_packaged_or_published_model(site, name, tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    put(site, name, "a-stranger")
    if name in ("english-base", "default"):
        assert formats.find(name) == packages.ASSETS / formats.DEFAULT_MODEL
    else:
        with pytest.raises(FileNotFoundError, match=f"elmo pull {name}"):
            formats.find(name)
    assert name not in packages.installed_packages()


def test_a_name_in_two_packages_is_refused(site):
    put(site, "oak-tiny", "one-oak")
    put(site, "oak-tiny", "other-oak")
    with refused("oak-tiny", "one-oak 1.0.0", "other-oak 1.0.0"):
        formats.load("oak-tiny")


@pytest.mark.parametrize("lost", ["folder", "files"])
def test_a_package_without_its_model_is_refused(site, lost):
    folder = put(site, "oak-tiny")
    for file in folder.iterdir():
        file.unlink()
    if lost == "folder":
        folder.rmdir()
    with refused("oak-tiny", "elmo-torch-oak-tiny 1.0.0", "again"):
        formats.load("oak-tiny")


def test_broken_packages_hide_no_other_model(site):
    put(site, "oak-tiny")
    for package in ("one-elm", "other-elm"):
        put(site, "elm-tiny", package)
    newer, raising = put(site, "fir-tiny"), put(site, "ash-tiny")
    (newer / native.CONFIG).write_text((newer / native.CONFIG).read_text().replace('"version": 1', '"version": 2'))
    (raising / "__init__.py").write_text("raise RuntimeError")
    (entries,) = site.glob("elmo_torch_ash_tiny-*/entry_points.txt")
    entries.write_text(f"[{packages.GROUP}]\nash-tiny = {raising.name}.model\n")
    with pytest.warns(UserWarning, match="is not listed") as warned:
        names = [name for name, *_ in packages.describe_all()]
    assert "oak-tiny" in names
    said = "\n".join(str(warning.message) for warning in warned)
    for name, word in (("elm-tiny", "uninstall"), ("fir-tiny", "version is 2"), ("ash-tiny", "install it again")):
        assert name not in names
        assert word in next(line for line in said.splitlines() if line.startswith(name))


@pytest.mark.parametrize("name", packages.OWN)
def test_a_model_package_that_is_not_installed_says_how_to_install_it(name, monkeypatch, tmp_path):
    if name in packages.installed_packages():
        pytest.skip(f"{name} is installed")
    with refused(name, "pip install", f"models/{name}", error=FileNotFoundError):
        formats.load(name)
    monkeypatch.setattr(packages, "SOURCES", tmp_path)  # as in a wheel
    with refused(f"pip install ./models/{name}", error=FileNotFoundError):
        formats.load(name)


def test_every_source_of_a_model_package_is_known():
    assert sorted(path.parent.name for path in packages.SOURCES.glob("*/pyproject.toml")) == sorted(packages.OWN)
    for name in packages.OWN:
        found = formats.describe(packages.SOURCES / name)
        licence = (packages.SOURCES / name / "LICENSE").read_text(encoding="utf-8")
        assert f"SPDX-License-Identifier: {found.card['license']}\n" in licence
        assert found.dtype == "float16/int8"


def test_commands_list_it_and_refuse_one_of_another_version(tmp_path):
    folder = put(tmp_path / "site", "oak-tiny")
    path = os.pathsep.join(filter(None, [str(tmp_path / "site"), os.environ.get("PYTHONPATH")]))
    variables = {**os.environ, "PYTHONPATH": path, "ELMO_CACHE": str(tmp_path / "cache")}
    rows = json.loads(run_fresh("models", "--json", env=variables).stdout)
    assert [row["name"] for row in rows[:2]] == ["english-base", "oak-tiny"]
    assert rows[1]["package"] == "elmo-torch-oak-tiny 1.0.0"
    values = json.loads((folder / native.CONFIG).read_text())
    (folder / native.CONFIG).write_text(json.dumps(values | {"version": 2}))
    done = run_fresh("info", "oak-tiny", env=variables)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "version is 2" in done.stderr
    assert "install the latest" in done.stderr
