"""What all formats read and write: a `Model` in memory, and the `Description` of a model that is not loaded.

torch is imported only where weights are read, since a description needs none.
"""

import copy
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.config import LARGEST_WEIGHT, ConfigError, to_dict
from elmo.errors import InputError
from elmo.model.config import BiLMConfig, Shape
from elmo.text.lexicon import Lexicon
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from elmo.model.bilm import BiLM
    from elmo.model.elmo import Elmo
    from elmo.types import Batch


@dataclass(frozen=True)
class Mix:
    """A layer mix that a task's model learned (Peters et al. 2018, eq. 1)."""

    name: str
    """The place of the mix in that model."""
    scalars: tuple[float, ...]
    """The learned numbers before the softmax, one per layer."""
    gamma: float
    layer_norm: bool = False

    @property
    def weights(self) -> list[float]:
        """Returns the weight of each layer, times `gamma`. Without layer norm they are `layers` for an Embedder."""
        largest = max(self.scalars, default=0.0)
        powers = [math.exp(scalar - largest) for scalar in self.scalars]
        return [self.gamma * power / sum(powers) for power in powers]


@dataclass(frozen=True)
class Model:
    """All parts of a stored model. Weights are float32, with the names of `BiLM.state_dict`."""

    config: BiLMConfig
    weights: "dict[str, Tensor]" = field(repr=False)
    lm_head: "dict[str, Tensor] | None" = field(default=None, repr=False)
    """The softmax over the vocabulary, with the names of `LmHead.state_dict`, if the format has one."""
    vocabulary: Vocabulary | None = None
    text: TextConfig | None = None
    """How the training text was tokenised, if known."""
    card: dict[str, Any] = field(default_factory=dict)
    """Where the model comes from: plain JSON values."""
    mixes: tuple[Mix, ...] = ()
    """The learned layer mixes, if the model comes from a task's model."""
    lexicon: Lexicon | None = None
    """The ids of words and code points, for a model that reads both (`word_cnn`)."""

    @property
    def inputs(self) -> Vocabulary | Lexicon | None:
        """The vocabulary or lexicon that maps input words to ids; None if the model reads bytes."""
        return None if self.config.char_cnn is not None else self.lexicon or self.vocabulary

    @property
    def normalize(self) -> tuple[str, ...]:
        """The steps to the spelling that the model reads, as in `TextConfig`."""
        return () if self.text is None else self.text.normalize

    def to_batch(self, sentences: Iterable[Iterable[str]]) -> "Batch":
        """Returns tokenised sentences as the network reads them, with `<S>` and `</S>` around each."""
        from elmo.text.batching import to_batch

        if self.config.char_cnn is None:
            return to_batch(sentences, vocabulary=self.inputs, normalize=self.normalize)
        return to_batch(sentences, self.config.char_cnn.max_characters_per_token, normalize=self.normalize)

    def elmo(self, dropout: float = 0.5, frozen: bool = True) -> "Elmo":
        """Returns the network with its learned mixes, in order, or with one new mix if there are none.

        A frozen biLM shares its weights with this object; one that will be trained gets its own.
        """
        import torch

        from elmo.model.elmo import Elmo

        bilm = self.bilm() if frozen else copy.deepcopy(self.bilm())
        elmo = Elmo(bilm, max(1, len(self.mixes)), dropout, frozen=frozen)
        for mix, module in zip(self.mixes, elmo.mixes, strict=False):
            module.load_state_dict({"scalars": torch.tensor(mix.scalars), "gamma": torch.tensor(mix.gamma)})
            module.layer_norm = mix.layer_norm  # type: ignore[assignment]
        return elmo

    def bilm(self) -> "BiLM":
        """Returns the network in evaluation mode. It shares its weights with this object; train a `copy.deepcopy`."""
        import torch

        from elmo.model.bilm import BiLM

        with torch.device("meta"):
            bilm = BiLM(self.config)
        bilm.load_state_dict(self.weights, assign=True)
        return bilm.eval()


@dataclass(frozen=True)
class Description:
    """A stored model, described from its headers alone."""

    path: Path
    format: str
    config: BiLMConfig
    shapes: dict[str, Shape]
    """The shape of each weight, with the names of `BiLM.state_dict`."""
    dtype: str
    """The type of the stored weights."""
    bytes_on_disk: int
    lm_head: dict[str, Shape] | None = None
    vocabulary: Vocabulary | None = None
    text: TextConfig | None = None
    card: dict[str, Any] = field(default_factory=dict)
    mixes: tuple[str, ...] = ()
    """The names of the learned mixes."""

    @property
    def parameters(self) -> dict[str, int]:
        """The numbers of parameters of the token encoder, of the LSTMs, and of the softmax if there is one."""
        encoder = {name: shape for name, shape in self.shapes.items() if name.startswith("token_encoder.")}
        lstm = {name: shape for name, shape in self.shapes.items() if name not in encoder}
        parts = {"token encoder": encoder, "LSTMs": lstm} | ({"softmax": self.lm_head} if self.lm_head else {})
        return {part: sum(map(math.prod, shapes.values())) for part, shapes in parts.items()}

    @property
    def bytes_in_memory(self) -> int:
        """The bytes of the loaded weights, as float32."""
        return 4 * sum(self.parameters.values())


