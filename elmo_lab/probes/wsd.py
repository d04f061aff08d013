"""Word sense disambiguation: one nearest neighbour among the average vectors of senses (Peters et al. 2018, Table 5).

- every sense of the training corpus is the mean of its instances' vectors, at every layer
- a word in a test set gets the sense of its lemma and part of speech with the nearest mean, by cosine
- a lemma that is not in the training corpus gets the first sense of an inventory, as in the paper
- besides the layers: their `mix`, and the baseline `mfs`, the most frequent sense in training (in case of a tie, the
  first in the corpus), with the same inventory

The vectors are plain means: neither the instances nor the layers are normalised. The paper's suite is the four test
sets without SemEval-2007, on which a layer may be chosen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from elmo.config import ConfigError
from elmo.embedding.embedder import Embedder, StatePolicy
from elmo.errors import InputError
from elmo.formats.download import sha256_of
from elmo.formats.opened import open_model
from elmo.ops import Precision
from elmo.search.nearest import unit_vectors
from elmo_lab import RECIPES
from elmo_lab.document import Block, Text, table
from elmo_lab.probes import blocks
from elmo_lab.probes import wsd_readers as readers
from elmo_lab.probes.mixing import layer_names, mix_weights, with_mix
from elmo_lab.probes.probe import Context, Probe
from elmo_lab.probes.resampling import Difference, differences
from elmo_lab.probes.wsd_means import CHECKPOINT, Senses, sense_sums
from elmo_lab.probes.wsd_readers import Instance, LabelledSentence
from elmo_lab.probes.wsd_vectors import instance_vectors, sentence_batches
from elmo_lab.record import RunRecord
from elmo_lab.tasks.files import find_file

BASELINE = "mfs"
TIE = 1e-6
"""Cosines closer than this are equal: the means of equal vectors differ only in their last bits."""
MAY_CHANGE = {"data", "checkpoint_minutes"}
"""What a resumed run may change: no result depends on it."""


@dataclass(frozen=True)
class WsdConfig:
    """The data, and how to read it."""

    train: str
    """A `NAME.data.xml` (.xz, .gz) with `NAME.gold.key.txt` beside it, like those of `tests`."""
    tests: tuple[str, ...]
    inventory: str | None = None
    """Lemma, part of speech and sense keys, most common first. Without it, a new lemma gets no answer."""
    choose: str | None = None
    """The test set for choosing a layer: it counts in `all`, but not in `others`."""
    data: str | None = None
    """The folder to look in for files that are not in the current directory."""
    model: str = "default"
    """The biLM: a path or a name, as for `elmo embed`."""
    state: StatePolicy = "reset"
    """The LSTM state at the start of a sentence: `carry` is the state after the preceding sentences of its text."""
    precision: Precision = "float32"
    batch_tokens: int | None = None
    """Tokens per batch; by default what fits into the embedder's memory."""
    mix: tuple[float, ...] | None = None
    """One weight per layer; by default equal ones."""
    limit: int | None = None
    """Number of training sentences; by default all."""
    checkpoint_minutes: float = 1.0

    def __post_init__(self) -> None:
        if not self.tests:
            raise ConfigError("tests is empty; name at least one file of instances to disambiguate")
        names = [readers.name_of(test) for test in self.tests]
        if len(set(names)) != len(names):
            raise ConfigError(f"tests has files of the same name ({', '.join(names)}); name each test set once")
        if self.choose is not None and self.choose not in names:
            raise ConfigError(f"choose is {self.choose!r}; one of the test sets is expected: {', '.join(names)}")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit is {self.limit}; at least 1 is expected")


@dataclass(frozen=True)
class WsdRow:
    """The scores of one layer, the mix or the baseline, in percent.

    Every instance counts, and one without an answer is wrong, so precision, recall and F1 are equal.
    """

    layer: str
    f1: dict[str, float]
    """F1 by the name of the test set."""
    all: float
    """Over the instances of all test sets combined."""
    others: float
    """Over those of all test sets but `choose`: with the recipe's, the paper's suite of four."""
    instances: int
    """The number of instances in all test sets."""
    backed_off: int
    """Instances whose lemma is not in the training corpus."""
    unanswered: int
    """Those whose lemma is not in the inventory either."""
    chosen: bool = False
    """Whether this is the best single layer on the test set `choose`."""
    differences: dict[str, Difference] = field(default_factory=dict)
    """This row's `others` less another's, with its interval, by the name of the other. None for the baseline, which
    does not depend on the model."""


