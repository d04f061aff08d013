"""The house rules that a parser can check: who imports whom, how long things get, what stays light.

The table is that of docs/design.md, "What may import what": whoever changes one changes the other.
"""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path

import pytest
from places import ROOT, TESTS

PACKAGES = ROOT / "elmo", ROOT / "elmo_lab"
FILES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))

LONGEST_FILE = 400
LONGEST_FUNCTION = 60

BASE = {"config", "errors", "forking", "machine", "types", "terminal"}
"""Files at the root that know only the standard library and third parties (and one another)."""
LAB = "elmo_lab"
MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(BASE, BASE),
    "ops": {"forking", "types"},
    "disk": BASE,
    "model": BASE | {"ops"},
    "text": BASE | {"disk"},
    "training": BASE | {"disk"},
    "formats": BASE | {"disk", "model", "text"},
    "embedding": BASE | {"disk", "formats", "model", "text", "ops"},
    "pretraining": BASE | {"disk", "model", "text", "formats", "training", "ops"},
    "search": BASE | {"disk", "embedding", "formats", "model", "text", "ops"},
}
MAY_IMPORT |= {each: set(MAY_IMPORT) for each in ("integrations", "server", "bench")}
"""The library: nothing of it imports the laboratory."""
LIBRARY = {*MAY_IMPORT, "cli"}
LAB_BASE = {f"elmo_lab.{name}" for name in ("plugins", "document", "record", "figures")}
MAY_IMPORT |= dict.fromkeys(LAB_BASE, LIBRARY)
MAY_IMPORT["elmo_lab.tasks"] = LIBRARY | LAB_BASE
MAY_IMPORT["elmo_lab.probes"] = MAY_IMPORT["elmo_lab.tasks"] | {"elmo_lab.tasks"}
MAY_IMPORT["elmo_lab.report"] = MAY_IMPORT["elmo_lab.probes"] | {"elmo_lab.probes"}
ENTRANCES = {"cli", "__init__", "__main__", "shims", "elmo_lab.cli", "elmo_lab"}
"""They import anything of their package and those below, inside functions only."""

HEAVY = {"torch", "numpy", "h5py", "safetensors", "jaxtyping", "spacy", "pyarrow", "lightning_fabric", "scipy"}
EXTRAS = {"spacy", "pysbd", "lightning", "lightning_fabric", "tensorboard", "pyarrow", "sklearn", "scipy", "matplotlib"}
EXTRAS |= {"google_crc32c", "huggingface_hub", "lancedb", "sentence_transformers", "flair", "transformers", "ray"}
EXTRAS |= {"pyspark", "shtab"}
"""Packages of the extras: imported inside functions, so that the core works without them."""
HOMES = {
    "training": {"lightning_fabric"},
    "formats/hub.py": {"huggingface_hub"},
    "formats/hub_files.py": {"huggingface_hub"},
    "integrations/sklearn.py": {"sklearn"},
    "integrations/sentence_transformers.py": {"sentence_transformers"},
    "integrations/flair.py": {"flair"},
    "integrations/spacy.py": {"spacy"},
    "integrations/transformers.py": {"transformers"},
    "integrations/transformers_tokenizer.py": {"transformers"},
}
"""What is nothing without its extra may import it at the top; it says the pip line, or whoever imports it does."""


def every_file(check: Callable[[Path], None]) -> Callable[[], None]:
    """A test of all files that reports each file that fails."""

    @wraps(check)
    def test() -> None:
        failures = []
        for path in FILES:
            try:
                check(path)
            except AssertionError as error:
                failures.append(str(error))
        assert not failures, "\n".join(failures)

    del test.__wrapped__  # pytest would take `path` for a fixture
    return test


def unit(path: Path) -> str:
    """The folder or root file that a file belongs to; in the laboratory with the package's name."""
    package, first, *_ = path.relative_to(ROOT).parts
    return named(f"{package}.{first.removesuffix('.py')}")


def named(module: str) -> str:
    """The unit of a module of ours: `elmo.text.corpus` is of `text`, `elmo_lab.tasks.ner` of `elmo_lab.tasks`."""
    package, _, rest = module.removesuffix(".__init__").partition(".")
    first = rest.partition(".")[0]
    if package == LAB:
        return f"{LAB}.{first}" if first and first not in {"RECIPES"} else LAB
    return first or "__init__"


