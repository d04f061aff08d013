"""Reads training windows ahead in another process."""

import traceback
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from elmo.errors import InputError
from elmo.pretraining.batches import LmReader, ReaderConfig
from elmo.pretraining.ids import Ids
from elmo.pretraining.workers import end_with_parent, start_method
from elmo.text.vocabulary import Vocabulary
from elmo.types import LmBatch

DEPTH = 8
"""The number of batches that are read ahead."""


def prefetch(
    ids: Ids,
    vocabulary: Vocabulary,
    config: ReaderConfig,
    position: dict[str, Any] | None = None,
    ahead: bool = True,
    reader: Callable[..., Iterator[LmBatch]] = LmReader,
) -> Generator[LmBatch, None, None]:
    """Yields the batches of `reader`, of which another process makes up to `DEPTH` ahead; `close` ends the process.

    Without `ahead`, this process makes them. InputError and OSError of the other process are raised here as they are;
    a RuntimeError has the traceback of any other error.
    """
    if not ahead:
        yield from reader(ids, vocabulary, config, position)
        return
    windows = _Windows(reader, ids, vocabulary, config, position)
    # DataLoader draws a number. Without a generator of its own, this would shift the random numbers of a step.
    own = torch.Generator()
    loader = DataLoader(
        windows,
        batch_size=None,
        num_workers=1,
        prefetch_factor=DEPTH,
        generator=own,
        collate_fn=_unchanged,
        multiprocessing_context=start_method(),
    )
    for item in loader:
        if isinstance(item, Exception):
            raise item
        tensors = {name: torch.from_numpy(part) for name, part in item.items() if isinstance(part, np.ndarray)}
        yield LmBatch(**(item | tensors))


class _Windows(IterableDataset):
    """The reader in the other process; an error is its last item: DataLoader would rewrite it, and leave the process.

    Windows are sent as arrays. Tensors would use shared memory, which is small in containers, and whose transfer warns
    if a run stops in the middle of it.
    """

    def __init__(self, reader: Callable[..., Iterator[LmBatch]], *arguments: Any) -> None:
        self._reader, self._arguments = reader, arguments

    def __iter__(self) -> Iterator[dict[str, Any] | Exception]:
        torch.set_num_threads(1)
        end_with_parent()
        try:
            for batch in self._reader(*self._arguments):
                yield {name: x.numpy() if isinstance(x, torch.Tensor) else x for name, x in vars(batch).items()}
        except (InputError, OSError) as error:
            yield error
        except Exception:  # it is sent as text, since not every error can be pickled
            yield RuntimeError(f"the process that reads the corpus failed:\n{traceback.format_exc()}")


def _unchanged(item: Any) -> Any:
    return item
