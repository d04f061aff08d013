"""Predicts parts of speech with a linear classifier on each layer (Peters et al. 2018, Table 6).

- The classifier is a multinomial logistic regression on the frozen vectors of one layer, with standardised inputs. It
  is trained by Adam, and its best epoch on dev is kept.
- The classifiers of all layers are trained side by side on the same batches, each as if it were alone.
- Besides the layers, the rows have their `mix`, and the baseline `word`, a word's most frequent tag in training.
- The biLM's layers are computed once and stored in the layer cache, which the tasks share.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import eq
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from elmo.config import SEEDS, check_above, check_range
from elmo.embedding.budget import parse_bytes
from elmo.errors import InputError
from elmo.formats.opened import open_model
from elmo.text.lines import numbered_lines
from elmo.text.records import read_conllu_columns, suffix_of
from elmo_lab import RECIPES
from elmo_lab.document import Block, Text
from elmo_lab.probes import blocks
from elmo_lab.probes.mixing import layer_names, mix_weights, with_mix
from elmo_lab.probes.probe import Context, Probe
from elmo_lab.probes.resampling import Difference, differences
from elmo_lab.record import RunRecord
from elmo_lab.tasks.cache import CacheConfig
from elmo_lab.tasks.files import find_file
from elmo_lab.tasks.readers_columns import check_words, read_conll
from elmo_lab.tasks.source import layer_cache
from elmo_lab.tasks.treebank import unescaped

BASELINE = "word"
FORM, TAGS = 1, {"upos": 3, "xpos": 4}
"""The columns of CoNLL-U, from 0."""
UNKNOWN = -1
"""The number of a tag that is not in the training data."""
BATCH = 32
"""The sentences of a batch."""

Layers = Callable[[Sequence[Sequence[str]]], Sequence[Float[np.ndarray, "N T D"]]]
Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class PosConfig:
    """The data, and how the classifiers are trained."""

    train: str
    """The file of tagged sentences to train on."""
    dev: str
    """The file of tagged sentences that choose the epoch."""
    test: str | None = None
    """A file of tagged sentences to test on."""
    tags: Literal["upos", "xpos"] = "xpos"
    """The column with the tags in CoNLL-U files."""
    token_column: int = 0
    """The column with the tokens in files other than CoNLL-U, with a token and its tag per line; -1 is the last."""
    tag_column: int = -1
    """The column with the tags in files other than CoNLL-U; -1 is the last."""
    data: str | None = None
    """The folder to look in for files that are not in the current directory."""
    model: str = "default"
    """The biLM: a path or a name, as for `elmo embed`."""
    mix: tuple[float, ...] | None = None
    """The weights of the layers in the mix, one per layer; by default they are equal."""
    epochs: int = 10
    """The number of epochs; each layer keeps its best one."""
    lr: float = 3e-3
    """The learning rate of Adam."""
    seed: int = 1
    """The seed for the order of the sentences."""
    limit: int | None = None
    """The number of training sentences that are used; by default all."""
    cache: CacheConfig = field(default_factory=CacheConfig)

    def __post_init__(self) -> None:
        check_range(self, ("epochs", "limit"), 1)
        check_range(self, ("seed",), 0, SEEDS)
        check_above(self, ("lr",))


@dataclass(frozen=True)
class PosRow:
    """The score of one layer, the mix or the baseline, in percent of all tokens."""

    layer: str
    dev: float
    test: float | None
    epoch: int | None
    """The best epoch on dev."""
    chosen: bool = False
    """Whether this is the best single layer on dev."""
    differences: dict[str, Difference] = field(default_factory=dict)
    """The differences of this row's score from the other rows', with their intervals, by the names of the other rows.
    They are on test, or on dev if there is no test. The baseline, which does not depend on the model, has none."""


@dataclass(frozen=True)
class TaggedTokens:
    """A sentence with the tag of every token."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]


Parts = dict[str, list[TaggedTokens]]
"""The sentences of train, dev and, if there is one, test."""


def classify(config: PosConfig, context: Context) -> list[PosRow]:
    """Returns one row per layer, layer 0 first, then the mix and the baseline.

    Progress counts tokens, first those of the biLM, then those of training the classifiers. Raises
    InputError if data or settings cannot be used.
    """
    parts = {
        part: read_tagged(find_file(path, config.data), config)
        for part, path in (("train", config.train), ("dev", config.dev), ("test", config.test))
        if path is not None
    }
    parts["train"] = parts["train"][: config.limit]
    source = context.source or open_model(config.model)
    mix_weights(config.mix, source.model.config.lstm.n_layers + 1)  # a wrong number must fail before the model reads
    cache = layer_cache(source, config.cache)
    if config.cache.enabled:
        sentences = [sentence.tokens for part in parts.values() for sentence in part]
        cache.add(sentences, parse_bytes(config.cache.limit), context.progress)
    return rows(cache, parts, config, context.progress)


