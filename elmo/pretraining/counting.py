"""Counts the corpus's words before training, for the vocabulary and the number of steps.

The files are divided among the processes; the first adds up the tables: exactly, unless there are too many words.
Counts that took long are cached for the next run on the same text, in `counts/` of the cache.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.disk.files import write
from elmo.disk.lock import locked
from elmo.errors import InputError
from elmo.formats import describe as describe_model
from elmo.formats.cache import cache_folder, make_folder
from elmo.pretraining.initial import initial_vocabulary, origin_of
from elmo.pretraining.settings import FOR_WEIGHTS, TrainConfig, read_record
from elmo.terminal import Counter
from elmo.text import corpus, tokenizer
from elmo.text.tokenizer import TextConfig, Tokenizer
from elmo.text.vocabulary import Counts, Vocabulary, WordTable, choose_words, count_words, merge_tables
from elmo.training.distributed import Fabric, gather, gather_to_first, patient

Counted = tuple[Vocabulary, Counts, dict[str, Any] | None]
"""The vocabulary, the corpus's counts and `initial.origin_of` (None without a model to start from)."""
Words = tuple[Iterable[tuple[str, int]], Counts]
"""Words with their counts, the most frequent first, and the totals."""
SESSIONS = "sessions.json"
"""In a run's folder: the steps from which it had other settings, if it was resumed with them."""
WORTH_KEEPING = 10.0
"""Seconds of counting from which counts are cached."""
MOST_KEPT = 16
"""Corpora in the cache, at most."""


def count(fabric: Fabric, paths: list[Path], fingerprint: str, config: TrainConfig, keep: bool, quiet: bool) -> Counted:
    """The vocabulary, the corpus's counts and the origin of the run: from the folder or the cache, or counted now.

    With `keep`, the first process writes the run's record. An error of one process is raised in all.
    """
    group = patient(fabric)
    kept = _cache_file(paths, config.text)
    first = fabric.is_global_zero
    table: WordTable | None = None
    words: Words | None = None
    problem: InputError | OSError | None = None
    began = time.monotonic()
    if first:
        try:
            in_folder = (Path(config.output) / "corpus.json").exists()
            words = ([], Counts(0, 0, 0, 0)) if in_folder else _read(kept)
        except (InputError, OSError) as error:
            problem = error
    if not fabric.broadcast(words is not None or problem is not None):
        try:
            own = corpus.deal(paths, fabric.world_size)[fabric.global_rank]
            with Counter("words counted", quiet or not first) as counter:
                table = count_words(corpus.sentences(own, Tokenizer(config.text)), counter.update)
        except (InputError, OSError) as error:
            problem = error
        _raise_first(gather(fabric, problem, group))
        assert table is not None
        tables = gather_to_first(fabric, table, group)
        table = merge_tables(tables) if len(tables) > 1 else table
    counted: Counted | None = None
    if first and problem is None:
        try:
            if words is None:
                assert table is not None
                words = table.ranked(), table.counts()
                if time.monotonic() - began > WORTH_KEEPING:
                    _keep(kept, words)
            counted = _counted(words, fingerprint, config, keep)
        except (InputError, OSError) as error:
            problem = error
    _raise_first(gather(fabric, problem, group))
    return fabric.broadcast(counted)  # type: ignore[return-value]


def write_record(config: TrainConfig) -> None:
    """Writes the run's settings to its folder."""
    write(Path(config.output) / "train.json", configs.to_json(config).encode())


def record_session(config: TrainConfig, step: int) -> None:
    """`write_record` for a run from `step` on. If other settings of `FOR_WEIGHTS` begin there, `sessions.json` has all.

    Raises InputError if that file is damaged.
    """
    file, now = Path(config.output) / SESSIONS, _for_weights(config)
    first = {"step": 0, "settings": _for_weights(read_record(Path(config.output) / "train.json"))}
    was_kept = file.exists()
    try:
        known = json.loads(file.read_text(encoding="utf-8")) if was_kept else [first]
        known = [each for each in known if each["step"] < step]
        if not known or known[-1]["settings"] != now:
            known.append({"step": step, "settings": now})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: damaged ({error}); remove it, then --resume") from error
    if was_kept or len(known) > 1:
        write(file, (json.dumps(known, indent=2) + "\n").encode())
    write_record(config)


def _for_weights(config: TrainConfig) -> dict[str, Any]:
    values = json.loads(configs.to_json(config))
    return {key: values[key] for key in FOR_WEIGHTS}


def _raise_first(problems: Iterable[Exception | None]) -> None:
    for problem in problems:
        if problem is not None:
            raise problem