def check_counts(config: BiLMConfig, arrays: int, remedy: str) -> None:
    """Raises ConfigError for numbers that are impossible in a file of so many arrays.

    It is called before anything of that size is created.
    """
    char_cnn = config.char_cnn if config.word_cnn is None else config.word_cnn.char_cnn
    n_highway = 0 if char_cnn is None else char_cnn.n_highway
    counts = {"lstm.n_layers": config.lstm.n_layers, "char_cnn.n_highway": n_highway}
    for name, count in counts.items():
        if count > arrays:
            raise ConfigError(f"{name} is {count}; at most {arrays} are possible; {remedy}")


def check_shapes(
    file: Path | str, seen: Mapping[str, Shape], expected: Mapping[str, Shape], remedy: str, exact: bool = False
) -> None:
    """Raises InputError for the first dataset of `file` that is missing, of another shape or, if `exact`, unknown."""
    for name, shape in expected.items():
        if name not in seen:
            raise InputError(f"{file}: {name} is missing; shape {shape} is expected; {remedy}")
        if seen[name] != shape:
            raise InputError(f"{file}: {name} has shape {seen[name]}; {shape} is expected; {remedy}")
    for name in seen if exact else ():
        if name not in expected:
            raise InputError(f"{file}: {name} {seen[name]} is not part of the model; {remedy}")


def check_words(path: Path | str, model: Model) -> None:
    """Raises InputError if `model`, to be written to `path`, lacks the ids of its words: nothing could open it."""
    lacks_words = model.vocabulary is None and (model.config.n_tokens_vocab is not None or model.lm_head)
    lacks_lexicon = model.lexicon is None and model.config.word_cnn is not None
    if lacks_words or lacks_lexicon:
        missing = "vocabulary" if lacks_words else "lexicon"
        raise InputError(
            f"{path}: the model has weights for words but no {missing}; add it:"
            f" dataclasses.replace(model, {missing}=...)"
        )


def check_finite(path: Path | str, model: Model) -> None:
    """Raises InputError for the first weight of `model`, read from `path`, that could make vectors NaN.

    That is one with a value that is not finite or, in the biLM, larger than `LARGEST_WEIGHT`.
    """
    import torch

    mixes = {f"mix {mix.name}": torch.tensor([*mix.scalars, mix.gamma]) for mix in model.mixes}
    softmax = {f"softmax {name}": weight for name, weight in (model.lm_head or {}).items()}
    largest = torch.finfo(torch.float32).max
    for weights, limit in ((model.weights, LARGEST_WEIGHT), (softmax | mixes, largest)):
        for name, weight in weights.items():
            low, high = torch.aminmax(weight)  # both are NaN if any number is
            if not (low >= -limit and high <= limit):
                count = int((~(weight.abs() <= limit)).sum())
                beyond = "NaN or infinite" if limit == largest else f"NaN, infinite or beyond {limit:,.0f}"
                raise InputError(
                    f"{path}: {name} has {count:,} of {weight.numel():,} values that are {beyond}; the file is damaged"
                    " or its training diverged: copy it again, or use an earlier checkpoint"
                )


def content_hash(model: Model) -> str:
    """Returns the sha256 of everything that a model's vectors depend on: shape, weights, and the ids of its words."""
    digest = hashlib.sha256(json.dumps(to_dict(model.config), sort_keys=True).encode())
    for name, weight in sorted(model.weights.items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().contiguous().float().numpy().tobytes())
    if model.text is not None and model.text.normalize:
        digest.update(json.dumps(sorted(model.text.normalize)).encode())
    inputs = model.inputs
    if isinstance(inputs, Lexicon):
        digest.update(json.dumps([_items(inputs.words), _items(inputs.characters)]).encode())
        if inputs.characters is None and inputs.max_characters is not None:  # else it is in the config
            digest.update(f"max_characters {inputs.max_characters}".encode())
    elif inputs is not None:
        digest.update(inputs.sha256.encode())
    return digest.hexdigest()


def _items(table: object) -> object:
    return None if table is None else sorted(dict(table).items())  # type: ignore[call-overload]
