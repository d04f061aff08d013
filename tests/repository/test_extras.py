"""Each extra works with the packages that it names and those of the core; the packages of other extras are blocked."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from places import ROOT

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
MODULES = {"scikit-learn": "sklearn", "prometheus-client": "prometheus_client"}
"""Modules that are not called as their distributions."""
BROUGHT = {"scikit-learn": {"scipy"}, "lancedb": {"pyarrow"}, "tensorboard": {"matplotlib"}, "spacy": {"pydantic"}}
"""Packages that a package depends on, or imports where they are installed."""
LIBRARIES = {"fsspec", "huggingface-hub", "transformers", "sentence-transformers", "pandas"}
"""Packages that torch and others import where they are installed."""
USES = {
    "text": """
from elmo.text.tokenizer import TextConfig, Tokenizer
assert Tokenizer(TextConfig(tokens="spacy", sentences="pysbd")).tokens("They play.") == ["They", "play", "."]
""",
    "serve": """
from starlette.testclient import TestClient
from elmo.server.app import create_app
from elmo.server.service import ServeConfig, Service
service = Service(ServeConfig("default"))
assert TestClient(create_app(service)).get("/info").status_code == 200
""",
    "sklearn": """
from elmo.integrations.sklearn import ElmoVectorizer
assert len(ElmoVectorizer().fit_transform(["They play chess."])) == 1
""",
    "index": """
from pathlib import Path
from elmo.cli import main
Path("text.txt").write_text("They play chess .\\nThe play ended .\\n", encoding="utf-8")
main(["index", "text.txt", "--pretokenized", "--output", "index", "--quiet"])
""",
    "tasks": """
import elmo_lab.tasks.train, elmo_lab.tasks.compare, elmo_lab.tasks.translation
from elmo_lab.tasks import coref_scores, task
for name in task.available():
    task.find(name)
import scipy.optimize
""",
    "probes": """
from elmo_lab import figures
import elmo_lab.report.job, elmo_lab.probes.ablate, elmo_lab.probes.efficiency
assert b"<svg" in figures.svg(figures.lines([], "x", "y"))
""",
}


def packages(extra: str) -> set[str]:
    """The distributions that an extra names, and those of the extras that it includes."""
    found: set[str] = set()
    for need in EXTRAS[extra]:
        if included := re.fullmatch(r"elmo-torch\[([\w,]+)\]", need):
            found |= set().union(*map(packages, included[1].split(",")))
        else:
            found.add(re.split(r"[\[<>=]", need)[0])
    return found


def own(extra: str) -> set[str]:
    """The distributions that an extra names itself."""
    return {re.split(r"[\[<>=]", need)[0] for need in EXTRAS[extra] if not need.startswith("elmo-torch")}


@pytest.mark.parametrize("extra", USES)
def test_an_extra_needs_no_other(extra: str, tmp_path: Path) -> None:
    mine = packages(extra)
    mine |= set().union(*(BROUGHT.get(package, set()) for package in mine))
    others = set().union(*map(packages, EXTRAS)) - packages("dev") - own("docs") | packages("sklearn")
    blocked = {MODULES.get(each, each).replace("-", "_") for each in others - mine - LIBRARIES}
    assert {"lancedb", "scipy"} - {MODULES.get(each, each) for each in mine} <= blocked
    program = f"import sys\nsys.modules.update(dict.fromkeys({sorted(blocked)!r}))\n{USES[extra]}"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_server_brings_no_engine_and_no_laboratory() -> None:
    assert not packages("serve") & {"lancedb", "scipy", "matplotlib", "tensorboard", "lightning-fabric", "pyarrow"}