def names(node: ast.stmt, path: Path) -> list[str]:
    """The modules that an import statement names, in full."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    assert node.level == 0, f"{path}:{node.lineno}: a relative import; write it in full"
    if node.module in {"elmo", LAB}:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [node.module or ""]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def calls(path: Path) -> tuple[tuple[ast.Call, str], ...]:
    """Every call of a file, and what is called."""
    found = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))
    return tuple((node, ast.unparse(node.func)) for node in found)


def imports(path: Path, top_level: bool = False) -> Iterator[tuple[int, str]]:
    """(line, module) of every import of a file, or only of those that run when it is imported."""
    pending: list[ast.AST] = [parsed(path)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node.lineno, name) for name in names(node, path))
        if top_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if top_level and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        pending.extend(ast.iter_child_nodes(node))


@every_file
def test_imports_follow_the_table(path: Path) -> None:
    here = unit(path)
    assert here in {*MAY_IMPORT, *ENTRANCES}, f"{here} is not in the table of docs/design.md: put it there and here"
    for line, name in imports(path):
        there = named(name)
        if not name.partition(".")[0].startswith("elmo") or there in (here, "__version__", LAB):
            assert there != LAB or here.startswith(LAB), f"{path}:{line}: the library may not import {name}"
            continue
        if here in ENTRANCES:
            assert not there.startswith(LAB) or here.startswith(LAB), f"{path}:{line}: {here} may not import {name}"
        else:
            assert there in MAY_IMPORT[here], f"{path}:{line}: {here} may not import {name}"


@every_file
def test_extras_are_imported_where_they_are_used(path: Path) -> None:
    file = path.relative_to(ROOT).as_posix().removeprefix("elmo/")
    extras = EXTRAS - HOMES.get(unit(path), set()) - HOMES.get(file, set())
    for line, name in imports(path, top_level=True):
        assert name.partition(".")[0] not in extras, f"{path}:{line}: import {name} inside the function that needs it"


@pytest.mark.parametrize("path", [path for path in FILES if unit(path) in ENTRANCES], ids=str)
def test_entrances_are_light(path: Path) -> None:
    for line, module in imports(path, top_level=True):
        package = module.partition(".")[0]
        assert package not in HEAVY, f"{path}:{line}: import {module} inside the function that needs it"
        light = named(module) in ENTRANCES | {"config", "errors", "terminal", "__version__", "elmo_lab.plugins"}
        assert not package.startswith("elmo") or light, f"{path}:{line}: import {module} inside the function"


def run_alone(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("entrance", ["elmo", "elmo.cli; elmo.cli.build_parser()"])
def test_entrances_load_no_torch(entrance: str) -> None:
    """What the parser cannot see: nothing that an entrance imports loads the heavy packages in its turn.

    The command line imports those of the laboratory.
    """
    program = f"import sys, {entrance}; loaded = {HEAVY!r} & set(sys.modules); sys.exit(str(loaded) if loaded else 0)"
    run_alone(program)


def test_probes_of_frozen_vectors_need_no_extra() -> None:
    probes = "import elmo.search.senses, elmo_lab.probes.wsd, elmo_lab.probes.pos"
    program = f"import sys; sys.modules.update(dict.fromkeys({sorted(EXTRAS)!r})); {probes}"
    run_alone(program)


def test_no_two_folders_import_one_another() -> None:
    """The table itself is a ladder: whoever is allowed below is not allowed back up."""
    for here, below in MAY_IMPORT.items():
        for there in below - BASE:
            assert here not in MAY_IMPORT.get(there, ()), f"{here} and {there} may import one another"


@every_file
def test_whoever_makes_a_lock_renews_it_at_a_fork(path: Path) -> None:
    """A child would wait for ever for a lock that another thread of its parent held."""
    if unit(path) == "forking":
        return
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "functools":
            used = [alias.name for alias in node.names]
            assert "cached_property" not in used, f"{path}:{node.lineno}: import it from elmo.forking"
    made = {called.removeprefix("threading.") for _, called in calls(path)}
    if made & {"Lock", "RLock", "Condition", "Semaphore", "SimpleQueue", "queue.Queue", "ThreadPoolExecutor"}:
        assert "renew_at_fork" in made, f"{path}: a lock or thread is made; call renew_at_fork"
    assert "os.register_at_fork" not in made, f"{path}: call renew_at_fork"


@every_file
def test_files_and_functions_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{path}:{node.lineno}: {node.name} has {length} lines"


@every_file
def test_library_neither_prints_nor_exits(path: Path) -> None:
    if unit(path) in {"cli", "__main__", "elmo_lab.cli"}:
        return
    for node, called in calls(path):
        assert called not in {"print", "exit", "quit", "sys.exit", "os._exit"}, f"{path}:{node.lineno}: {called}()"
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert not ast.unparse(node.exc).startswith("SystemExit"), f"{path}:{node.lineno}: SystemExit"


@every_file
def test_nothing_is_unpickled(path: Path) -> None:
    """Weights come from strangers: `pickle` is not imported, and `torch.load` is told to load tensors only."""
    for line, name in imports(path):
        assert name.partition(".")[0] not in {"pickle", "dill", "cloudpickle", "joblib"}, f"{path}:{line}: {name}"
    for node, called in calls(path):
        if called == "torch.load":
            keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            assert keywords.get("weights_only") == "True", f"{path}:{node.lineno}: torch.load without weights_only=True"


@every_file
def test_texts_have_the_same_line_ends_on_every_system(path: Path) -> None:
    """Windows would write others, and the same model or report would be other bytes."""
    for node in ast.walk(parsed(path)):
        given = {keyword.arg for keyword in node.keywords} if isinstance(node, ast.Call) else set()
        if isinstance(node, ast.Call) and "encoding" in given:
            called, modes = ast.unparse(node.func).rpartition(".")[2], {ast.unparse(each) for each in node.args}
            writes = called in {"write_text", "TextIOWrapper"} or (called == "open" and modes & {"'w'", "'wt'", "'a'"})
            assert not writes or "newline" in given, f"{path}:{node.lineno}: {called} without newline"


def test_folders_hold_one_level() -> None:
    deep = [path for path in FILES if len(path.relative_to(ROOT).parts) > 3]
    assert not deep, "folders inside folders"
    assert not [path for path in FILES if path.stem in {"utils", "util", "helpers", "common", "misc"}]


def test_design_page_has_the_same_table() -> None:
    """Every row of the page is here and every row here is on the page."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = page.partition("## What may import what")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    listed = {name.strip(" `") for left, _ in rows for name in left.split(",")}
    assert listed == set(MAY_IMPORT) | {"cli", "elmo_lab.cli"}


