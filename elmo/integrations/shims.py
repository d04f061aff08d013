"""Registers stand-ins under the names of packages that can no longer be installed, for programs that import them."""

import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from elmo.errors import InputError
from elmo.integrations import originals
from elmo.integrations.originals import PAGE, StatePolicy, chosen_state, masks_are_bool, missing_name_line


def install_shims(*, state: StatePolicy | None = None, allennlp: str | None = None) -> list[str]:
    """Lets `import allennlp.modules.elmo` and the like find elmo's stand-ins; returns the registered names.

    Stand-ins are there for allennlp, bilm, elmoformanylangs and simple_elmo; an installed package is not touched. Call
    it before the imports that need it; a second call registers nothing.

    `state="carry"` lets their LSTM states go on from batch to batch, as the originals did; `allennlp` is the version of
    AllenNLP that the program was written for: masks are int64 in 0.9 and bool since 1.0. Both apply to objects that are
    made afterwards in this process; None leaves a setting as it was.
    """
    masks_are_bool(allennlp)  # an unknown version is refused before anything is set
    originals.CHOSEN.state = chosen_state(state)
    originals.CHOSEN.allennlp = originals.CHOSEN.allennlp if allennlp is None else allennlp
    stand_ins = _stand_ins()
    absent = {name for name in stand_ins if not _is_there(name.partition(".")[0])}
    for name in sorted(absent):
        _register(name, stand_ins[name])
    if absent:
        sys.meta_path.append(_NoSuchModule())
    return sorted(absent)


def run_program(
    program: Sequence[str], is_module: bool = False, state: StatePolicy = "reset", allennlp: str = "0.9"
) -> None:
    """Runs a Python program with the stand-ins installed; `program` is a path or a module, and its arguments.

    Raises InputError if there is no such program.
    """
    install_shims(state=state, allennlp=allennlp)
    name, *arguments = program
    with _arguments([name, *arguments]):
        package = name.partition(".")[0]
        if is_module and isinstance(sys.modules.get(package), _StandIn):
            raise InputError(f"{name}: the stand-in for {package} has no commands; {PAGE} names the command of elmo")
        if is_module:
            if not _is_there(name):
                raise InputError(f"{name}: no such module; a program that is a file needs no -m")
            runpy.run_module(name, run_name="__main__", alter_sys=True)
            return
        if not Path(name).is_file() and not Path(name, "__main__.py").is_file():
            raise InputError(f"{name}: no such program; give the path of a Python file, or -m and a module")
        sys.path.insert(0, str(Path(name).absolute().parent))
        runpy.run_path(name, run_name="__main__")


@contextmanager
def _arguments(arguments: list[str]) -> Iterator[None]:
    before, path = sys.argv, list(sys.path)
    sys.argv = arguments
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before, path


def _stand_ins() -> dict[str, dict[str, Any]]:
    """Returns the content of each module by the module's name."""
    from elmo.integrations import allennlp, allennlp_data, allennlp_embedder, bilm_tf, elmoformanylangs, simple_elmo

    def of(module: ModuleType, *names: str) -> dict[str, Any]:
        return {name: getattr(module, name) for name in names}

    defaults = of(allennlp_embedder, "DEFAULT_OPTIONS_FILE", "DEFAULT_WEIGHT_FILE", "DEFAULT_BATCH_SIZE")
    boundaries = of(allennlp, "remove_sentence_boundaries")
    mix, lstm = of(allennlp, "ScalarMix"), of(allennlp, "ElmoLstm")
    inner = of(allennlp, "_ElmoBiLm", "_ElmoCharacterEncoder", "batch_to_ids")
    embedder, mapper = of(allennlp, "ElmoTokenEmbedder"), of(allennlp_data, "ELMoCharacterMapper")
    indexer, token = of(allennlp_data, "ELMoTokenCharactersIndexer"), of(allennlp_data, "Token")
    vocabulary, error = of(allennlp_data, "Vocabulary"), of(allennlp_data, "ConfigurationError")
    marks = of(allennlp_data, "DEFAULT_PADDING_TOKEN", "DEFAULT_OOV_TOKEN")
    many, simple = of(elmoformanylangs, "Embedder"), of(simple_elmo, "ElmoModel", "divide_chunks")
    return {
        "allennlp.commands.elmo": of(allennlp_embedder, "ElmoEmbedder") | defaults | inner | boundaries,
        "allennlp.common": error,
        "allennlp.common.checks": error,
        "allennlp.common.file_utils": of(allennlp_data, "cached_path"),
        "allennlp.data": token | vocabulary,
        "allennlp.data.token_indexers": indexer,
        "allennlp.data.token_indexers.elmo_indexer": indexer | mapper,
        "allennlp.data.tokenizers": token,
        "allennlp.data.tokenizers.token": token,
        "allennlp.data.tokenizers.token_class": token,
        "allennlp.data.vocabulary": vocabulary | marks,
        "allennlp.modules": of(allennlp, "Elmo") | mix,
        "allennlp.modules.elmo": of(allennlp, "Elmo") | inner | boundaries | mix | mapper | lstm | error,
        "allennlp.modules.elmo_lstm": lstm,
        "allennlp.modules.scalar_mix": mix,
        "allennlp.modules.token_embedders": embedder,
        "allennlp.modules.token_embedders.elmo_token_embedder": embedder,
        "allennlp.nn.util": boundaries,
        "bilm": of(bilm_tf, "dump_bilm_embeddings"),
        "elmoformanylangs": many,
        "elmoformanylangs.elmo": many,
        "simple_elmo": simple,
        "simple_elmo.elmo": simple,
        "simple_elmo.elmo_helpers": simple,
    }


def _is_there(module: str) -> bool:
    """Returns whether a package or module is installed or registered."""
    try:
        return module in sys.modules or find_spec(module) is not None
    except ImportError:  # of the package that it would be in
        return False


class _StandIn(ModuleType):
    """A module whose error for a missing name says that it is a stand-in, and which names it has."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"module {missing_name_line(self.__name__, name, _public(self))}")


class _NoSuchModule:
    """Reports modules that the stand-ins lack, in a line that says which names they have."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Raises ModuleNotFoundError if `name` belongs to a stand-in's package; other modules are found elsewhere."""
        parent, _, last = name.rpartition(".")
        module = sys.modules.get(parent)
        if isinstance(module, _StandIn) and not last.startswith("__"):
            # With `name=`, Python would replace this line by its own in `from allennlp.modules import X`.
            raise ModuleNotFoundError(missing_name_line(parent, last, _public(module)))


def _public(module: ModuleType) -> list[str]:
    return [name for name in vars(module) if not name.startswith("__")]


def _register(name: str, content: dict[str, Any]) -> None:
    """Puts a module into `sys.modules`, with its parent packages."""
    parent, _, last = name.rpartition(".")
    module = sys.modules.get(name)
    if module is None:
        module = _StandIn(name, f"Stands in for a package that no longer installs; see {PAGE}.")
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        sys.modules[name] = module
    vars(module).update(content)
    if parent:
        _register(parent, {last: module})