def _counted(words: Words, fingerprint: str, config: TrainConfig, keep: bool) -> Counted:
    """`count` in one process; writes the run's record if `keep`."""
    folder = Path(config.output)
    record, file = folder / "corpus.json", folder / "vocab.txt"
    origin = None
    if record.exists():
        try:
            stored = json.loads(record.read_text(encoding="utf-8"))
            known, counts = stored["fingerprint"], Counts(**stored["counts"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{record}: damaged ({error}); remove it to count the words again") from error
        origin = stored.get("init_from")  # not in records of before 2026-11-22
        if not corpus.is_fingerprint(known, fingerprint):
            raise InputError(f"{record}: the training files differ from those counted; name another --output")
        vocabulary = Vocabulary.load(file)
    else:
        vocabulary, counts = _vocabulary(words, config)
    if origin is None and config.init_from is not None:
        source = describe_model(config.init_from)
        origin = origin_of(source, config.init_from, config.init_vocab, config.train, fingerprint, config.model)
    if keep:
        folder.mkdir(parents=True, exist_ok=True)
        # In this order: a folder with a vocabulary but no configuration could not be resumed.
        if not (folder / "train.json").exists():
            write_record(config)
        vocabulary.save(file)
        stored = {"fingerprint": fingerprint, "counts": vars(counts), "init_from": origin}
        write(record, json.dumps(stored).encode())
    return vocabulary, counts, origin


def _vocabulary(words: Words, config: TrainConfig) -> tuple[Vocabulary, Counts]:
    given = None if config.vocab is None else Vocabulary.load(Path(config.vocab), distinct=True)
    own = None if config.init_from is None else describe_model(config.init_from).vocabulary
    vocabulary, counts = choose_words(*words, config.vocab_size, config.min_count)
    if counts.tokens == 0:
        raise InputError(f"{', '.join(config.train)}: contains no words; give text, one paragraph per line")
    counted = given is None and (own is None or config.init_vocab == "replace")
    if counted and counts.covered == 0:
        raise InputError(
            f"{', '.join(config.train)}: no word occurs {config.min_count} times; lower min_count, or give more text"
        )
    return initial_vocabulary(own, given or vocabulary, config.init_vocab), counts


def _cache_file(paths: list[Path], text: TextConfig) -> Path:
    """Where the counts of this text are cached.

    The name is a hash of all paths, sizes and modification times, and of the versions of what splits the text.
    """
    packages = ["elmo-torch"] + ["spacy"] * (text.tokens == "spacy") + ["pysbd"] * (text.sentences == "pysbd")
    versions = [str(tokenizer.VERSION)]
    for package in packages:
        with suppress(PackageNotFoundError):  # the tokenizer says how to install it
            versions.append(f"{package} {version(package)}")
    key = hashlib.sha256(f"{configs.to_json(text)}{versions}".encode())
    for path in paths:
        found = path.stat()
        key.update(f"{path.resolve()} {found.st_size} {found.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return cache_folder() / "counts" / f"{key.hexdigest()[:32]}.tsv"


def _keep(file: Path, words: Words) -> None:
    ranked, counts = words
    lines = chain([json.dumps(vars(counts))], (f"{count}\t{word}" for word, count in ranked))
    with suppress(OSError):  # a cache that cannot be written does no harm
        make_folder(file.parent)
        with locked(file.parent / "keeping.lock", wait=True):  # another run may have counted the same text
            write(file, "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
            for old in sorted(file.parent.glob("*.tsv"), key=lambda path: path.stat().st_mtime)[:-MOST_KEPT]:
                old.unlink()


def _read(file: Path) -> Words | None:
    """The cached words and counts, if there are any; words are decoded lazily.

    Both raise InputError if the file is damaged.
    """
    try:
        lines = BytesIO(file.read_bytes())  # whole: another run may remove it
        counts = Counts(**json.loads(next(lines)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, StopIteration) as error:
        raise _damaged(file, error) from error

    def ranked() -> Iterator[tuple[str, int]]:
        left = counts.types
        for raw in lines:
            line = raw.decode("utf-8", "surrogatepass")
            number, tab, word = line.removesuffix("\n").partition("\t")
            if not (tab and number.isdecimal() and line.endswith("\n")):
                raise _damaged(file, f"line {line[:40]!r}")
            left -= 1
            yield word, int(number)
        if left:
            raise _damaged(file, f"{left:,} words are missing")

    return ranked(), counts


def _damaged(file: Path, problem: object) -> InputError:
    return InputError(f"{file}: damaged ({problem}); remove it to count the words again")
