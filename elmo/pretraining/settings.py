"""The settings of `elmo train`, with their checks, and which of them a resumed run keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from elmo import config as configs
from elmo.disk.run import read_settings
from elmo.errors import InputError, path_of
from elmo.formats import Description, describe, native
from elmo.model.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.pretraining import initial
from elmo.pretraining.initial import InitVocab
from elmo.pretraining.objective import ObjectiveConfig
from elmo.text.characters import PADDING
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import SPECIAL
from elmo.training.loop import LoopConfig
from elmo.training.optim import OptimConfig

SMALL = BiLMConfig(
    LstmConfig(dim=1024, projection_dim=128),
    CharCnnConfig(filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 256)), n_highway=1),
)
"""A size that an ordinary CPU trains in hours."""


@dataclass(frozen=True)
class TrainConfig:
    """All settings of a run. Texts are files or patterns; `.gz` and `.xz` are decompressed."""

    train: tuple[str, ...]
    """The text files to train on, or patterns of them."""
    output: str
    """The folder of the run; the model is its folder `model`."""
    heldout: tuple[str, ...] = ()
    """The text files, or patterns of them, to measure perplexity on."""
    init_from: str | None = None
    """A model whose weights the run starts from; `model` is then its configuration."""
    init_vocab: InitVocab = "keep"
    """Whether the vocabulary of the model `init_from` is kept, replaced or extended; see `initial`."""
    vocab: str | None = None
    """A vocabulary file; by default the vocabulary is counted from the training text."""
    vocab_size: int = 50_000
    """The most words that the model predicts, special ones included."""
    min_count: int = 2
    """The fewest occurrences of a known word; rarer words are unknown."""
    text: TextConfig = field(default_factory=TextConfig)
    model: BiLMConfig = SMALL
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
    streams: int = 64
    """The number of parallel streams of text, over all processes, which is the size of the batch."""
    shares: int = 1
    """The number of parts of the text, each with its own streams; a process opens only the files of its shares."""
    window: int = 20
    """The tokens of backpropagation through time; the state is carried to the next window."""
    epochs: float = 1.0
    """How many times the text is read; 0.5 reads half of it."""
    max_words: int | None = None
    """The number of words (sentence ends included) after which training stops, if that is before `epochs`."""
    evaluate_words: int | None = 20_000
    """The number of held-out words for perplexities during training; none means all."""
    seed: int = 1
    """The seed of all random numbers."""
    ids: str | None = None
    """A folder for the text as ids, which runs on the same text may share; by default `text` in the run's folder."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """The precision of products, as Lightning names it; the weights are float32 with both."""
    compiled: bool = True
    """Whether to compile the LSTM's steps, given a C compiler: faster on a CPU, with different last bits. A run records
    what it did and keeps to it."""
    store: native.Store = "float32"
    """The type in which the model's weights are stored; checkpoints are always exact."""
    replayed: bool = True
    """Whether one GPU repeats its step as a CUDA graph, given Triton: several times faster, with other last bits."""
    deterministic: bool = False
    """Whether a GPU sorts the rows of tables that it adds, so that two runs are equal bit for bit; somewhat slower."""
    accelerator: str = "auto"
    """The kind of device as Lightning names it, `cpu` or `cuda`; `auto` takes a GPU if there is one."""
    devices: int = 1
    """The number of processes on each machine; with `cuda`, each has a GPU."""
    nodes: int = 1
    """The number of machines."""
    wait_minutes: float = 30.0
    """The minutes that a process waits for another; while words are counted it is a day."""
    prefetch: bool = True
    """Whether batches are prepared in another process."""


