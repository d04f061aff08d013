"""ELMo in spaCy: the component `nlp.add_pipe("elmo")`, and `elmo.Tok2Vec.v1` for training configurations.

spaCy finds both by entry points and imports this file for every pipeline, so the top imports only what spaCy has
already loaded. This module needs the extra `text`.
"""

import multiprocessing
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, no_type_check

import numpy as np
import torch

from elmo.errors import InputError, pip_line
from elmo.forking import renew_at_fork

try:
    import srsly
    from spacy.language import Language
    from spacy.pipeline import Pipe
    from spacy.tokens import Doc, Span, Token
    from spacy.util import minibatch, registry
    from thinc.api import Model
    from thinc.model import deserialize_attr, serialize_attr
except ImportError as error:  # pragma: no cover
    raise InputError(f"elmo in spaCy needs spaCy ({error}): {pip_line('text')}") from error


class Bilm:
    """A biLM that reads documents. It is opened at first use, since a saved pipeline supplies its model later.

    Raises InputError if the model exists and lacks the layers.
    """

    def __init__(self, model: str, layers: Any, precision: str) -> None:
        self.model, self.layers, self.precision = model, layers, precision
        self.n_layers: int | None = None
        self.dim: int | None = None
        """The size of a vector; None, like `n_layers`, while there is no model."""
        self._files: dict[str, bytes] | None = None
        self._embedder: Any = None
        self._own_tokenizer: Any = None
        self._shares_cores = False
        self._check()
        renew_at_fork(self, Bilm._share_cores)

    def read(self, docs: Sequence[Doc], layers: Any = None) -> list[np.ndarray]:
        """Returns the vectors of all tokens: (T, D), or (N, T, D) for layers "all". Whitespace has zeros.

        Sentences are read separately: those of an earlier component, or, without one, those that the model's own
        settings find in the document's text.
        """
        if self._shares_cores:
            torch.set_num_threads(1)
        opened = self._opened()
        tokenizer = self._tokenizer(opened.text)
        parts = [
            [[token for token in part if not token.is_space] for part in _sentences(doc, tokenizer)] for doc in docs
        ]
        sentences = [[token.text for token in part] for doc in parts for part in doc]
        vectors = iter(opened.embed(sentences, self.layers if layers is None else layers))
        found = []
        for doc, parts_of in zip(docs, parts, strict=True):
            read = np.concatenate([next(vectors) for _ in parts_of], axis=-2)
            every = np.zeros((*read.shape[:-2], len(doc), read.shape[-1]), np.float32)
            every[..., [token.i for part in parts_of for token in part], :] = read
            found.append(every)
        return found

    def files(self) -> dict[str, bytes]:
        """Returns the files of the model in the native format, without its softmax."""
        from elmo.formats import load, native

        if self._files is None:
            model = replace(load(self.model), lm_head=None)
            model = model if model.config.char_cnn is None else replace(model, vocabulary=None)
            self._files = native.to_files(model)
        return self._files

    def take(self, files: Any) -> None:
        """Replaces the named model by the one in these files."""
        self._files, self._embedder, self._own_tokenizer = files, None, None
        self._check()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_embedder": None, "_own_tokenizer": None}  # neither can be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        renew_at_fork(self, Bilm._share_cores)
        if multiprocessing.parent_process() is not None:  # it was sent to a worker
            self._share_cores()

    def _share_cores(self) -> None:
        """Makes `read` use one thread in this process, a worker, since there is a worker for each core."""
        self._shares_cores = True

    def _check(self) -> None:
        from elmo import formats
        from elmo.embedding.layers import check_one_vector, layer_selector, vector_size

        try:
            found = self._from_files(formats.describe)
        except (FileNotFoundError, InputError):
            if self._files is not None:
                raise
            return  # a saved pipeline brings its own files, which need not exist under this name
        n_layers = self.n_layers = found.config.lstm.n_layers + 1
        check_one_vector(self.layers)
        if self.layers != "mix":
            layer_selector(self.layers, n_layers)
        self.dim = vector_size(self.layers, n_layers, 2 * found.config.lstm.projection_dim)

    def _opened(self) -> Any:
        from elmo.embedding.embedder import Embedder

        if self._embedder is None:
            self._embedder = self._from_files(lambda path: Embedder.load(path, precision=self.precision))
        return self._embedder

    def _tokenizer(self, text: Any) -> Any:
        from elmo.text.tokenizer import WHITESPACE, Tokenizer

        if self._own_tokenizer is None:
            self._own_tokenizer = Tokenizer(text or WHITESPACE)
        return self._own_tokenizer

    def _from_files(self, function: Any) -> Any:
        from elmo.formats import native

        if self._files is None:
            return function(self.model)
        with native.folder_of(self._files) as folder:
            return function(folder)


