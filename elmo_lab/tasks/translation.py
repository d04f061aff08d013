"""Trains the encoder of a translation model for CoVe (McCann et al. 2017) on translated text, as `elmo cove` does.

The folder of a run holds the encoder in `model/`, which `elmo.load` opens; the settings and the hashes of the files in
`cove.json`; the best epoch's encoder and decoder in `model.safetensors`; and `metrics.jsonl` and `tensorboard/`.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor

from elmo import config as configs
from elmo.disk.files import remove_leftovers, write_run_file
from elmo.disk.run import check_same, holds_run, lock_folder, read_json, read_settings
from elmo.disk.sums import sha256_of
from elmo.errors import InputError
from elmo.formats import TRAINED, Model, native
from elmo.model.config import BiLMConfig, LstmConfig
from elmo.model.translator import DecoderConfig, Translator
from elmo.pretraining.perplexity import perplexity_of
from elmo.text.batching import to_batch
from elmo.text.lines import numbered_lines
from elmo.text.records import check_text, suffix_of
from elmo.text.tokenizer import TextConfig, Tokenizer
from elmo.text.vocabulary import SPECIAL, Vocabulary, count_vocabulary
from elmo.training.distributed import launch
from elmo.training.epochs import BEST, EpochConfig, EpochState, fit_epochs
from elmo.training.loop import seed_step
from elmo.training.memory import keep_few_programs
from elmo_lab.tasks import batches, vectors
from elmo_lab.tasks.batches import BatchConfig

RECORD = "cove.json"
FILES = ("source", "target", "heldout_source", "heldout_target", "vectors")
METRIC = "log_probability"
"""The score that chooses the best epoch: the mean log-probability of a held-out target word."""

Pair = tuple[list[str], list[str]]
"""The tokens of a sentence and of its translation."""


@dataclass(frozen=True)
class CoveConfig:
    """The settings of a run. Line N of a target file translates line N of its source file (`.txt`, `.gz`, `.xz`)."""

    source: str
    """The file in the language whose words get vectors."""
    target: str
    """The file of the translations."""
    heldout_source: str
    """A file like `source` to measure perplexity on, which chooses the epoch."""
    heldout_target: str
    """The file of its translations."""
    output: str
    """The folder of the run; the encoder is its folder `model`."""
    vectors: str | None = None
    """The file of the encoder's word vectors, in GloVe's text format, which stay fixed; without it, they are learned.

    The encoder knows all words of the file, as spelled there, with a capital first letter, and as spelled in the
    training text. All spellings of a word have the same vector.
    """
    source_text: TextConfig = field(default_factory=lambda: TextConfig(sentences="line"))
    target_text: TextConfig = field(default_factory=lambda: TextConfig(sentences="line", language="de"))
    lowercase: bool = True
    """Whether to predict target words in lower case, so that fewer of them are rare."""
    vocab_size: int = 50_000
    """The most words of the target text and, with learned vectors, of the source text, special ones included."""
    min_count: int = 2
    """The fewest occurrences of a known word; rarer words are unknown."""
    encoder: LstmConfig = field(default_factory=lambda: LstmConfig(dim=300, projection_dim=100))
    """The encoder's settings; `projection_dim` is also the size of the word vectors."""
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    training: EpochConfig = field(default_factory=lambda: EpochConfig(epochs=10, patience=2, decay_patience=1))
    batch: BatchConfig = field(default_factory=BatchConfig)
    seed: int = 1
    """The seed of all random numbers."""
    accelerator: str = "auto"
    """The kind of device as Lightning names it, `cpu` or `cuda`; `auto` takes a GPU if there is one."""

    def __post_init__(self) -> None:
        configs.check_range(self, ("vocab_size",), 1 + len(SPECIAL))
        configs.check_range(self, ("min_count",), 1)
        configs.check_range(self, ("seed",), 0, configs.SEEDS)


