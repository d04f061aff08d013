"""The README and the docs do what they say: their python and console blocks are run, offline, in an empty folder.

Blocks marked `sh` need what a test has not (a package index, a corpus of the reader's own): every command of elmo in
them is one that the command line understands, and those of `RUN` are run on small files. The reference names what
exists, and the tutorials are notebooks.
"""

import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from command import run as run_elmo
from command import run_program
from pages import blocks, read
from places import ROOT

from elmo.cli import parse

PAGES = [
    "README.md",
    *(f"docs/{name}.md" for name in ("index", "quickstart", "embedding", "corpora", "models")),
]
ENGINES = re.compile(r"^import ray|^from pyspark", re.MULTILINE)
"""In blocks that `make test-engines` runs."""
DOCS = sorted(
    page.relative_to(ROOT).as_posix()
    for page in ROOT.glob("docs/**/*.md")
    if "_build" not in page.parts and page.name != "log.md"
)
SHELL_PAGES = ["README.md", "CONTRIBUTING.md", *DOCS]
RUN = ["docs/quickstart.md", "docs/neighbours.md"]
"""Pages whose commands need no more than texts."""


def offline(folder: Path) -> dict[str, str]:
    """Variables of a process without a network."""
    nowhere = "http://127.0.0.1:9"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(folder), "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "COLUMNS": "100"}


def run(command: list[str], folder: Path) -> str:
    """The output of a command without a network; its failure is the test's."""
    environment = os.environ | offline(folder)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_python_blocks_of_the_readme_run_in_a_new_interpreter(tmp_path: Path) -> None:
    run([sys.executable, "-W", "error", "-c", "\n".join(blocks(read("README.md"), "python"))], tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES[1:] if blocks(read(page), "python")])
def test_python_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page in one program, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    here = [block for block in blocks(read(page), "python") if not ENGINES.search(block)]
    program = "import warnings\nwarnings.simplefilter('error')\n" + "\n".join(here)
    done = run_program(program, offline(tmp_path))
    assert done.returncode == 0, f"{program}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(read(page), "console")])
def test_console_blocks_run(page: str, tmp_path: Path) -> None:
    """Each `$ command` runs, and prints the lines that follow it on the page, where there are any."""
    for block in blocks(read(page), "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            printed = run(["bash", "-c", command], tmp_path)
            assert not expected.strip() or expected.strip() == printed.strip(), command


def commands(page: str) -> list[str]:
    """The lines of a page's `sh` blocks that call elmo, without comments."""
    lines = "\n".join(blocks(read(page), "sh")).replace("\\\n", " ").splitlines()
    return [re.split(r"\s+#\s", line)[0] for line in lines if line.startswith("elmo ")]


def words_of(line: str) -> list[str]:
    """The arguments of elmo in a line, without what the shell does with its output."""
    return shlex.split(re.split(r" [>|&]", line)[0])[1:]


@pytest.mark.parametrize("page", [page for page in SHELL_PAGES if commands(page)])
def test_commands_of_shell_blocks_are_understood(page: str) -> None:
    for line in commands(page):
        assert hasattr(parse(words_of(line)), "run"), line


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_commands_of_shell_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    for name in ("text.txt", "sentences.txt", "corpus.txt", "corpus/a.txt", "wiki.valid.txt.xz"):
        text = b"She wrote a play .\nThe play was long .\nThey play chess .\n"
        (tmp_path / name).write_bytes(lzma.compress(text) if name.endswith(".xz") else text)
    (tmp_path / "glove.6B.50d.txt").write_text("play 0.1 0.2\nchess 0.2 0.1\n", encoding="utf-8")
    for line in commands(page):
        output = re.search(r"--output (\S+)", line)
        if output is not None:  # an example may build what another one has built
            shutil.rmtree(tmp_path / output[1], ignore_errors=True)
        done = run_elmo(*words_of(line), variables=offline(tmp_path))
        assert done.returncode == 0, f"{line}\n{done.stderr}"


@pytest.mark.parametrize("page", [*SHELL_PAGES, "docs/log.md"])
def test_links_lead_to_files(page: str) -> None:
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", read(page)):
        assert (ROOT / page).parent.joinpath(link).is_file(), f"{page} links to {link}"


def test_readme_names_every_command() -> None:
    """The table of the README and the command line agree."""
    rows = re.findall(r"^\| .*", read("README.md"), re.MULTILINE)
    listed = {verb for row in rows for verb in re.findall(r"`elmo ([a-z]+)", row.split(" | ")[0])}
    shown = run([sys.executable, "-m", "elmo", "--help"], ROOT)
    assert listed == set(re.findall(r"^    ([a-z]+)(?:  |$)", shown, re.MULTILINE))


def test_readme_has_rows_of_the_first_table_of_the_results() -> None:
    """Its scores of the tasks are the generated ones, each with its biLM, which the results name once."""
    rows = {page: table_of_tasks(page) for page in ("README.md", "docs/results.md")}
    assert len(rows["README.md"]) >= 9
    assert set(rows["README.md"]) <= set(rows["docs/results.md"])


def table_of_tasks(page: str) -> list[tuple[str, ...]]:
    """Returns the cells of the first table of tasks of a page, with the biLM in every row."""
    shown = re.search(r"^\| biLM \| task \| score .*?\n\n", read(page), re.MULTILINE | re.DOTALL)
    assert shown is not None
    rows, bilm = [], ""
    for line in shown[0].split("\n")[:-2]:
        first, *rest = (cell.strip() for cell in line.strip("|").split("|"))
        bilm = first or bilm
        rows.append((bilm, *rest))
    return rows


# The reference and the tutorials

REFERENCE = [ROOT / "docs" / "api.md", *sorted((ROOT / "docs").glob("reference-*.md"))]
ENTRY = re.compile(r"^\.\. auto(module|class|function):: (\S+)\n(?:   :members:([^\n]*)\n)?", re.MULTILINE)


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_what_a_page_of_the_reference_lists_exists(page: Path) -> None:
    """Every member is one of its module or class."""
    entries = ENTRY.findall(page.read_text(encoding="utf-8"))
    assert entries
    for kind, name, members in entries:
        home, _, own = name.rpartition(".")
        found = import_module(name) if kind == "module" else getattr(import_module(home), own)
        for member in filter(None, re.split(r"[,\s]+", members)):
            assert hasattr(found, member) or member in getattr(found, "__annotations__", {}), f"{name} has no {member}"


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, "docs")
import conf, nbformat
for page in sorted(Path("docs/tutorials").glob("*.md")):
    nbformat.validate(nbformat.read(conf.write_notebook(page, Path(sys.argv[1])), 4))
"""
"""In a process of its own: a package that myst_nb imports replaces classes of importlib.metadata for all."""


@pytest.mark.skipif(find_spec("myst_nb") is None, reason="the extra docs is not installed")
def test_tutorials_offer_themselves_as_notebooks(tmp_path: Path) -> None:
    """Jupyter opens them. `make docs` runs their cells; the extra `docs` writes them."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in TUTORIALS:
        notebook = json.loads((tmp_path / f"{page.stem}.ipynb").read_text(encoding="utf-8"))
        sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert sources
        for source in sources:
            source.startswith("%%") or compile(source, page.name, "exec")
        assert f"</_build/notebooks/{page.stem}.ipynb>" in page.read_text(encoding="utf-8")