def disambiguate(config: WsdConfig, context: Context) -> list[WsdRow]:
    """One row per layer, layer 0 first, then the mix and the baseline.

    In an output folder, the sums are saved in `sums.npz`, from which a resumed run goes on, exactly. Progress is the
    training sentences done and their total. Raises InputError if data or settings cannot be used.
    """
    train = find_file(config.train, config.data)
    tests = read_tests(config)
    if config.state == "carry":
        for file in (train, *(find_file(test, config.data) for test in config.tests)):
            _check_texts(file)
    inventory = {} if config.inventory is None else readers.read_inventory(find_file(config.inventory, config.data))
    senses = count_senses(train, config.limit)
    source = context.source or open_model(config.model)
    model = source.model
    embedder = Embedder(
        model.bilm(),
        text=model.text,
        vocabulary=model.inputs,
        precision=config.precision,
        state=config.state,
        batch_tokens=config.batch_tokens,
    )
    weights = mix_weights(config.mix, embedder.n_layers)
    checkpoint = None if context.folder is None else context.folder / CHECKPOINT
    if checkpoint is not None and not context.resume:
        checkpoint.unlink(missing_ok=True)
    settings = {key: value for key, value in asdict(config).items() if key not in MAY_CHANGE}
    settings |= {"bilm": source.sha256, "batch_tokens": embedder.batch_tokens}
    settings |= {"train's content": sha256_of(train), "its keys' content": sha256_of(readers.keys_of(train))}
    corpus = readers.read_labelled(train, config.limit)
    totals = sense_sums(embedder, corpus, senses, checkpoint, settings, config.checkpoint_minutes, context.progress)
    return score(embedder, tests, senses, totals, inventory, weights, config.choose)


def read_tests(config: WsdConfig) -> dict[str, list[LabelledSentence]]:
    """The test sets by name."""
    files = [find_file(test, config.data) for test in config.tests]
    tests = {readers.name_of(file): list(readers.read_labelled(file)) for file in files}
    for file, test in zip(files, tests.values(), strict=True):
        if not any(labelled.keys for labelled in test):
            raise InputError(f"{file}: no instances; name a file of instances to disambiguate")
    return tests


def _check_texts(file: Path) -> None:
    """Refuses sentences without texts: they would form one text, too long for memory."""
    first = next(readers.read_sentences(file), None)
    if first is not None and not first.text:
        raise InputError(f"{file}: the sentences are in no <text>, which state carry needs; use reset or echo")


def count_senses(train: Path, limit: int | None = None) -> Senses:
    """The senses of the training corpus; also checks the whole corpus."""
    senses = Senses()
    for labelled in readers.read_labelled(train, limit):
        senses.add(labelled)
    if not senses.counts:
        raise InputError(f"{train}: no labelled instances; name a labelled corpus, or raise limit")
    return senses


def baseline(
    tests: Mapping[str, Sequence[LabelledSentence]],
    senses: Senses,
    inventory: Mapping[tuple[str, str], str],
    choose: str | None = None,
) -> WsdRow:
    """The most frequent sense, which needs no model."""
    right = {}
    for name, test in tests.items():
        pairs = [zip(each.sentence.instances, each.keys, strict=True) for each in test if each.keys]
        right[name] = np.array([[sum(_usual(one, senses, inventory) in keys for one, keys in each)] for each in pairs])
    (row,) = _rows([BASELINE], right, tests, senses, inventory, choose)
    return row


def score(
    embedder: Embedder,
    tests: Mapping[str, Sequence[LabelledSentence]],
    senses: Senses,
    totals: Float[np.ndarray, "S N D"],
    inventory: Mapping[tuple[str, str], str],
    weights: Float[np.ndarray, " N"],
    choose: str | None = None,
) -> list[WsdRow]:
    """The rows, computed from the sums of every sense's vectors."""
    names = [*layer_names(len(weights) + 1), BASELINE]
    right: dict[str, Int[np.ndarray, "sentences R"]] = {}
    sizes: dict[str, list[int]] = {}
    embedder.words.clear()
    for name, test in tests.items():
        found: list[list[bool]] = []
        sizes[name] = []
        for chunk in sentence_batches(embedder, test):
            sizes[name] += [len(labelled.keys) for labelled in chunk if labelled.keys]
            for instance, gold, vector in instance_vectors(embedder, chunk):
                answers = _answers(instance, vector, senses, totals, inventory, weights)
                found.append([answer in gold for answer in answers])
        begins = np.cumsum([0, *sizes[name][:-1]])
        right[name] = np.add.reduceat(np.array(found, int), begins)
    rows = _rows(names, right, tests, senses, inventory, choose)
    if choose is not None:
        best = max(range(len(weights)), key=lambda place: rows[place].f1[choose])
        rows[best] = replace(rows[best], chosen=True)
    reported = [name for name in tests if name != choose] or list(tests)
    counts = np.concatenate([right[name] for name in reported])
    of_sentences = [size for name in reported for size in sizes[name]]
    by_name = dict(zip(names, counts.T.tolist(), strict=True))
    compared = [replace(row, differences=differences(by_name, row.layer, of_sentences)) for row in rows[:-1]]
    return [*compared, rows[-1]]