MOST_EPOCHS, MOST_MINUTES = 1_000_000, 1_000_000
"""The most epochs; more is a mistake, and a nearly infinite number gives no number of steps."""
OF_MACHINES = {
    "train", "heldout", "output", "ids",
    "precision", "compiled", "replayed", "deterministic", "accelerator", "prefetch",
}  # fmt: skip
"""The settings that may differ between machines: where files are, and how the machine computes."""
MAY_CHANGE = OF_MACHINES | {
    "loop", "optim", "epochs", "max_words", "evaluate_words", "store", "devices", "nodes", "wait_minutes",
}  # fmt: skip
"""The settings that a resumed run may change; they affect neither the order of data nor the content of checkpoints.

The training files may have moved: their fingerprint shows that they are the same.
"""
FOR_WEIGHTS = ("epochs", "max_words", "optim", "precision")
"""Those of these settings that the weights depend on."""


def check_numbers(config: TrainConfig) -> None:
    """Refuses settings of the right type with a senseless value, before anything is counted or written."""
    loop, optim, objective = config.loop, config.optim, config.objective
    characters = config.model.char_cnn
    if characters is None:
        given = "the model" if config.init_from is None else config.init_from
        remedy = "give model.char_cnn" if config.init_from is None else "name another model as --init-from"
        raise InputError(f"{given} reads {config.model.reads}; pretraining reads characters: {remedy}")
    if characters.n_characters <= PADDING:
        raise InputError(
            f"model.char_cnn.n_characters is {characters.n_characters}; at least {PADDING + 1} are needed for bytes"
            " and the marks of word and sentence boundaries"
        )
    for name in ("output", "vocab", "ids", "init_from"):
        if getattr(config, name) is not None:
            path_of(name, getattr(config, name))
    configs.check_range(config, ("max_words", "evaluate_words"), 1)
    configs.check_range(config, ("vocab_size",), 1 + len(SPECIAL))
    configs.check_range(config, ("seed",), 0, configs.SEEDS)
    configs.check_sizes(config, ("streams", "shares", "window", "devices", "nodes"))
    configs.check_above(config, ("wait_minutes",), MOST_MINUTES)
    configs.check_above(config, ("epochs",), MOST_EPOCHS)
    configs.check_sizes(loop, ("accumulate",), "loop.")
    configs.check_range(loop, ("log_steps", "evaluate_steps", "checkpoint_steps"), 1, where="loop.")
    configs.check_range(loop, ("checkpoint_minutes",), 0, where="loop.")
    configs.check_sizes(objective, ("negatives",), "objective.", least=0)
    configs.check_above(objective, ("loss_scale",), where="objective.")
    numbers = ("clip_norm", "lr", "weight_decay", "initial_accumulator", "vector_decay", "table_decay")
    configs.check_range(optim, numbers, 0, where="optim.")
    configs.check_range(optim, ("betas",), 0, 1, "optim.")
    configs.check_range(objective, ("dropout",), 0, 1, "objective.")
    configs.check_sizes(objective, ("reset_probability",), "objective.", least=0, most=1)
    configs.check_sizes(optim, ("decay", "lowest"), "optim.", least=0, most=1)
    if config.streams % (config.devices * config.nodes):
        raise InputError(
            f"streams is {config.streams}; a multiple of {config.devices * config.nodes} processes is expected"
        )


def read_record(record: Path) -> TrainConfig:
    """Reads the configuration of a run from its `train.json`."""
    return read_settings(TrainConfig, record)


def on_its_base(given: Mapping[str, Any], record: Path | None) -> tuple[dict[str, Any], Description | None]:
    """Returns the settings `given` on top of those that a run begins with, and the model that it opens to start from.

    These are the settings in its `record`, `train.json`, where a run goes on, else those of the model that it starts
    from. Raises InputError if the record is damaged, and the errors of `elmo.formats.describe`.
    """
    if record is not None and record.is_file():
        return configs.merge_tables(configs.to_dict(read_record(record)), given), None
    path = given.get("init_from")
    if path in (None, "none"):
        return dict(given), None
    source = describe(path)
    return configs.merge_tables(initial.settings_of(source), given), source


def fixed_settings(config: TrainConfig) -> dict[str, Any]:
    """Returns the settings that a resumed run must not change."""
    whole = {key: value for key, value in configs.to_dict(config).items() if key not in MAY_CHANGE}
    return whole | {"optim.name": config.optim.name, "loop.accumulate": config.loop.accumulate}
