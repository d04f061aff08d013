"""Disambiguates word senses by the nearest average vector of a sense (Peters et al. 2018, Table 5).

- Every sense of the training corpus is the mean of its instances' vectors, at every layer.
- A word in a test set gets the sense of its lemma and part of speech with the nearest mean, by cosine.
- A lemma that is not in the training corpus gets the first sense of an inventory, as in the paper.
- Besides the layers, the rows have their `mix`, and the baseline `mfs`, the most frequent sense in training (in case of
  a tie, the first in the corpus), with the same inventory.

The vectors are plain means: neither the instances nor the layers are normalised. The paper's suite is the four test
sets without SemEval-2007, on which a layer may be chosen.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from elmo.config import ConfigError, check_range, check_sizes
from elmo.disk.sums import sha256_of
from elmo.embedding.embedder import Embedder, StatePolicy
from elmo.embedding.pooling import unit_vectors
from elmo.errors import InputError
from elmo.formats.opened import open_model
from elmo.ops import Precision
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
"""The difference below which two cosines count as equal. The means of equal vectors may differ in their last bits."""
Tests = Mapping[str, Sequence[LabelledSentence]]
Inventory = Mapping[tuple[str, str], str]
MAY_CHANGE = {"data", "checkpoint_minutes"}
"""The settings that a resumed run may change, since no result depends on them."""


@dataclass(frozen=True)
class WsdConfig:
    """The data, and how to read it."""

    train: str
    """The training corpus: a `NAME.data.xml` (.xz, .gz) with `NAME.gold.key.txt` beside it."""
    tests: tuple[str, ...]
    """The test sets, which are files of the same form as `train`."""
    inventory: str | None = None
    """A file of lemma, part of speech and sense keys, the most common first. Without it, a new lemma gets no answer."""
    choose: str | None = None
    """The test set for choosing a layer: it counts in `all`, but not in `others`."""
    data: str | None = None
    """The folder to look in for files that are not in the current directory."""
    model: str = "default"
    """The biLM: a path or a name, as for `elmo embed`."""
    state: StatePolicy = "reset"
    """The LSTM state at the start of a sentence: `carry` is the state after the preceding sentences of its text."""
    precision: Precision = "float32"
    """The precision of matrix products, as for `elmo embed`."""
    batch_tokens: int | None = None
    """The tokens of a batch; by default as many as fit into the embedder's memory."""
    mix: tuple[float, ...] | None = None
    """The weights of the layers in the mix, one per layer; by default they are equal."""
    limit: int | None = None
    """The number of training sentences that are used; by default all."""
    checkpoint_minutes: float = 1.0
    """The minutes between two checkpoints."""

    def __post_init__(self) -> None:
        if not self.tests:
            raise ConfigError("tests is empty; name at least one file of instances to disambiguate")
        names = [readers.name_of(test) for test in self.tests]
        if len(set(names)) != len(names):
            raise ConfigError(f"tests has files of the same name ({', '.join(names)}); name each test set once")
        if self.choose is not None and self.choose not in names:
            raise ConfigError(f"choose is {self.choose!r}; one of the test sets is expected: {', '.join(names)}")
        check_range(self, ("limit",), 1)
        check_range(self, ("checkpoint_minutes",), 0)
        check_sizes(self, ("batch_tokens",))


@dataclass(frozen=True)
class WsdRow:
    """The scores of one layer, the mix or the baseline, in percent.

    Every instance counts, and one without an answer is wrong, so precision, recall and F1 are equal.
    """

    layer: str
    f1: dict[str, float]
    """The F1 of each test set, by its name."""
    all: float
    """The F1 over the instances of all test sets combined."""
    others: float
    """The F1 over the instances of the test sets except `choose`. In the packaged recipe, they are the paper's four."""
    instances: int
    """The number of instances in all test sets."""
    backed_off: int
    """The number of instances whose lemma is not in the training corpus."""
    unanswered: int
    """The number of instances whose lemma is neither in the training corpus nor in the inventory."""
    chosen: bool = False
    """Whether this is the best single layer on the test set `choose`."""
    differences: dict[str, Difference] = field(default_factory=dict)
    """The differences of this row's `others` from that of the other rows, with their intervals, by the names of the
    other rows. The baseline, which does not depend on the model, has none."""


def disambiguate(config: WsdConfig, context: Context) -> list[WsdRow]:
    """Returns one row per layer, layer 0 first, then the mix and the baseline.

    The sums are saved in `sums.npz` of the output folder, if there is one, and a resumed run continues from them with
    the same result. Progress counts the sentences of the training corpus, then those of the tests. Raises InputError if
    data or settings cannot be used.
    """
    train = find_file(config.train, config.data)
    tests = read_tests(config)
    if config.state == "carry":
        for file in (train, *(find_file(test, config.data) for test in config.tests)):
            first = next(readers.read_sentences(file), None)
            if first is not None and not first.text:  # they would form one text, which is too long for memory
                raise InputError(f"{file}: the sentences are in no <text>, which state carry needs; use reset or echo")
    inventory = {} if config.inventory is None else readers.read_inventory(find_file(config.inventory, config.data))
    senses = count_senses(train, config.limit)
    source = context.source or open_model(config.model)
    options = {name: getattr(config, name) for name in ("precision", "state", "batch_tokens")}
    embedder = Embedder.of(source.model, **options)
    weights = mix_weights(config.mix, embedder.n_layers)
    checkpoint = None if context.folder is None else context.folder / CHECKPOINT
    if checkpoint is not None and not context.resume:
        checkpoint.unlink(missing_ok=True)
    settings = {key: value for key, value in asdict(config).items() if key not in MAY_CHANGE}
    settings |= {"bilm": source.sha256, "batch_tokens": embedder.batch_tokens}
    settings |= {"train's content": sha256_of(train), "its keys' content": sha256_of(readers.keys_of(train))}
    corpus = readers.read_labelled(train, config.limit)
    total = senses.sentences + sum(bool(labelled.keys) for test in tests.values() for labelled in test)

    def summed(done: int, _: int) -> None:
        context.progress(done, total)

    def tested(done: int) -> None:
        context.progress(senses.sentences + done, total)

    totals = sense_sums(embedder, corpus, senses, checkpoint, settings, config.checkpoint_minutes, summed)
    return score(embedder, tests, senses, totals, inventory, weights, config.choose, tested)


