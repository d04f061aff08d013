"""Makes the text's ids before training, and from them the vocabulary and the number of steps."""

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.disk.files import write_run_file
from elmo.errors import InputError
from elmo.formats import Description
from elmo.pretraining.ids import Ids, keep_ids, kept_ids, make_ids
from elmo.pretraining.initial import initial_vocabulary, origin_of
from elmo.pretraining.settings import FOR_WEIGHTS, TrainConfig, read_record
from elmo.terminal import Counter
from elmo.text import corpus
from elmo.text.normalization import respell_function
from elmo.text.vocabulary import CorpusCounts, Vocabulary, choose_words
from elmo.training.distributed import Fabric, gather, patient_group

Counted = tuple[Vocabulary, CorpusCounts, dict[str, Any] | None]
"""The vocabulary, the corpus's counts and `initial.origin_of` (None without a model to start from)."""
SESSIONS = "sessions.json"
"""The file in a run's folder with the steps from which it had other settings, if it was resumed with them."""
TEXT = "text"
"""The folder in a run's folder with the text as ids."""
WORTH_KEEPING = 10.0
"""A dry run keeps the ids of a text that takes at least as many seconds to read."""


def count_corpus(
    fabric: Fabric,
    paths: list[Path],
    fingerprint: str,
    config: TrainConfig,
    source: Description | None,
    keep: bool,
    quiet: bool,
) -> tuple[Ids, Counted]:
    """Returns the text's ids, from the run's folder or made now, and its vocabulary, its counts and the run's origin.

    `source` is the model that the run starts from, which one that has begun no longer needs.

    With `keep`, the first process writes ids and record to the run's folder; without, only ids that took long to make.
    An error of one process is raised in all.
    """
    group = patient_group(fabric)
    folder = Path(config.output) / TEXT if config.ids is None else Path(config.ids)
    ids: Ids | None = None
    counted: Counted | None = None
    problem: InputError | OSError | None = None
    if fabric.is_global_zero:
        try:
            ids, counted = _counted(folder, paths, fingerprint, config, source, keep, quiet)
        except (InputError, OSError) as error:
            problem = error
    _raise_first(gather(fabric, problem, group))
    counted = fabric.broadcast(counted)
    if ids is None:
        try:
            ids = kept_ids(folder, paths, config.text, any_version=True)
            ids = make_ids(paths, config.text) if ids is None else ids
        except (InputError, OSError) as error:
            problem = error
    _raise_first(gather(fabric, problem, group))
    assert ids is not None
    assert counted is not None
    return ids, counted


def write_record(config: TrainConfig) -> None:
    """Writes the run's settings to its folder."""
    write_run_file(Path(config.output) / "train.json", configs.to_json(config).encode())


def record_session(config: TrainConfig, step: int) -> None:
    """Writes the settings as `write_record` does, for a run from `step` on.

    If other settings of `FOR_WEIGHTS` begin there, `sessions.json` has all of them. Raises InputError if that file is
    damaged.
    """
    file, now = Path(config.output) / SESSIONS, _for_weights(config)
    first = {"step": 0, "settings": _for_weights(read_record(Path(config.output) / "train.json"))}
    was_kept = file.exists()
    try:
        known = configs.load_json(file) if was_kept else [first]
        known = [each for each in known if each["step"] < step]
        if not known or known[-1]["settings"] != now:
            known.append({"step": step, "settings": now})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: damaged ({error}); remove it, then --resume") from error
    if was_kept or len(known) > 1:
        write_run_file(file, (json.dumps(known, indent=2) + "\n").encode())
    write_record(config)


def _for_weights(config: TrainConfig) -> dict[str, Any]:
    values = configs.to_dict(config)
    return {key: values[key] for key in FOR_WEIGHTS}


def _raise_first(problems: Iterable[Exception | None]) -> None:
    for problem in problems:
        if problem is not None:
            raise problem


def _counted(
    folder: Path,
    paths: list[Path],
    fingerprint: str,
    config: TrainConfig,
    source: Description | None,
    keep: bool,
    quiet: bool,
) -> tuple[Ids, Counted]:
    """Does what `count_corpus` does, in the first process."""
    record, file = Path(config.output) / "corpus.json", Path(config.output) / "vocab.txt"
    origin, counts, vocabulary = None, None, None
    if record.exists():
        try:
            stored = configs.load_json(record)
            known, sha256, origin = stored["fingerprint"], stored["vocabulary"], stored["init_from"]
            counts = configs.from_dict(CorpusCounts, stored["counts"])
            if not isinstance(origin, dict | None):
                raise TypeError(f"init_from is {origin!r}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{record}: damaged ({error}); remove it to count the words again") from error
        if not corpus.is_fingerprint(known, fingerprint):
            raise InputError(f"{record}: the training files differ from those counted; name another --output")
        with suppress(InputError, FileNotFoundError):  # the remedy of a vocabulary of one's own would not help
            vocabulary = Vocabulary.load(file)
        if vocabulary is None or sha256 != vocabulary.sha256:
            raise InputError(
                f"{file}: is not the vocabulary that this run began with; restore it, such as from"
                f" {Path(config.output) / 'model' / 'vocab.txt'}"
            )
    began = time.monotonic()
    ids = kept_ids(folder, paths, config.text, any_version=counts is not None)
    is_new = ids is None
    if ids is None:
        with Counter("MB", quiet, "tokenizing", 1e6) as counter:
            ids = make_ids(paths, config.text, counter.update)
    if counts is None or vocabulary is None:
        vocabulary, counts = _vocabulary(ids, config, source)
    if is_new and (keep or time.monotonic() - began > WORTH_KEEPING):
        keep_ids(folder, ids, paths, config.text)
        ids = kept_ids(folder, paths, config.text)  # as a memory map
        if ids is None:
            raise InputError(f"{', '.join(config.train)}: changed while it was read; start again when it is complete")
    if origin is None and source is not None:
        assert config.init_from is not None
        origin = origin_of(source, config.init_from, config.init_vocab, config.train, fingerprint, config.model)
    if keep:
        # In this order: a folder with a vocabulary but no configuration could not be resumed.
        if not (Path(config.output) / "train.json").exists():
            write_record(config)
        vocabulary.save(file)
        stored = {"fingerprint": fingerprint, "counts": vars(counts), "init_from": origin}
        stored["vocabulary"] = vocabulary.sha256
        write_run_file(record, json.dumps(stored).encode())
    return ids, (vocabulary, counts, origin)


def _vocabulary(ids: Ids, config: TrainConfig, source: Description | None) -> tuple[Vocabulary, CorpusCounts]:
    given = None if config.vocab is None else Vocabulary.load(Path(config.vocab), distinct=True)
    respell = respell_function(config.text.normalize)
    if given is not None and (word := next((each for each in given.words if respell(each) != each), None)) is not None:
        raise InputError(
            f"{config.vocab}: has {word!r}, which text.normalize makes {respell(word)!r}; give the words as they are"
            " read, each once"
        )
    own = None if source is None else source.vocabulary
    vocabulary, counts = choose_words(ids.ranked(), ids.totals(), config.vocab_size, config.min_count)
    if counts.tokens == 0:
        raise InputError(f"{', '.join(config.train)}: contains no words; give text, one paragraph per line")
    counted = given is None and (own is None or config.init_vocab == "replace")
    if counted and counts.covered == 0:
        raise InputError(
            f"{', '.join(config.train)}: no word occurs {config.min_count} times; lower min_count, or give more text"
        )
    return initial_vocabulary(own, given or vocabulary, config.init_vocab), counts