def read_tagged(path: Path, config: PosConfig) -> list[TaggedTokens]:
    """Reads the sentences of a CoNLL-U file (.conllu), or of a file of columns."""
    if suffix_of(path) == ".conllu":
        lines = (line for _, line in numbered_lines(path))
        columns = (FORM, TAGS[config.tags])
        found = [TaggedTokens(*zip(*words, strict=True)) for words in read_conllu_columns(lines, columns, path)]
    else:
        # The reader's own check of tags would refuse all but BIO.
        tokens, tags = (read_conll(path, each, tag_column=None) for each in (config.token_column, config.tag_column))
        found = [TaggedTokens(one.tokens, other.tokens) for one, other in zip(tokens, tags, strict=True)]
        if found and all(sentence.tokens == sentence.tags for sentence in found):
            raise InputError(
                f"{path}: the tags are the tokens: token_column={config.token_column} and tag_column="
                f"{config.tag_column} are the same column; choose others, of a file that has both"
            )
        check_words(tokens, path, f"give token_column (now {config.token_column}), the words', and tag_column")
    if not found:
        raise InputError(f"{path}: no sentences; give CoNLL-U, or a file with one token and its tag per line")
    if not any(set(sentence.tags) - {"_"} for sentence in found):
        raise InputError(f"{path}: no tags in this column; choose another with tags=upos or tag_column")
    return [replace(sentence, tokens=tuple(map(unescaped, sentence.tokens))) for sentence in found]


def rows(layers_of: Layers, parts: Parts, config: PosConfig, progress: Progress | None = None) -> list[PosRow]:
    """Computes the rows from a source of sentences' layers."""
    tags = list(dict.fromkeys(tag for sentence in parts["train"] for tag in sentence.tags))
    data = _Data(layers_of, {tag: number for number, tag in enumerate(tags)}, config.mix)
    classifiers = _Classifiers(*data.moments(parts["train"]), len(tags))
    best, epochs = _fit(classifiers, data, parts, config, progress)
    scored = parts.get("test", parts["dev"])
    right, usual = data.right(classifiers, scored), _usual_tags(parts["train"])
    names, sizes = layer_names(len(best)), [len(sentence.tokens) for sentence in scored]
    test = (100 * right.sum(axis=0) / sum(sizes)).tolist() if "test" in parts else [None] * len(best)
    chosen = max(range(len(best) - 1), key=best.__getitem__)
    counts = {**dict(zip(names, right.T.tolist(), strict=True)), BASELINE: [usual(sentence) for sentence in scored]}
    found = [
        PosRow(name, best[place], test[place], epochs[place], place == chosen, differences(counts, name, sizes))
        for place, name in enumerate(names)
    ]
    return [*found, baseline(parts)]


def baseline(parts: Parts) -> PosRow:
    """Scores a word's most frequent tag in training, by exact spelling; for a new word, the most frequent of all."""
    usual = _usual_tags(parts["train"])

    def accuracy(part: str) -> float:
        return 100 * sum(map(usual, parts[part])) / sum(len(sentence.tokens) for sentence in parts[part])

    return PosRow(BASELINE, accuracy("dev"), accuracy("test") if "test" in parts else None, None)


def _usual_tags(train: Sequence[TaggedTokens]) -> Callable[[TaggedTokens], int]:
    """Returns a function that counts the tokens of a sentence that have the baseline's tag."""
    counts: dict[str, Counter[str]] = {}
    for sentence in train:
        for token, tag in zip(sentence.tokens, sentence.tags, strict=True):
            counts.setdefault(token, Counter())[tag] += 1
    usual = {token: tags.most_common(1)[0][0] for token, tags in counts.items()}
    overall: Counter[str] = Counter()
    for tags in counts.values():
        overall.update(tags)  # a sum of counters would copy all tags for every word
    ((default, _),) = overall.most_common(1)
    return lambda sentence: sum(map(eq, (usual.get(token, default) for token in sentence.tokens), sentence.tags))