def _answers(
    instance: Instance,
    vector: Float[np.ndarray, "N D"],
    senses: Senses,
    totals: Float[np.ndarray, "S N D"],
    inventory: Mapping[tuple[str, str], str],
    weights: Float[np.ndarray, " N"],
) -> list[str | None]:
    """The senses that the layers, the mix and the baseline give an instance."""
    found, usual = senses.by_frequency(instance.lemma, instance.pos), _usual(instance, senses, inventory)
    if not found:
        return [usual] * (len(weights) + 2)
    numbers = [number for _, number in found]
    means = totals[numbers] / np.array([senses.counts[number] for number in numbers])[:, None, None]
    best = _nearest(with_mix(means, weights), with_mix(vector.astype(np.float64), weights))
    return [*(found[place][0] for place in best), usual]


def _usual(instance: Instance, senses: Senses, inventory: Mapping[tuple[str, str], str]) -> str | None:
    """The most frequent sense in training, or the first of the inventory."""
    found = senses.by_frequency(instance.lemma, instance.pos)
    return found[0][0] if found else inventory.get((instance.lemma, instance.pos))


def _nearest(means: Float[np.ndarray, "K R D"], vector: Float[np.ndarray, "R D"]) -> list[int]:
    """For every row, the nearest of K means; in case of a tie, the first."""
    cosines = np.einsum("krd,rd->kr", unit_vectors(means), unit_vectors(vector))
    return (cosines >= cosines.max(axis=0) - TIE).argmax(axis=0).tolist()


def _rows(
    names: Sequence[str],
    right: Mapping[str, Int[np.ndarray, "sentences R"]],
    tests: Mapping[str, Sequence[LabelledSentence]],
    senses: Senses,
    inventory: Mapping[tuple[str, str], str],
    choose: str | None,
) -> list[WsdRow]:
    """The rows, from how many instances of each sentence each of them has right."""
    sizes = {name: sum(len(labelled.keys) for labelled in test) for name, test in tests.items()}
    words = [(one.lemma, one.pos) for test in tests.values() for each in test for one in each.sentence.instances]
    new = [word for word in words if word not in senses.numbers]
    others = [name for name in tests if name != choose] or list(tests)

    def percent(place: int, of: Iterable[str]) -> float:
        of = list(of)
        return 100 * sum(int(right[name][:, place].sum()) for name in of) / sum(sizes[name] for name in of)

    return [
        WsdRow(
            layer,
            {name: percent(place, [name]) for name in tests},
            percent(place, tests),
            percent(place, others),
            instances=len(words),
            backed_off=len(new),
            unanswered=sum(word not in inventory for word in new),
        )
        for place, layer in enumerate(names)
    ]


def _show(record: RunRecord) -> Iterator[Block]:
    """F1 by layer and test set, the counts of instances, and the differences of the chosen layer."""
    rows, choose = record.rows, record.settings.get("choose")
    names = list(rows[0]["f1"])
    rest = f"ALL{len(names) - 1}"  # all test sets but the one that chooses
    yield from blocks.by_layer("wsd", rows, "all", "F1")
    cells = [
        (
            row["layer"], *(f"{row['f1'][name]:.1f}" for name in names), f"{row['all']:.1f}",
            "" if choose is None else f"{row['others']:.1f}", "*" if row["chosen"] else "",
        )
        for row in rows
    ]  # fmt: skip
    yield table(["layer", *names, "ALL", rest, "chosen"], cells)
    first = rows[0]
    yield Text(
        f"F1 of {first['instances']:,} instances; {first['backed_off']:,} of lemmas unseen in training,"
        f" {first['unanswered']:,} of these without an answer (counted as wrong)."
    )
    for row in rows:
        if row["chosen"]:
            said = f"layer {row['layer']} is the best on {choose}: {row['others']:.1f} on {rest}"
            yield Text(f"{said}; points against {blocks.intervals(row)}.")


PROBE = Probe(
    name="wsd",
    version="1",
    title="Word senses, layer by layer",
    config=WsdConfig,
    run=disambiguate,
    show=_show,
    recipe=RECIPES / "probes" / "wsd.toml",
    goes_with={"inventory": {"train", "tests"}, "choose": {"tests"}},
    checkpoint=CHECKPOINT,
)
