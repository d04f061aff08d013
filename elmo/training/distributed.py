"""Devices and processes: lightning-fabric, set up once."""

import logging
import warnings
from typing import Literal

from elmo.errors import InputError

try:
    from lightning_fabric import Fabric as Fabric
except ImportError as error:  # pragma: no cover
    raise InputError(f"training needs lightning-fabric ({error}): pip install 'elmo-torch[train]'") from error


def launch(accelerator: str, devices: int, nodes: int, precision: Literal["32-true", "bf16-mixed"]) -> Fabric:
    """A Fabric that runs; one process a device, gradients averaged. Under `torchrun` its processes are used."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    strategy = "ddp" if devices * nodes > 1 else "auto"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fabric = Fabric(
                accelerator=accelerator, devices=devices, num_nodes=nodes, precision=precision, strategy=strategy
            )
    except (ValueError, RuntimeError) as error:
        raise InputError(f"accelerator {accelerator!r} with {devices} devices: {error}") from error
    fabric.launch()
    return fabric
