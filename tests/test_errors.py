"""Errors name a command that installs an extra from where elmo itself came."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from elmo.errors import pip_line
from elmo.formats.packages import how_to_install


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts the records of an installation before all others."""

    def put(record: dict[str, Any] | None, installer: str = "pip") -> None:
        metadata = tmp_path / "site" / "elmo_torch-9.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: elmo-torch\nVersion: 9.0\n")
        (metadata / "INSTALLER").write_text(f"{installer}\n")
        if record is not None:
            (metadata / "direct_url.json").write_text(json.dumps(record))
        monkeypatch.syspath_prepend(tmp_path / "site")

    return put


def test_from_an_index(installed) -> None:
    installed(None)
    assert pip_line("text") == "pip install 'elmo-torch[text]'"


def test_where_uv_installs(installed) -> None:
    installed(None, "uv")
    assert pip_line("text") == "uv pip install 'elmo-torch[text]'"
    assert how_to_install("latin").startswith("uv pip install ")


@pytest.mark.parametrize(("editable", "option"), [(True, "-e "), (False, "")])
def test_from_a_clone(installed, tmp_path: Path, editable: bool, option: str) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    installed({"url": clone.as_uri(), "dir_info": {"editable": editable} if editable else {}})
    assert pip_line("train") == f"pip install {option}'{clone}[train]'"


def test_from_a_wheel(installed, tmp_path: Path) -> None:
    wheel = tmp_path / "elmo_torch-9.0-py3-none-any.whl"
    wheel.touch()
    installed({"url": wheel.as_uri(), "archive_info": {}})
    assert pip_line("hub") == f"pip install '{wheel}[hub]'"


@pytest.mark.parametrize("record", [{"dir_info": {}}, {"archive_info": {}}], ids=["clone", "wheel"])
def test_from_what_is_gone(installed, tmp_path: Path, record: dict[str, Any]) -> None:
    installed({"url": (tmp_path / "gone").as_uri(), **record})
    assert pip_line("hub") == "pip install '.[hub]' in a clone of the repository"


GIT = {"vcs": "git", "commit_id": "0" * 40}


@pytest.mark.parametrize(
    ("record", "where"),
    [
        ({"url": "https://example.org/elmo.git", "vcs_info": GIT}, "git+https://example.org/elmo.git"),
        (
            {"url": "https://example.org/elmo.git", "vcs_info": {**GIT, "requested_revision": "v9"}},
            "git+https://example.org/elmo.git@v9",
        ),
        ({"url": "file:///srv/elmo.git", "vcs_info": GIT}, "git+file:///srv/elmo.git"),
        ({"url": "https://example.org/elmo.whl", "archive_info": {}}, "https://example.org/elmo.whl"),
    ],
)
def test_from_an_address(installed, record: dict[str, Any], where: str) -> None:
    installed(record)
    assert pip_line("hub") == f"pip install 'elmo-torch[hub] @ {where}'"


def test_what_runs_from_its_sources_without_an_installation(tmp_path: Path) -> None:
    package = tmp_path / "clone" / "elmo"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "errors.py").write_bytes((ROOT / "elmo" / "errors.py").read_bytes())
    program = "from elmo.errors import pip_line; print(pip_line('text'))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=package.parent, capture_output=True, text=True, check=False
    )
    assert not done.stderr
    assert done.stdout == f"pip install -e '{package.parent}[text]'\n"
