"""Errors name a command that installs an extra from where elmo itself came."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from elmo.errors import pip_line
from elmo.formats.packages import how_to_install

GIT = {"vcs": "git", "commit_id": "0" * 40}
SITE = "https://example.org/elmo"


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (None, "pip install 'elmo-torch[hub]'"),
        ({"url": "CLONE", "dir_info": {"editable": True}}, "pip install -e 'CLONE[hub]'"),
        ({"url": "CLONE", "dir_info": {}}, "pip install 'CLONE[hub]'"),
        ({"url": "WHEEL", "archive_info": {}}, "pip install 'WHEEL[hub]'"),
        ({"url": "file:///gone", "dir_info": {}}, "pip install '.[hub]' in a clone of the repository"),
        ({"url": "file:///gone", "archive_info": {}}, "pip install '.[hub]' in a clone of the repository"),
        ({"url": f"{SITE}.git", "vcs_info": GIT}, f"pip install 'elmo-torch[hub] @ git+{SITE}.git'"),
        (
            {"url": f"{SITE}.git", "vcs_info": GIT | {"requested_revision": "v9"}},
            f"pip install 'elmo-torch[hub] @ git+{SITE}.git@v9'",
        ),
        ({"url": "file:///srv/elmo.git", "vcs_info": GIT}, "pip install 'elmo-torch[hub] @ git+file:///srv/elmo.git'"),
        ({"url": f"{SITE}.whl", "archive_info": {}}, f"pip install 'elmo-torch[hub] @ {SITE}.whl'"),
    ],
)
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_an_extra_comes_from_where_elmo_came(tmp_path: Path, monkeypatch, record, line: str, installer: str) -> None:
    clone, wheel = tmp_path / "my clone", tmp_path / "elmo_torch-9.0-py3-none-any.whl"
    clone.mkdir()
    wheel.touch()
    metadata = tmp_path / "site" / "elmo_torch-9.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: elmo-torch\nVersion: 9.0\n")
    (metadata / "INSTALLER").write_text(f"{installer}\n")
    if record is not None:
        where = record["url"].replace("CLONE", clone.as_uri()).replace("WHEEL", wheel.as_uri())
        (metadata / "direct_url.json").write_text(json.dumps(record | {"url": where}))
    monkeypatch.syspath_prepend(tmp_path / "site")
    program = "uv pip" if installer == "uv" else "pip"
    line = line.replace("CLONE", str(clone)).replace("WHEEL", str(wheel))
    assert pip_line("hub") == line.replace("pip", program, 1)
    assert how_to_install("latin").startswith(f"{program} install ")


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
