"""The checker of annotations that jaxtyping's import hook uses in the tests (named in pyproject.toml), and how often.

beartype, which by itself refuses `Self` in a method that is decorated before its class is, and whole numbers as floats.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Self

from beartype import BeartypeConf, FrozenDict, beartype

check = beartype(conf=BeartypeConf(hint_overrides=FrozenDict({Self: Any}), is_pep484_tower=True))

CHECKED = 5
"""Calls of a function that are checked in each test: of a loop over tokens the first ones say what all of them do."""

KERNELS = "elmo.ops.kernels"
"""Triton reads the source of its functions, which say nothing of types, and needs them as they are."""

calls: Counter[Callable[..., Any]] = Counter()
"""In this test."""


def sparing(jaxtyped: Callable[..., Any]) -> Callable[..., Any]:
    """jaxtyping's decorator, for the first calls of each test: a check takes longer than a step of a small LSTM."""

    def decorator(what: Any = None, *, typechecker: Any) -> Any:
        if what is None:
            return partial(decorator, typechecker=typechecker)
        if not isinstance(what, type):
            if what.__module__ == KERNELS:
                return what
            return _at_first(partial(jaxtyped, what, typechecker=typechecker), what)
        plain = what.__init__
        jaxtyped(what, typechecker=typechecker)
        if what.__init__ is not plain:  # of a dataclass
            checked = what.__init__
            what.__init__ = _at_first(lambda: checked, plain)
        return what

    return decorator


def _at_first(make: Callable[[], Callable[..., Any]], plain: Callable[..., Any]) -> Callable[..., Any]:
    """`make` gives the function that checks. It is asked when first needed: for all functions that takes seconds."""
    made: list[Callable[..., Any]] = []

    @wraps(plain)
    def function(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        calls[plain] += 1
        if calls[plain] > CHECKED:
            return plain(*arguments, **named)
        if not made:
            made.append(make())
        return made[0](*arguments, **named)

    return function
