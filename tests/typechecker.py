"""The checker of annotations that jaxtyping's import hook uses in the tests (named in pyproject.toml).

beartype, which by itself refuses `Self` in a method that is decorated before its class is.
"""

from typing import Any, Self

from beartype import BeartypeConf, FrozenDict, beartype

check = beartype(conf=BeartypeConf(hint_overrides=FrozenDict({Self: Any})))
