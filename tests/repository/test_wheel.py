"""What is installed is the wheel, so it is tried: built from the sdist, installed into a clean environment, and run."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from places import ROOT

MODELS = sorted(project.parent for project in (ROOT / "models").glob("*/pyproject.toml"))

OTHERS = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python that the package is for; those that are at hand are tried."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist and its wheel: the release in `ELMO_DIST`, or built from the working tree, offline."""
    if "ELMO_DIST" in os.environ:
        return Path(os.environ["ELMO_DIST"]).resolve()
    folder = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def model_wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of the model packages, by the model's name; built offline."""
    folder = tmp_path_factory.mktemp("models")
    for source in MODELS:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    found = {path.name.split("-")[0].removeprefix("elmo_torch_").replace("_", "-"): path for path in folder.iterdir()}
    assert found.keys() == {source.name for source in MODELS}
    return found


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that holds this wheel, and sees the dependencies of the one that runs the tests."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    install(folder / "bin", "--no-deps", str(wheel))
    # A path in a .pth file is searched last, and the .pth files in it (an editable elmo) are not read.
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def install(environment: Path, *arguments: str) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "python"), "--disable-pip-version-check"]
    done = subprocess.run([*pip, "install", "--no-index", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def metadata_of(wheel: Path) -> tuple[list[str], set[str]]:
    """The lines of a wheel's METADATA, and the names of all its files."""
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    return archive.read(name).decode().splitlines(), set(archive.namelist())


def interpreter(version: str) -> str | None:
    """A Python of this version that works, by its name on the path or from pyenv."""
    installed = map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in filter(None, (shutil.which(f"python{version}"), *installed)):
        done = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if done.stdout.startswith(f"Python {version}."):
            return candidate
    return None


def run(command: list[str], folder: Path, code: int = 0) -> str:
    """What a command, run elsewhere than in the repository, prints; its errors if it is to end with another code."""
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_wheel_holds_the_data_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    packaged = [
        path
        for name in ("elmo", "elmo_lab")
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    missing = {str(path.relative_to(ROOT)) for path in packaged} - names
    assert not missing
    assert {"elmo/py.typed", "elmo/assets/demo.txt", "elmo/assets/senses.tsv"} <= names
    for folder in ("elmo/recipes/", "elmo_lab/recipes/tasks/", "elmo_lab/recipes/probes/"):
        assert [name for name in names if name.startswith(folder) and name.endswith(".toml")]
    top = {name.partition("/")[0] for name in names}
    assert top == {"elmo", "elmo_lab", wheel.name.partition("-py3")[0] + ".dist-info"}
    assert wheel.stat().st_size < 35_000_000


def test_wheel_says_what_it_needs(wheel: Path) -> None:
    metadata, names = metadata_of(wheel)
    assert "Requires-Python: >=3.11" in metadata
    assert "License-Expression: Apache-2.0 AND CC-BY-SA-3.0" in metadata
    licenses = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert licenses == {"LICENSE", "elmo/assets/english-base/LICENSE"}
    needs = [line.removeprefix("Requires-Dist: ") for line in metadata if line.startswith("Requires-Dist: ")]
    assert not [need for need in needs if "<" in need or "==" in need.partition(";")[0]], "an upper bound"
    core = {need.partition(">")[0] for need in needs if "extra ==" not in need}
    assert core == {"filelock", "h5py", "jaxtyping", "numpy", "rich", "safetensors", "torch"}


def test_wheel_installs_a_command(clean: Path, tmp_path: Path) -> None:
    shown = run([str(clean / "elmo"), "--help"], tmp_path)
    for verb in ("train", "embed", "perplexity", "info", "convert", "neighbors", "probe", "demo"):
        assert verb in shown


def test_wheel_embeds_with_its_own_model(clean: Path, tmp_path: Path) -> None:
    program = "import elmo; print(elmo.__file__); print(elmo.load().embed([['A', 'play', '.']])[0].shape[:2])"
    file, shape = run([str(clean / "python"), "-c", program], tmp_path).splitlines()
    assert Path(file).is_relative_to(clean.parent)
    assert shape == "(3, 3)"


def test_model_wheels_hold_a_model_and_its_licence_and_no_code(model_wheels: dict[str, Path]) -> None:
    for name, path in model_wheels.items():
        metadata, names = metadata_of(path)
        module = f"elmo_torch_{name.replace('-', '_')}"
        files = {file.partition("/")[2] for file in names if file.startswith(f"{module}/")}
        assert files == {"config.json", "model.safetensors", "vocab.txt", "README.md", "LICENSE"}
        project = tomllib.loads((ROOT / "models" / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert f"License-Expression: {project['license']}" in metadata
        assert [line for line in metadata if line.startswith("Requires-Dist: elmo-torch>=")]
        assert [file for file in names if file.endswith(".dist-info/licenses/LICENSE")]
        assert path.stat().st_size < 100_000_000  # most that PyPI takes


@pytest.mark.slow
def test_model_package_is_found_once_it_is_installed(
    clean: Path, model_wheels: dict[str, Path], tmp_path: Path
) -> None:
    """And the default model stays what it was."""
    python, elmo = str(clean / "python"), str(clean / "elmo")
    usual = "import elmo; print(elmo.load().embed([['A', 'play', '.']])[0].tobytes().hex())"
    before = run([python, "-c", usual], tmp_path)
    said = run([elmo, "info", "english-large"], tmp_path, code=2)
    assert said.count("\n") == 1
    assert "pip install ./models/english-large" in said

    install(clean, *map(str, model_wheels.values()))  # with their dependency, which is there
    program = "import elmo; print(elmo.load('english-large').embed([['A', 'play', '.']])[0].shape)"
    assert run([python, "-c", program], tmp_path) == "(3, 3, 1024)\n"
    found = json.loads(run([elmo, "info", "english-large", "--json"], tmp_path))
    assert Path(found["path"]).is_relative_to(clean.parent)
    assert found["license"] == "CC-BY-SA-3.0"
    rows = json.loads(run([elmo, "models", "--json"], tmp_path))
    assert [row["name"] for row in rows[: 1 + len(MODELS)]] == ["english-base", *sorted(model_wheels)]
    assert run([python, "-c", usual], tmp_path) == before


def test_sdist_holds_what_a_builder_needs(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "constraints.txt"} <= names
    assert {"elmo/py.typed", "tests/repository/test_wheel.py", "docs/design.md", "docs/releasing.md"} <= names
    folders = {name.partition("/")[0] for name in names if "/" in name}
    assert folders == {"elmo", "elmo_lab", "tests", "docs", "benchmarks", "results"}
    assert path.stat().st_size < 100_000_000  # most that PyPI takes


@pytest.mark.parametrize("version", OTHERS)
def test_wheel_is_for_every_python_that_is_here(wheel: Path, tmp_path: Path, version: str) -> None:
    """All files compile, and the command starts, for which rich is enough. (torch is not there for each of them.)"""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    code = "import sys, elmo.cli; sys.argv[0] = 'elmo'; elmo.cli.main(['task', 'list', '--help'])"
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(unpacked)
    run([python, "-m", "compileall", "-q", str(unpacked)], tmp_path)
    environment = f"import sys; sys.path.insert(0, {str(unpacked)!r}); "
    assert "elmo task list" in run([python, "-c", environment + code], tmp_path)


@pytest.mark.slow
def test_a_users_program_is_typed(clean: Path, tmp_path: Path) -> None:
    """By mypy, strictly, and against the installed package, which says by `py.typed` that its annotations count."""
    shutil.copy(ROOT / "tests" / "users_program.py", tmp_path / "program.py")
    options = ["--python-executable", str(clean / "python")]
    options += ["--cache-dir", str(ROOT / "build" / "mypy")]  # all of torch is read once
    command = [sys.executable, "-m", "mypy", "--strict", *options, "program.py"]
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "MYPYPATH"}}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Success"), done.stdout + done.stderr
