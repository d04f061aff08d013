"""The names of packages that no longer install, for programs that still import them."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def install_shims() -> list[str]:
    """Lets `import allennlp.commands.elmo` and the like find our stand-ins; returns the registered names.

    Names are allennlp.commands.elmo, allennlp.modules.elmo, elmoformanylangs and simple_elmo. An installed package is
    not touched. Call it before the imports that need it; a second call changes nothing.
    """
    from elmo.integrations import allennlp, elmoformanylangs, simple_elmo

    command = {
        name: getattr(allennlp, name) for name in ("ElmoEmbedder", "DEFAULT_OPTIONS_FILE", "DEFAULT_WEIGHT_FILE")
    }
    command["DEFAULT_BATCH_SIZE"] = allennlp.DEFAULT_BATCH_SIZE
    modules = {name: getattr(allennlp, name) for name in ("Elmo", "_ElmoBiLm", "batch_to_ids")}
    stand_ins: dict[str, dict[str, Any]] = {
        "allennlp.commands.elmo": command,
        "allennlp.modules.elmo": modules,
        "elmoformanylangs": {"Embedder": elmoformanylangs.Embedder},
        "simple_elmo": {"ElmoModel": simple_elmo.ElmoModel},
    }
    absent = {name for name in stand_ins if not _is_there(name.partition(".")[0])}
    for name in absent:
        _register(name, stand_ins[name])
    return sorted(absent)


def _is_there(package: str) -> bool:
    """Whether a package is installed or registered."""
    return package in sys.modules or find_spec(package) is not None


def _register(name: str, content: dict[str, Any]) -> None:
    """Puts a module into `sys.modules`, with its parent packages."""
    parent, _, last = name.rpartition(".")
    module = sys.modules.get(name)
    if module is None:
        module = ModuleType(name, "Stands in for a package that no longer installs: elmo.integrations.install_shims().")
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        sys.modules[name] = module
    vars(module).update(content)
    if parent:
        _register(parent, {last: module})