# Tests see the packages as their users do: by public names

TESTED = ("elmo", "elmo_lab", "results")
PUBLIC_ELSEWHERE = {"_ElmoBiLm", "_ElmoCharacterEncoder", "_elmo_lstm", "_scalar_mixes", "_states", "_token_embedder"}
PUBLIC_ELSEWHERE |= {"_replace", "_repr_png_", "_schema"}
"""Names of AllenNLP, then of namedtuples, Jupyter and torch; programs written for them use them."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_ELSEWHERE


def defined(file: Path) -> Iterator[str]:
    """The private names of a file: functions, classes, variables and attributes."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def reached(file: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of what a test imports, takes from an object other than its own, or replaces by its name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] in TESTED:
                yield from ((node.lineno, part) for name in names for part in f"{module}.{name.name}".split("."))
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.Call(
                func=ast.Attribute(attr="setattr" | "object" | "delattr") | ast.Name(id="getattr"), args=given
            ):
                texts = [each.value for each in given if isinstance(each, ast.Constant)]
                yield from ((node.lineno, part) for text in texts for part in str(text).split("."))


def test_tests_use_no_private_name_of_the_packages() -> None:
    ours = {name for package in TESTED for file in (ROOT / package).rglob("*.py") for name in defined(file)}
    used = [
        f"{file.relative_to(ROOT)}:{line}: {name} is private; test what it does, or make it public"
        for file in sorted(TESTS.rglob("*.py"))
        for line, name in reached(file)
        if is_private(name) and name in ours
    ]
    assert not used, "\n".join(used)


def test_a_private_name_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    file.write_text(
        "from elmo.cli import _a\nimport elmo\nelmo.x._b()\npatch.setattr(elmo, '_c', 1)\nself._d\n_e = 1\n",
        encoding="utf-8",
    )
    assert {name for _, name in reached(file) if is_private(name)} == {"_a", "_b", "_c"}
    assert list(defined(file)) == ["_e"]
