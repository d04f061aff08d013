"""Devices and processes: lightning-fabric, set up once."""

import logging
import os
import warnings
from datetime import timedelta
from typing import Literal

import torch

from elmo.errors import InputError
from elmo.training.memory import keep_freed_memory

try:
    from lightning_fabric import Fabric as Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy
    from lightning_fabric.utilities.exceptions import MisconfigurationException
except ImportError as error:  # pragma: no cover
    raise InputError(f"training needs lightning-fabric ({error}): pip install 'elmo-torch[train]'") from error


LONGEST_WAIT = timedelta(days=1)
"""What a process waits for the others, while the first one counts the words of a large corpus."""


def processes(devices: int, nodes: int) -> tuple[int, int]:
    """Devices of a node and nodes: as given, but under `torchrun` what it has started."""
    if not torch.distributed.is_torchelastic_launched():
        return devices, nodes
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    return local, int(os.environ["WORLD_SIZE"]) // local


def launch(accelerator: str, devices: int, nodes: int, precision: Literal["32-true", "bf16-mixed"]) -> Fabric:
    """A Fabric that runs; one process a device, gradients averaged; of `torchrun` or started here."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    keep_freed_memory()
    strategy = DDPStrategy(timeout=LONGEST_WAIT) if devices * nodes > 1 else "auto"
    if accelerator == "auto":  # Fabric's own would take an Apple GPU, which has no float64 and no sparse gradients
        accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fabric = Fabric(
                accelerator=accelerator, devices=devices, num_nodes=nodes, precision=precision, strategy=strategy
            )
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        why = " ".join(str(error).split())
        raise InputError(f"accelerator {accelerator!r} with {devices} devices: {why}") from error
    # Of a filter of width 1, whose gradient has the same numbers in the same order whichever stride it names.
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides", UserWarning)
    # Of torch's own Adagrad, which makes sparse tensors out of those that it was given.
    warnings.filterwarnings("ignore", "Sparse invariant checks", UserWarning)
    fabric.launch()
    return fabric
