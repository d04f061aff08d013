"""Makes processes that train together agree on settings and texts before they begin."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from elmo import config as configs
from elmo.errors import InputError, in_one_line
from elmo.pretraining.settings import OF_MACHINES, TrainConfig
from elmo.text import corpus
from elmo.training.distributed import Fabric, gather


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
