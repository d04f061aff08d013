"""The sizes of a biLM, with the names of the published `options.json`, and the shapes of its weights.

Imports neither torch nor numpy, so a model can be described before they are.
"""

from dataclasses import dataclass, field
from math import prod
from typing import Literal

from elmo.config import MOST_LAYERS, ConfigError, check_range, check_sizes
from elmo.errors import shown

Shape = tuple[int, ...]
EMBEDDING = "token_encoder.embedding"
"""The table of characters or words among the weights."""
MOST_CHARACTERS_PER_TOKEN = 10_000
MOST_BYTES = 2**63 - 1
"""The most bytes of a tensor, which torch counts in 64 bits."""


@dataclass(frozen=True)
class LstmConfig:
    """Sizes of the LSTMs, with the names of `options.json`."""

    dim: int = 4096
    """The memory cells per layer and direction (H)."""
    projection_dim: int = 512
    """The output size per layer and direction (P)."""
    n_layers: int = 2
    """The number of LSTM layers (L)."""
    cell_clip: float | None = 3.0
    """The largest magnitude of a memory cell; none means no limit."""
    proj_clip: float | None = 3.0
    """The largest magnitude of a projected output; none means no limit."""
    use_skip_connections: bool = True
    """Whether the input of a layer, except the first, is added to its output."""
    forget_bias: float = 1.0
    """The number that is added to the forget gate at run time."""
    always_project: bool = False
    """Whether the layers have a projection even if `dim` equals `projection_dim`."""

    def __post_init__(self) -> None:
        check_range(self, ("dim", "projection_dim"), 1)
        check_sizes(self, ("n_layers",), most=MOST_LAYERS)
        for name in ("cell_clip", "proj_clip"):
            clip = getattr(self, name)
            if clip is not None and clip <= 0:
                raise ConfigError(f"{name} is {clip}; a positive number is expected, or nothing for no clip")

    @property
    def has_projection(self) -> bool:
        """Whether the output is a projection of the cell's output."""
        return self.always_project or self.dim != self.projection_dim


@dataclass(frozen=True)
class CharCnnConfig:
    """Sizes of the character CNN, with the names of `options.json`."""

    embedding_dim: int = 16
    """The size of a character's vector (E)."""
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    """The width in characters and the number of filters of every convolution."""
    n_highway: int = 2
    """The number of highway layers."""
    n_characters: int = 262
    """The rows of the character embedding, including row 0 for padding."""
    max_characters_per_token: int = 50
    """The most ids of a word, its two marks included; longer words are cut."""
    activation: Literal["relu", "tanh"] = "relu"
    """The function that is applied to the largest value of each filter."""

    def __post_init__(self) -> None:
        if min((number for pair in self.filters for number in pair), default=0) < 1:
            raise ConfigError(f"filters is {list(self.filters)}; pairs (width, number) of at least 1 are expected")
        for name, least, why in (
            ("embedding_dim", 1, ""),
            ("n_characters", 2, ": padding and one character"),
            ("max_characters_per_token", self.widest, ": the widest filter"),
            ("max_characters_per_token", 3, ": two marks and one character"),
        ):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; at least {least} is expected{why}")
        check_sizes(self, ("n_highway",), least=0, most=MOST_LAYERS)
        check_sizes(self, ("max_characters_per_token",), most=MOST_CHARACTERS_PER_TOKEN)

    @property
    def widest(self) -> int:
        """The width of the widest filter."""
        return max(width for width, _ in self.filters)

    @property
    def n_filters(self) -> int:
        """F: the filters of all widths together."""
        return sum(count for _, count in self.filters)


@dataclass(frozen=True)
class WordCnnConfig:
    """Sizes of a token encoder that reads words, their characters, or both."""

    n_words: int = 0
    """The rows of the table of words, including row 0 for padding; 0 means that there is no table."""
    word_dim: int = 0
    """The size of a word's vector."""
    char_cnn: CharCnnConfig | None = None
    """The character part, without a projection of its own."""

    def __post_init__(self) -> None:
        if (self.n_words > 0) != (self.word_dim > 0) or min(self.n_words, self.word_dim) < 0:
            raise ConfigError(f"n_words is {self.n_words} and word_dim {self.word_dim}; both are positive, or both 0")
        if self.char_cnn is None and not self.n_words:
            raise ConfigError("word_cnn has neither words nor characters; give n_words and word_dim, or char_cnn")

    @property
    def n_features(self) -> int:
        """The input size of the projection."""
        return self.word_dim + (0 if self.char_cnn is None else self.char_cnn.n_filters)

    @property
    def ids_per_token(self) -> int:
        """The ids of a token: the word's, then its characters'."""
        return (self.n_words > 0) + (0 if self.char_cnn is None else self.char_cnn.max_characters_per_token)


