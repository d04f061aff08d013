"""What a result was made on: the processor, the libraries, the day."""

import os
import platform
from datetime import date
from pathlib import Path

import torch

from elmo import __version__
from elmo.errors import InputError


def card(device: str = "cpu") -> dict[str, str | int]:
    """What stands beside a result: plain JSON values. Raises InputError where there is no such device."""
    return {
        "date": date.today().isoformat(),
        "processor": processor(device),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "elmo": __version__,
    }


def processor(device: str = "cpu") -> str:
    """What the device calls itself. Raises InputError where there is no such device."""
    try:
        if torch.device(device).type != "cpu":
            return torch.cuda.get_device_name(device)
    except (RuntimeError, AssertionError, ValueError) as error:  # as torch sees fit
        raise InputError(f"device is {device!r}, which cannot be used ({error}); 'cpu' always can") from error
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
