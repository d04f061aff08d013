"""Registers stand-ins under the names of packages that can no longer be installed, for programs that import them."""

import runpy
import sys
from collections.abc import Sequence
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
    name = program[0]
    package = name.partition(".")[0]
    before, path = sys.argv, list(sys.path)
    sys.argv = list(program)
    try:
        if is_module:
            if isinstance(sys.modules.get(package), _StandIn):
                raise InputError(f"{name}: the stand-in for {package} has no commands; {PAGE} names elmo's command")
            if not _is_there(name):
                raise InputError(f"{name}: no such module; a program that is a file needs no -m")
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            if not Path(name).is_file() and not Path(name, "__main__.py").is_file():
                raise InputError(f"{name}: no such program; give the path of a Python file, or -m and a module")
            sys.path.insert(0, str(Path(name).absolute().parent))
            runpy.run_path(name, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before, path


INNER = "_ElmoBiLm _ElmoCharacterEncoder batch_to_ids remove_sentence_boundaries"
STAND_INS = {
    "allennlp.commands.elmo": f"ElmoEmbedder DEFAULT_OPTIONS_FILE DEFAULT_WEIGHT_FILE DEFAULT_BATCH_SIZE {INNER}",
    "allennlp.common": "ConfigurationError",
    "allennlp.common.checks": "ConfigurationError",
    "allennlp.common.file_utils": "cached_path",
    "allennlp.data": "Token Vocabulary",
    "allennlp.data.token_indexers": "ELMoTokenCharactersIndexer",
    "allennlp.data.token_indexers.elmo_indexer": "ELMoTokenCharactersIndexer ELMoCharacterMapper",
    "allennlp.data.tokenizers": "Token",
    "allennlp.data.tokenizers.token": "Token",
    "allennlp.data.tokenizers.token_class": "Token",
    "allennlp.data.vocabulary": "Vocabulary DEFAULT_PADDING_TOKEN DEFAULT_OOV_TOKEN",
    "allennlp.modules": "Elmo ScalarMix",
    "allennlp.modules.elmo": f"Elmo {INNER} ScalarMix ELMoCharacterMapper ElmoLstm ConfigurationError",
    "allennlp.modules.elmo_lstm": "ElmoLstm",
    "allennlp.modules.scalar_mix": "ScalarMix",
    "allennlp.modules.token_embedders": "ElmoTokenEmbedder",
    "allennlp.modules.token_embedders.elmo_token_embedder": "ElmoTokenEmbedder",
    "allennlp.nn.util": "remove_sentence_boundaries",
    "bilm": "dump_bilm_embeddings",
    "elmoformanylangs": "Embedder",
    "elmoformanylangs.elmo": "Embedder",
    "simple_elmo": "ElmoModel divide_chunks",
    "simple_elmo.elmo": "ElmoModel divide_chunks",
    "simple_elmo.elmo_helpers": "ElmoModel divide_chunks",
}
"""The names in each module."""


def _stand_ins() -> dict[str, dict[str, Any]]:
    """Returns the content of each module by the module's name."""
    from elmo.integrations import allennlp, allennlp_data, allennlp_embedder, elmoformanylangs, simple_elmo

    homes = {"allennlp": vars(allennlp_data) | vars(allennlp), "bilm": vars(allennlp_embedder)}
    homes |= {"elmoformanylangs": vars(elmoformanylangs), "simple_elmo": vars(simple_elmo)}
    return {
        module: {name: homes[module.partition(".")[0]][name] for name in names.split()}
        for module, names in STAND_INS.items()
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
