"""Checks a run before it begins: its texts, the model that it starts from, its folder, and what its processes got."""

import filecmp
from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from elmo import config as configs
from elmo.disk.files import check_not_input, real_path
from elmo.disk.run import check_same, holds_run
from elmo.errors import InputError, in_one_line
from elmo.formats import Description, describe, native
from elmo.pretraining.counting import TEXT
from elmo.pretraining.ids import check_folder
from elmo.pretraining.initial import check_source
from elmo.pretraining.output import other_file
from elmo.pretraining.settings import OF_MACHINES, TrainConfig, check_numbers, fixed_settings, read_record
from elmo.pretraining.shares import check_shares
from elmo.text import corpus
from elmo.text.records import check_text
from elmo.text.vocabulary import Vocabulary
from elmo.training.checkpoint import newest_checkpoint
from elmo.training.distributed import Fabric, gather


def check_run(
    config: TrainConfig, may_exist: bool, source: Description | None
) -> tuple[list[Path], list[Path], Description | None]:
    """Makes all checks that are possible beforehand; returns both texts' files and the model to start from."""
    check_numbers(config)
    paths = corpus.expand_patterns(config.train)
    heldout = corpus.expand_patterns(config.heldout) if config.heldout else []
    for path in (*paths, *heldout):
        check_text(path)
        if path.exists() and not path.is_file():  # such as a shell's `<(command)`, which can be read only once
            raise InputError(f"{path}: is not a file on disk; training reads a text several times: write it to a file")
    check_shares(paths, config.streams, config.shares, config.devices * config.nodes)
    check_output(config, may_exist)
    if config.ids is not None:
        folder = Path(config.ids)
        check_not_input(folder, [*paths, *heldout, config.vocab])
        run, ids = real_path(config.output), real_path(folder)
        if run in (ids, *ids.parents) and ids != run / TEXT:
            raise InputError(f"{folder}: is the run's own folder or in it; name another as ids, or omit it")
        check_folder(folder)
    _check_heldout(heldout, paths)
    begun = (Path(config.output) / "corpus.json").exists()
    return paths, heldout, _checked_source(config, begun, source)


def _check_heldout(paths: list[Path], trained: list[Path]) -> None:
    """Refuses held-out text that is training text, or has no words, before hours of training.

    `file_lines` refuses other faults.
    """
    known, sizes = {real_path(path) for path in trained}, defaultdict[int, list[Path]](list)
    for path in trained:
        sizes[path.stat().st_size].append(path)
    for path in paths:
        if real_path(path) in known:
            raise InputError(f"{path}: is both training and held-out text; leave it out of one of them")
        same = next((other for other in sizes[path.stat().st_size] if filecmp.cmp(path, other, shallow=False)), None)
        if same is not None:
            raise InputError(f"{path}: is held-out text, and the same as {same}, which is trained on; leave out one")
    if paths and not sum(bool(line.strip()) for path in paths for line in corpus.file_lines(path)):  # to the last line
        raise InputError(f"{', '.join(map(str, paths))}: contains no words; give held-out text, one paragraph per line")


def _checked_source(config: TrainConfig, begun: bool, source: Description | None) -> Description | None:
    """The model that the run starts from; None if there is none, or if the run has begun and no longer needs it.

    Raises InputError for a vocabulary or model that it cannot start from.
    """
    found = None
    if config.init_from is None:
        if config.init_vocab != "keep":
            raise InputError(
                f"init_vocab is {config.init_vocab!r}, but there is no model to start from; add --init-from MODEL"
            )
    elif not begun:
        found = describe(config.init_from) if source is None else source
        check_source(found, config.init_from, config.init_vocab, config.model, config.vocab)
    if config.vocab is not None and not begun:
        Vocabulary.load(Path(config.vocab), distinct=True)
    return found


def check_output(config: TrainConfig, may_exist: bool) -> None:
    """Refuses to overwrite a run, or to resume one with settings that must not change."""
    folder = Path(config.output)
    record = folder / "train.json"
    if not holds_run(record, besides=(TEXT,), inside=("model", "checkpoints", "tensorboard")):
        return
    checkpoint = newest_checkpoint(folder / "checkpoints")
    if checkpoint is None and native.recognizes(folder / "model"):  # a new run would replace it
        raise InputError(
            f"{config.output}: holds a model but no checkpoint to resume; start from the model: --init-from"
            f" {config.output} and another --output"
        )
    if not may_exist:
        at = f"at {checkpoint.name}" if checkpoint else "without a checkpoint"
        raise InputError(f"{config.output}: holds a run ({at}); add --resume to continue it, or name another --output")
    if other := other_file(folder / "model"):
        raise InputError(f"{folder / 'model'}: also holds {other!r}; move it out: training replaces this folder")
    old, new = fixed_settings(read_record(record)), fixed_settings(config)
    check_same(record, old, new)


def check_agreement(
    fabric: Fabric,
    config: TrainConfig,
    paths: Sequence[Path],
    heldout: Sequence[Path],
    problem: InputError | OSError | None,
) -> dict[str, str]:
    """Returns the fingerprints of both texts, `train` and `heldout`, if all processes agree and none has a problem.

    `problem` is this process's own. All processes raise the first problem, or InputError if settings or texts differ
    from those of the first process.
    """
    texts: dict[str, str] = {}
    try:
        texts = {"train": corpus.corpus_fingerprint(paths), "heldout": corpus.corpus_fingerprint(heldout)}
    except OSError as error:
        problem = problem or error
    for rank, found in enumerate(gather(fabric, problem)):
        if found is not None:
            raise found if rank == 0 else InputError(f"process {rank}: {in_one_line(found)}")
    own = {name: value for name, value in configs.to_dict(config).items() if name not in OF_MACHINES}
    first, *others = gather(fabric, own | {"version": version("elmo-torch")} | texts)
    for rank, other in enumerate(others, 1):
        for key, value in first.items():
            if other[key] == value:
                continue
            if key in texts:
                raise InputError(
                    f"process {rank} has different files for --{key} than process 0; give all the same text"
                )
            was, now = configs.differing_parts(value, other[key])
            raise InputError(f"{key} is {was!r} in process 0 and {now!r} in process {rank}; give all the same command")
    return texts