class _Data:
    """Turns sentences into features and the numbers of their tags."""

    def __init__(self, layers_of: Layers, tags: dict[str, int], mix: Sequence[float] | None) -> None:
        self._layers_of, self._tags, self._mix = layers_of, tags, mix

    def batch(self, sentences: Sequence[TaggedTokens]) -> tuple[Float[Tensor, "T R D"], Int[Tensor, " T"]]:
        """Returns the layers and their mix (R = N + 1) of every token, and its tag."""
        arrays = self._layers_of([sentence.tokens for sentence in sentences])
        layers = np.concatenate([array.transpose(1, 0, 2) for array in arrays]).astype(np.float32)
        features = with_mix(layers, mix_weights(self._mix, layers.shape[1]))
        numbers = [self._tags.get(tag, UNKNOWN) for sentence in sentences for tag in sentence.tags]
        return torch.from_numpy(features), torch.tensor(numbers)

    def moments(self, sentences: Sequence[TaggedTokens]) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R D"]]:
        """Returns the mean and the standard deviation of every feature; a constant feature has a deviation of 1."""
        total, squares, tokens = torch.tensor(0.0), torch.tensor(0.0), 0
        for begin in range(0, len(sentences), BATCH):
            features = self.batch(sentences[begin : begin + BATCH])[0].double()
            total, squares = total + features.sum(0), squares + features.square().sum(0)
            tokens += len(features)
        mean = total / tokens
        variance = squares / tokens - mean.square()
        differs = variance > 1e-10 * squares / tokens  # otherwise the variance is only rounding errors
        return mean.float(), torch.where(differs, variance.sqrt(), 1.0).float()

    @torch.no_grad()
    def right(self, classifiers: "_Classifiers", sentences: Sequence[TaggedTokens]) -> Int[np.ndarray, "sentences R"]:
        """Counts the tokens of every sentence that each row of features gets right."""
        counts = []
        for begin in range(0, len(sentences), BATCH):
            batch = sentences[begin : begin + BATCH]
            features, gold = self.batch(batch)
            is_right = (classifiers(features).argmax(-1) == gold).T
            counts += [part.sum(0).numpy() for part in is_right.split([len(sentence.tokens) for sentence in batch])]
        return np.stack(counts)


class _Classifiers(torch.nn.Module):
    """A linear classifier of standardised features for every row, whose weights begin at zero."""

    def __init__(self, mean: Float[Tensor, "R D"], deviation: Float[Tensor, "R D"], tags: int) -> None:
        super().__init__()
        self.mean, self.deviation = mean, deviation
        self.weight = torch.nn.Parameter(torch.zeros(*mean.shape, tags))
        self.bias = torch.nn.Parameter(torch.zeros(len(mean), 1, tags))

    def forward(self, features: Float[Tensor, "T R D"]) -> Float[Tensor, "R T K"]:
        """Returns the score of every tag."""
        standard = (features - self.mean) / self.deviation
        return torch.baddbmm(self.bias, standard.transpose(0, 1), self.weight)


def _fit(
    classifiers: _Classifiers, data: _Data, parts: Parts, config: PosConfig, progress: Progress | None
) -> tuple[list[float], list[int]]:
    """Trains the classifiers and leaves the best weights of each row; returns their accuracies on dev and epochs."""
    train, parameters = parts["train"], list(classifiers.parameters())
    optimizer = torch.optim.Adam(parameters, config.lr)
    draw = torch.Generator().manual_seed(config.seed)
    best, epochs = [-1.0] * len(classifiers.mean), [0] * len(classifiers.mean)
    kept = [parameter.detach().clone() for parameter in parameters]
    done, total = 0, config.epochs * sum(len(sentence.tokens) for sentence in train)
    tokens = sum(len(sentence.tokens) for sentence in parts["dev"])
    for epoch in range(1, config.epochs + 1):
        order = torch.randperm(len(train), generator=draw).tolist()
        for begin in range(0, len(train), BATCH):
            features, gold = data.batch([train[number] for number in order[begin : begin + BATCH]])
            scores = classifiers(features)
            # The loss is summed over the rows. Each has its own weights, so they do not affect one another.
            target = gold.expand(len(scores), -1)
            loss = torch.nn.functional.cross_entropy(scores.transpose(1, 2), target, reduction="sum") / len(gold)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            done += len(gold)
            if progress is not None:
                progress(done, total)
        right = data.right(classifiers, parts["dev"]).sum(axis=0)
        for row, accuracy in enumerate((100 * right / tokens).tolist()):
            if accuracy > best[row]:
                best[row], epochs[row] = accuracy, epoch
                for old, new in zip(kept, parameters, strict=True):
                    old[row] = new.detach()[row]
    with torch.no_grad():
        for old, new in zip(kept, parameters, strict=True):
            new.copy_(old)
    return best, epochs


def _show(record: RunRecord) -> Iterator[Block]:
    """Shows the scores by layer, and the differences of the chosen layer."""
    yield from blocks.by_layer("pos", record.rows, blocks.part_of(record.rows), "accuracy")
    yield from blocks.plain_tables(record.rows, ("layer", "dev", "test", "epoch", "chosen"))
    for row in record.rows:
        if row["chosen"]:
            yield Text(f"Layer {row['layer']} is the best on dev; points against {blocks.intervals(row)}.")


PROBE = Probe(
    name="pos",
    version="1",
    title="Parts of speech, layer by layer",
    config=PosConfig,
    run=classify,
    show=_show,
    units="tokens",
    recipe=RECIPES / "probes" / "pos.toml",
    goes_with={"test": {"train", "dev"}},
)