def train_cove(config: CoveConfig, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Trains, or continues a run with the same result, and returns the numbers to print.

    Raises InputError if settings or files cannot be used, or if the output holds another run.
    """
    folder = Path(config.output)
    record = _record(config)
    check_output(folder, record, resume)
    with lock_folder(folder):
        check_output(folder, record, resume)  # another process may have worked here before the lock
        remove_leftovers(folder / TRAINED)
        keep_few_programs()
        pairs = read_pairs(config, config.source, config.target)
        heldout = read_pairs(config, config.heldout_source, config.heldout_target)
        words, table = source_words(config, (source for source, _ in pairs))
        targets, _ = count_vocabulary((target for _, target in pairs), config.vocab_size, config.min_count)
        seed_step(config.seed, -1, 0)
        encoder = BiLMConfig(config.encoder, char_cnn=None, n_tokens_vocab=len(words))
        model = Translator(encoder, config.decoder, len(targets))
        if table is not None:
            model.encoder.token_encoder.embedding.requires_grad_(False).copy_(table)
        write_run_file(folder / RECORD, configs.as_json(record).encode())
        state = _fit(config, model, words, targets, pairs, heldout, quiet)
        card = _card(config, state, pairs, targets)
        stored = Model(encoder, model.encoder.state_dict(), None, words, config.source_text, card)
        native.save(stored, folder / TRAINED)
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return {
        "model": str(folder / TRAINED),
        "words": len(words) - len(SPECIAL),
        "target words": len(targets) - len(SPECIAL),
        "epochs": state.epoch,
        "best epoch": state.best_epoch,
        "held-out perplexity": round(perplexity_of(-state.best), 2),
    }


def read_record(folder: Path) -> CoveConfig:
    """Reads the settings of a run."""
    return read_settings(CoveConfig, folder / RECORD, "config")


def check_output(folder: Path, record: dict[str, Any], resume: bool) -> None:
    """Raises InputError instead of overwriting a run, or continuing it with other settings or files."""
    if not holds_run(folder / RECORD, inside=(TRAINED, "checkpoints")):
        return
    if native.recognizes(folder / TRAINED):
        raise InputError(f"{folder}: the run is finished, and its model is {folder / TRAINED}; name another --output")
    if not resume:
        raise InputError(f"{folder}: holds a run; add --resume to continue it, or name another --output")
    old = read_json(folder / RECORD)
    check_same(folder / RECORD, _fixed(old), _fixed(json.loads(json.dumps(record))))


def _record(config: CoveConfig) -> dict[str, Any]:
    files = {name: path for name in FILES if (path := getattr(config, name)) is not None}
    for path in files.values():
        if not Path(path).is_file():
            raise InputError(f"{path}: no such file; give a file of text (.txt, .gz, .xz, .bz2)")
        if suffix_of(path) != ".fa":  # `.fa` also marks Persian text beside `.en`
            check_text(path)
    return {"config": configs.to_dict(config), "sha256": {name: sha256_of(Path(path)) for name, path in files.items()}}


def _fixed(record: dict[str, Any]) -> dict[str, Any]:
    """Returns what a resumed run must keep, which is all but the accelerator and the names of files and folders."""
    may_change = {*FILES, "output", "accelerator"}
    settings = {name: value for name, value in record["config"].items() if name not in may_change}
    return {"sha256": record["sha256"], **settings}


def read_pairs(config: CoveConfig, source: str, target: str) -> list[Pair]:
    """Reads the tokens of both sides, line by line. Raises InputError if one file has more lines or no words."""
    sides = [[line for _, line in numbered_lines(Path(path))] for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise InputError(
            f"{source} has {len(sides[0]):,} lines, but {target} has {len(sides[1]):,}; line N of one must translate"
            " line N of the other"
        )
    if not any(line.strip() for line in sides[0]) or not any(line.strip() for line in sides[1]):
        raise InputError(f"{source}, {target}: contain no words; give one sentence per line")
    reader, writer = Tokenizer(config.source_text), Tokenizer(config.target_text)
    lowered = (line.lower() if config.lowercase else line for line in sides[1])
    return list(zip(map(reader.tokens, sides[0]), map(writer.tokens, lowered), strict=True))


def source_words(
    config: CoveConfig, sentences: Iterable[Sequence[str]]
) -> tuple[Vocabulary, Float[Tensor, "W P"] | None]:
    """Returns the words that the encoder knows and, if there is a file of vectors, the table of their vectors.

    Padding has a zero vector, an unknown word the mean of the file's vectors, and each sentence boundary a random one.
    """
    if config.vectors is None:
        return count_vocabulary(sentences, config.vocab_size, config.min_count)[0], None
    found = vectors.read(Path(config.vectors))
    rows = {word: row for row, word in enumerate(found.words, 2)}
    size = found.table.shape[1]
    if size != config.encoder.projection_dim:
        raise InputError(
            f"{config.vectors}: vectors of {size} numbers; encoder.projection_dim is {config.encoder.projection_dim}:"
            f" set encoder.projection_dim={size}"
        )
    for word in found.words:
        rows.setdefault(word[0].upper() + word[1:], rows[word])
    for token in (token for sentence in sentences for token in sentence):
        if token.lower() in rows:
            rows.setdefault(token, rows[token.lower()])
    for mark in SPECIAL:
        rows.pop(mark, None)
    draw = torch.Generator().manual_seed(0)
    boundaries = torch.randn(2, size, generator=draw) * found.table[2:].std()
    table = torch.cat([found.table[:1], boundaries, found.table[1:2], found.table[list(rows.values())]])
    return Vocabulary(SPECIAL + tuple(rows)), table


def _fit(
    config: CoveConfig,
    model: Translator,
    words: Vocabulary,
    targets: Vocabulary,
    pairs: list[Pair],
    heldout: list[Pair],
    quiet: bool,
) -> EpochState:
    """Trains the model and leaves it with the weights of its best epoch, in evaluation mode."""
    fabric = launch(config.accelerator, 1, 1, "32-true")
    model.to(fabric.device).train()
    lengths = _lengths(pairs)

    def batches_of(epoch: int) -> list[list[Pair]]:
        numbers = batches.shuffled_batches(lengths, config.batch, config.seed, epoch)
        return [[pairs[number] for number in batch] for batch in numbers]

    def loss_of(batch: Sequence[Pair]) -> Tensor:
        source = to_batch([source for source, _ in batch], vocabulary=words)
        target = to_batch([target for _, target in batch], vocabulary=targets)
        return model(source.to(fabric.device), target.to(fabric.device))

    @torch.no_grad()
    def evaluate() -> dict[str, float]:
        total = 0.0
        for numbers in batches.by_length(_lengths(heldout), config.batch):
            batch = [heldout[number] for number in numbers]
            total += float(loss_of(batch)) * _predicted(batch)
        mean = total / _predicted(heldout)
        return {METRIC: -mean, "perplexity": perplexity_of(mean)}

    folder = Path(config.output)
    state = fit_epochs(
        fabric, model, batches_of, loss_of, evaluate, METRIC, folder, config.training, config.seed, quiet,
        config.output, [model.encoder.token_encoder.embedding, model.words.embedding],
    )  # fmt: skip
    model.load_state_dict(load_file(folder / BEST))
    model.cpu().eval()
    return state


def _lengths(pairs: Sequence[Pair]) -> list[int]:
    return [max(len(source), len(target)) + 2 for source, target in pairs]


def _predicted(pairs: Sequence[Pair]) -> int:
    """Returns the number of target words, the ends of sentences included."""
    return sum(len(target) + 1 for _, target in pairs)


def _card(config: CoveConfig, state: EpochState, pairs: Sequence[Pair], targets: Vocabulary) -> dict[str, Any]:
    """Makes the card of the model: its training data, and the numbers of its training."""
    name = {part: Path(path).name for part in FILES if (path := getattr(config, part)) is not None}
    return {
        "made_by": "elmo cove",
        "date": datetime.now(UTC).date().isoformat(),
        "words_read": state.best_epoch * sum(len(source) for source, _ in pairs),
        "train": [name["source"], name["target"]],
        "heldout": [name["heldout_source"], name["heldout_target"]],
        "vectors": name.get("vectors"),
        "translation": {"pairs": len(pairs), "target_words": len(targets), "perplexity": perplexity_of(-state.best)},
        "softmax": "it is the encoder of a translation model",
    }
