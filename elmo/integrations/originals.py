"""Settings of the whole process for how the stand-ins behave, and their error line for a name that they lack."""

import re
from abc import ABCMeta
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from elmo.errors import InputError

StatePolicy = Literal["reset", "carry"]
PAGE = "docs/migration.md"


@dataclass
class Originals:
    """The defaults of the stand-ins' classes, which `install_shims` sets."""

    state: StatePolicy = "reset"
    """With "reset" every sentence starts from zero; with "carry" LSTM states are carried on as in the original."""
    allennlp: str = "0.9"
    """The version of AllenNLP for which the program was written."""


CHOSEN = Originals()


def chosen_state(state: StatePolicy | None) -> StatePolicy:
    """Returns the given policy, or if it is None, that of the process. Raises InputError for an unknown name."""
    found = CHOSEN.state if state is None else state
    if found not in ("reset", "carry"):
        raise InputError(f"state is {found!r}; reset or carry is expected")
    return found


def masks_are_bool(version: str | None) -> bool:
    """Returns whether this version of AllenNLP has boolean masks, as all since 1.0; None is the process's version."""
    version = CHOSEN.allennlp if version is None else version
    if re.fullmatch(r"[012](\.\d+){0,2}", str(version)) is None:
        raise InputError(f"allennlp is {version!r}; a version such as 0.9, 1 or 2.10 is expected")
    return not str(version).startswith("0")


class StandInClass(ABCMeta):
    """The type of the stand-ins' classes: a name that a class lacks, such as `Elmo.from_params`, is our error line.

    A program's class may inherit from a stand-in and from an abstract class, whose type is `ABCMeta`.
    """

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(missing_name_line(cls.__name__, name, (own for own in vars(cls) if own[0] != "_")))


class StandIn(metaclass=StandInClass):
    """An object or a module of torch whose error for a missing name says that it is a stand-in, and what it has."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)  # type: ignore[misc]  (of a module, which keeps its parts there)
        except AttributeError as error:
            if name.startswith("__"):
                raise AttributeError(name) from error
            of_class = [key for key, value in vars(type(self)).items() if key[0] != "_" or isinstance(value, property)]
            own = [key for key in vars(self) if key[0] != "_" and key not in ("training", "call_super_init")]
            parts = [part for kind in ("_modules", "_parameters") for part in vars(self).get(kind, ())]
            line = missing_name_line(type(self).__name__, name, [*of_class, *own, *parts])
            raise AttributeError(line) from error


def missing_name_line(stand_in: str, name: str, has: Iterable[str]) -> str:
    """Returns the error line for a name that a stand-in does not have."""
    names = ", ".join(sorted(has))
    return f"{stand_in} is elmo-torch's stand-in and has no {name!r}; it has {names} (see {PAGE})"