class ElmoVectors(Pipe):
    """Sets `doc.tensor`, and hooks for vectors and similarities of tokens, spans and documents."""

    def __init__(self, name: str, bilm: Bilm) -> None:
        self.name = name
        self.bilm = bilm

    def __call__(self, doc: Doc) -> Doc:
        return self._set([doc])[0]

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        for docs in minibatch(stream, size=batch_size):
            try:
                yield from self._set(docs)
            except Exception as error:
                self.get_error_handler()(self.name, self, docs, error)

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        return srsly.msgpack_dumps(self.bilm.files())

    def from_bytes(self, content: bytes, *, exclude: Iterable[str] = ()) -> "ElmoVectors":
        self.bilm.take(srsly.msgpack_loads(content))
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Writes a folder in the native format, which `elmo.load` also opens."""
        from elmo.disk.files import atomic_path
        from elmo.formats import native

        with atomic_path(Path(path), overwrite=True, holds=native.FILES) as folder:
            folder.mkdir()
            for name, content in self.bilm.files().items():
                (folder / name).write_bytes(content)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "ElmoVectors":
        """Reads the model of a folder; other files and folders in it are ignored."""
        from elmo.formats import native

        self.bilm.take({file.name: file.read_bytes() for file in Path(path).iterdir() if file.name in native.FILES})
        return self

    def _set(self, docs: list[Doc]) -> list[Doc]:
        for doc, vectors in zip(docs, self.bilm.read(docs), strict=True):
            doc.tensor = vectors
            doc.user_token_hooks |= {"vector": _of_token, "has_vector": _has_vector, "similarity": _cosine}
            doc.user_span_hooks |= {"vector": _mean, "has_vector": _has_vector, "similarity": _cosine}
            doc.user_hooks |= {"vector": _mean, "has_vector": _has_vector, "similarity": _cosine}
        return docs


SETTINGS = {"model": "default", "layers": "average", "precision": "float32"}


@Language.factory("elmo", assigns=["doc.tensor"], default_config=SETTINGS)
@no_type_check  # the type checker's wrapper in the tests would hide argument names from spaCy
def make_elmo(nlp: Language, name: str, model: str, layers: Any, precision: str) -> ElmoVectors:
    """Makes the component; its settings are those of `Embedder.load` and `embed`, except the layers "all"."""
    if layers == "mix":
        raise InputError("layers is 'mix', which must be trained (elmo.Tok2Vec.v1); here try 'average'")
    return ElmoVectors(name, Bilm(model, layers, precision))


@registry.architectures("elmo.Tok2Vec.v1")
def tok2vec(model: str = "default", layers: Any = "mix", precision: str = "float32") -> Model[Any, Any]:
    """Returns a frozen biLM as the tok2vec of a trainable component, which gives (T, D) for each document.

    `layers` is "mix", a learned mix of all layers (Peters et al. 2018, eq. 1) that starts as their average, or a fixed
    choice. spaCy saves the biLM with the pipeline.
    """
    bilm = Bilm(model, layers, precision)
    params: dict[str, Any] = {"scalars": None, "gamma": None} if layers == "mix" else {}
    return Model("elmo", _forward, init=_begin, dims={"nO": bilm.dim}, params=params, attrs={"bilm": bilm})


def _begin(model: Any, X: Any = None, Y: Any = None) -> None:
    bilm: Bilm = model.attrs["bilm"]
    if bilm.dim is None or bilm.n_layers is None:
        raise InputError(f"{bilm.model}: not a model, or no such file, folder or name; see elmo info and elmo models")
    model.set_dim("nO", bilm.dim)
    if bilm.layers == "mix":
        model.set_param("scalars", model.ops.alloc1f(bilm.n_layers))
        model.set_param("gamma", model.ops.alloc1f(1) + 1)


def _forward(model: Any, docs: Sequence[Doc], is_train: bool) -> tuple[list[Any], Any]:
    bilm: Bilm = model.attrs["bilm"]
    if bilm.layers != "mix":
        return [model.ops.asarray2f(vectors) for vectors in bilm.read(docs)], lambda gradients: []
    scalars, gamma = (model.ops.to_numpy(model.get_param(name)) for name in ("scalars", "gamma"))
    weights = np.exp(scalars - np.logaddexp.reduce(scalars))
    if not is_train:
        mixed = bilm.read(docs, (gamma * weights).tolist())
        return [model.ops.asarray2f(vectors) for vectors in mixed], lambda gradients: []
    every = bilm.read(docs, "all")

    def backprop(gradients: list[Any]) -> list[Any]:
        both = zip(every, map(model.ops.to_numpy, gradients), strict=True)
        of_layers = np.sum([np.einsum("ntd,td->n", layers, gradient) for layers, gradient in both], axis=0)
        of_gamma = of_layers @ weights
        model.inc_grad("gamma", model.ops.asarray1f([of_gamma]))
        model.inc_grad("scalars", model.ops.asarray1f(gamma * weights * (of_layers - of_gamma)))
        return []

    return [model.ops.asarray2f(gamma * np.einsum("n,ntd->td", weights, layers)) for layers in every], backprop


@serialize_attr.register(Bilm)
def _to_bytes(_: Bilm, value: Bilm, name: str, model: Model[Any, Any]) -> bytes:
    return srsly.msgpack_dumps(value.files())


@deserialize_attr.register(Bilm)
def _from_bytes(before: Bilm, value: bytes, name: str, model: Model[Any, Any]) -> Bilm:
    before.take(srsly.msgpack_loads(value))
    return before


def _sentences(doc: Doc, tokenizer: Any) -> Iterable[Span]:
    if len(doc) and doc.has_annotation("SENT_START"):
        return doc.sents
    from elmo.embedding.texts import SplitText

    split = SplitText.of(doc.text, tokenizer)
    if split.offsets is None or len(split.sentences) < 2:
        return [doc[:]]
    begins = [split.offsets[first][0] for first, _ in split.sentences[1:]]
    places = [bisect_left(doc, begin, key=lambda token: token.idx + len(token) - 1) for begin in begins]
    return [doc[begin:end] for begin, end in pairwise(sorted({0, *places, len(doc)}))]


def _of_token(token: Token) -> np.ndarray:
    return token.doc.tensor[token.i]


def _mean(part: Doc | Span) -> np.ndarray:
    """Returns the mean vector of all tokens except whitespace, or zeros if there are none."""
    tensor = part.doc.tensor
    rows = [token.i for token in part if not token.is_space]
    return tensor[rows].mean(axis=0) if rows else np.zeros(tensor.shape[-1], np.float32)


def _has_vector(part: Any) -> bool:
    return bool(part.vector.any())


def _cosine(one: Any, other: Any) -> float:
    lengths = float(np.linalg.norm(one.vector) * np.linalg.norm(other.vector))
    return float(one.vector @ other.vector) / lengths if lengths else 0.0