def read_tests(config: WsdConfig) -> dict[str, list[LabelledSentence]]:
    """Reads the test sets, by name."""
    files = [find_file(test, config.data) for test in config.tests]
    tests = {readers.name_of(file): list(readers.read_labelled(file)) for file in files}
    for file, test in zip(files, tests.values(), strict=True):
        if not any(labelled.keys for labelled in test):
            raise InputError(f"{file}: no instances; name a file of instances to disambiguate")
    return tests


def count_senses(train: Path, limit: int | None = None) -> Senses:
    """Counts the senses of the training corpus, and thereby checks the whole corpus."""
    senses = Senses()
    for labelled in readers.read_labelled(train, limit):
        senses.add(labelled)
    if not senses.counts:
        raise InputError(f"{train}: no labelled instances; name a labelled corpus, or raise limit")
    return senses


def baseline(tests: Tests, senses: Senses, inventory: Inventory) -> WsdRow:
    """Scores the most frequent sense, which needs no model."""
    right = {}
    for name, test in tests.items():
        pairs = [zip(each.sentence.instances, each.keys, strict=True) for each in test if each.keys]
        right[name] = np.array([[sum(_usual(one, senses, inventory) in keys for one, keys in each)] for each in pairs])
    (row,) = _rows([BASELINE], right, tests, senses, inventory, choose=None)
    return row


def score(
    embedder: Embedder,
    tests: Tests,
    senses: Senses,
    totals: Float[np.ndarray, "S N D"],
    inventory: Inventory,
    weights: Float[np.ndarray, " N"],
    choose: str | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> list[WsdRow]:
    """Computes the rows from the sums of every sense's vectors; calls `progress` with the count of tested sentences."""
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
            progress(sum(map(len, sizes.values())))
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
    inventory: Inventory,
    weights: Float[np.ndarray, " N"],
) -> list[str | None]:
    """Returns the senses that the layers, the mix and the baseline give an instance."""
    found, usual = senses.by_frequency(instance.lemma, instance.pos), _usual(instance, senses, inventory)
    if not found:
        return [usual] * (len(weights) + 2)
    numbers = [number for _, number in found]
    means = totals[numbers] / np.array([senses.counts[number] for number in numbers])[:, None, None]
    best = _nearest(with_mix(means, weights), with_mix(vector.astype(np.float64), weights))
    return [*(found[place][0] for place in best), usual]


def _usual(instance: Instance, senses: Senses, inventory: Inventory) -> str | None:
    """Returns the most frequent sense in training, or else the first of the inventory."""
    found = senses.by_frequency(instance.lemma, instance.pos)
    return found[0][0] if found else inventory.get((instance.lemma, instance.pos))


def _nearest(means: Float[np.ndarray, "K R D"], vector: Float[np.ndarray, "R D"]) -> list[int]:
    """Returns the nearest of K means for every row; in case of a tie, the first."""
    cosines = np.einsum("krd,rd->kr", unit_vectors(means), unit_vectors(vector))
    return (cosines >= cosines.max(axis=0) - TIE).argmax(axis=0).tolist()


def _rows(
    names: Sequence[str],
    right: Mapping[str, Int[np.ndarray, "sentences R"]],
    tests: Tests,
    senses: Senses,
    inventory: Inventory,
    choose: str | None,
) -> list[WsdRow]:
    """Makes the rows; `right` counts the instances of each sentence that each row has right."""
    sizes = {name: sum(len(labelled.keys) for labelled in test) for name, test in tests.items()}
    words = [(one.lemma, one.pos) for test in tests.values() for each in test for one in each.sentence.instances]
    new = [word for word in words if word not in senses.numbers]
    others = [name for name in tests if name != choose] or list(tests)

    def percent(place: int, of: Collection[str]) -> float:
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
    """Shows F1 by layer and test set, the counts of instances, and the differences of the chosen layer."""
    rows, choose = record.rows, record.settings.get("choose")
    names = list(rows[0]["f1"])
    rest = "" if choose is None or len(names) == 1 else f"ALL{len(names) - 1}"  # all test sets except `choose`
    yield from blocks.by_layer("wsd", rows, "all", "F1")
    cells = [
        (
            row["layer"], *(f"{row['f1'][name]:.1f}" for name in names), f"{row['all']:.1f}",
            f"{row['others']:.1f}" if rest else "", "*" if row["chosen"] else "",
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
            there = f": {row['others']:.1f} on {rest}" if rest else ""
            said = f"layer {row['layer']} is the best on {choose}{there}"
            yield Text(f"{said}; points against {blocks.intervals(row)}.")


PROBE = Probe(
    name="wsd",
    version="2",
    title="Word senses, layer by layer",
    config=WsdConfig,
    run=disambiguate,
    show=_show,
    recipe=RECIPES / "probes" / "wsd.toml",
    goes_with={"inventory": {"train", "tests"}, "choose": {"tests"}},
    checkpoint=CHECKPOINT,
)
