"""Converts vectors to what the caller of `Embedder.embed` wants: arrays, tensors or a data frame. Computes cosines."""

from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from elmo.embedding.pooling import Pool, unit_vectors
from elmo.embedding.texts import TextVectors
from elmo.errors import InputError, installer, shown
from elmo.text.given import row_labels

Returned = Literal["numpy", "torch", "pandas"]


def returned_vectors(arrays: Iterable[np.ndarray], given: Any, pool: Pool | None, to: str) -> Any:
    """Returns the arrays of `given` as a list, as tensors or as a data frame; see `Embedder.embed`."""
    if to == "numpy":
        return list(arrays)
    if to == "torch":
        tensors = [torch.from_numpy(np.asarray(array)) for array in arrays]
        return tensors if pool is None or not tensors else torch.stack(tensors)
    try:
        return _frame(arrays, given, pool)
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end]
        raise InputError(f"a token has {half!r}, half of a character, which pandas refuses; use to='numpy'") from error


def _frame(arrays: Iterable[np.ndarray], given: Any, pool: Pool | None) -> Any:
    """A data frame with rows (text, sentence, token, start, end, vector) or, if pooled, (text, vector).

    The column `text` of a token names its text by the index of the given column, or by the text's number.
    """
    try:
        import pandas
    except ImportError as error:
        raise InputError(f"to='pandas' needs pandas ({error}): {installer()} pandas") from error
    given = given if hasattr(given, "__getitem__") else list(given)
    labels: Any = row_labels(given)
    if pool is not None:
        texts = [
            (vectors.text if isinstance(vectors, TextVectors) else " ".join(text), np.asarray(vectors))
            for vectors, text in zip(arrays, given, strict=True)
        ]
        return pandas.DataFrame(texts, index=labels, columns=["text", "vector"])
    columns = ["text", "sentence", "token", "start", "end", "vector"]
    names = range(len(given)) if labels is None else labels
    rows = [row for name, vectors, text in zip(names, arrays, given, strict=True) for row in _rows(name, vectors, text)]
    return pandas.DataFrame(rows, columns=columns)


def _rows(name: Any, vectors: np.ndarray, given: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of one text's tokens; start and end are missing if the text was given as tokens."""
    by_token = np.moveaxis(np.asarray(vectors), -2, 0)
    if not isinstance(vectors, TextVectors):
        yield from ((name, 0, token, None, None, vector) for token, vector in zip(given, by_token, strict=True))
        return
    spans = vectors.offsets or [(None, None)] * len(vectors.tokens)
    for sentence, (begin, end) in enumerate(vectors.sentences):
        for place in range(begin, end):
            yield name, sentence, vectors.tokens[place], *spans[place], by_token[place]


def cosine_similarities(a: Float[np.ndarray, "*A D"], b: Float[np.ndarray, "*B D"]) -> Any:
    """Returns the cosines between vectors: a float for one and one, else (A, B), (A,) or (B,).

    The cosine of a zero vector with any other is 0.
    """
    a, b = (each if each.size else each.reshape(0, other.shape[-1]) for each, other in ((a, b), (b, a)))
    if max(a.ndim, b.ndim) > 2 or a.shape[-1] != b.shape[-1]:
        raise InputError(
            f"vectors of the shapes {a.shape} and {b.shape} are given; (D,) or (T, D) with the same D is expected:"
            " choose a layer, or layers='average'"
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError("a vector has values that are not finite, such as NaN; leave it out")
    found = unit_vectors(a) @ unit_vectors(b).T
    return float(found) if found.ndim == 0 else found


def given_vectors(given: Any) -> Float[np.ndarray, "*A D"] | None:
    """Returns vectors that a caller gives as arrays, tensors, a column or lists of numbers; None if `given` is text."""
    if hasattr(given, "to_list"):  # a column of pandas or Polars
        given = given.to_list()
    elif getattr(getattr(given, "dtype", None), "kind", "") == "O":
        given = list(given)
    first = given
    while isinstance(first, list | tuple) and len(first):
        if any(isinstance(each, str) for each in first):
            return None  # texts, of which the first may be missing, as NaN
        first = first[0]
    is_real = isinstance(first, Real) and not isinstance(first, bool)
    kind = getattr(getattr(first, "dtype", None), "kind", None)  # of an array or a column
    if not is_real and kind not in ("f", "i", "u") and not isinstance(first, Tensor):
        return None
    try:
        found = np.asarray(_plain(given), np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{shown(given)} is given; vectors of numbers, of one size, are expected") from error
    if not found.ndim:
        raise InputError(f"the number {shown(given)} is given; a vector or a text is expected")
    return found


def _plain(given: Any) -> Any:
    """Lists of arrays instead of lists of tensors, whose type, device or gradient NumPy may not know."""
    if isinstance(given, Tensor):
        return given.detach().double().cpu().numpy()
    return [_plain(each) for each in given] if isinstance(given, list | tuple) else given