@dataclass(frozen=True)
class BiLMConfig:
    """Everything that determines the shape of a biLM, with the names of the published `options.json`.

    A model reads characters (`char_cnn`), words (`n_tokens_vocab`) or both (`word_cnn`); the other two are None.
    """

    lstm: LstmConfig = field(default_factory=LstmConfig)
    char_cnn: CharCnnConfig | None = field(default_factory=CharCnnConfig)
    n_tokens_vocab: int | None = None
    """The number of words in the embedding table of a model that reads words."""
    word_cnn: WordCnnConfig | None = None

    def __post_init__(self) -> None:
        for name, kind in (("lstm", LstmConfig), ("char_cnn", CharCnnConfig), ("word_cnn", WordCnnConfig)):
            part = getattr(self, name)
            if not isinstance(part, kind) and (part is not None or name == "lstm"):
                raise ConfigError(f"{name} is {shown(part)}; a {kind.__name__} is expected")
        given = [part for part in (self.char_cnn, self.n_tokens_vocab, self.word_cnn) if part is not None]
        if len(given) != 1:
            raise ConfigError(
                f"{len(given)} of char_cnn, n_tokens_vocab and word_cnn are given; a model reads characters, words or"
                " both: exactly one is expected"
            )
        check_range(self, ("n_tokens_vocab",), 1)

    @property
    def reads(self) -> str:
        """The part of a token that the model reads: its characters, the word, or both."""
        if self.word_cnn is None:
            return "words" if self.char_cnn is None else "characters"
        parts = {"words": self.word_cnn.n_words, "code points": self.word_cnn.char_cnn}
        return " and ".join(part for part, there in parts.items() if there)

    @property
    def ids_per_token(self) -> int:
        """C, the size of a token's row in `Batch.char_ids`: its characters, or 1 if the model reads words."""
        if self.word_cnn is not None:
            return self.word_cnn.ids_per_token
        return 1 if self.char_cnn is None else self.char_cnn.max_characters_per_token


def weight_shapes(config: BiLMConfig) -> dict[str, Shape]:
    """Returns the shapes of all weights of a biLM, with the names and in the order of `BiLM.state_dict`.

    Raises ConfigError for impossibly large sizes.
    """
    shapes = {f"token_encoder.{name}": shape for name, shape in _encoder_shapes(config).items()}
    gates, size = 4 * config.lstm.dim, config.lstm.projection_dim
    layer: dict[str, Shape] = {"weight_input": (2, gates, size), "weight_state": (2, gates, size), "bias": (2, gates)}
    if config.lstm.has_projection:
        layer["weight_projection"] = (2, size, config.lstm.dim)
    for number in range(config.lstm.n_layers):
        shapes |= {f"layers.{number}.{name}": shape for name, shape in layer.items()}
    for name, shape in shapes.items():
        if 4 * prod(shape) > MOST_BYTES:
            raise ConfigError(f"no network has these sizes ({name} {shape}); the file is damaged, or not a model")
    return shapes


def _encoder_shapes(config: BiLMConfig) -> dict[str, Shape]:
    size = config.lstm.projection_dim
    if config.word_cnn is not None:
        words, characters = config.word_cnn, config.word_cnn.char_cnn
        shapes: dict[str, Shape] = {"words": (words.n_words, words.word_dim)} if words.n_words else {}
        if characters is not None:
            own = _char_cnn_shapes(characters, characters.n_filters)
            shapes |= {f"char_cnn.{name}": shape for name, shape in own.items()}
        return shapes | {"projection.weight": (size, words.n_features), "projection.bias": (size,)}
    if config.char_cnn is not None:
        return _char_cnn_shapes(config.char_cnn, size)
    assert config.n_tokens_vocab is not None
    return {"embedding": (config.n_tokens_vocab + 1, size)}


def _char_cnn_shapes(cnn: CharCnnConfig, size: int) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {"embedding": (cnn.n_characters, cnn.embedding_dim)}
    for number, (width, count) in enumerate(cnn.filters):
        own = f"convolutions.{number}"
        shapes |= {f"{own}.weight": (count, cnn.embedding_dim, width), f"{own}.bias": (count,)}
    for number in range(cnn.n_highway):
        for gate in ("transform", "carry"):
            own = f"highways.{number}.{gate}"
            shapes |= {f"{own}.weight": (cnn.n_filters, cnn.n_filters), f"{own}.bias": (cnn.n_filters,)}
    if cnn.n_filters != size:
        shapes |= {"projection.weight": (size, cnn.n_filters), "projection.bias": (size,)}
    return shapes
