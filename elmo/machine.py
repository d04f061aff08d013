"""What a result was made on: the processor, the libraries, the day; and how much memory that took."""

import os
import platform
import sys
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


def usable_device(name: str | torch.device) -> torch.device:
    """The device. Raises InputError where it cannot be used."""
    try:
        device = torch.empty(0, device=name).device
        torch.zeros(1, device=device).item()  # a "meta" one has no numbers
        return device
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # as the backends of torch see fit
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"device is {str(name)!r}, which cannot be used ({reason}); 'cpu' always can") from error


def processor(device: str = "cpu") -> str:
    """What the device calls itself. Raises InputError where there is no such device."""
    kind = usable_device(device).type
    if kind == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return name if kind == "cpu" else f"{kind} of {name}"


def peak_memory() -> int:
    """Most bytes that this process has had in memory at once; 0 where the system does not say."""
    # What `getrusage` says of a process begins with the size of the one that started it; Linux's own count does not.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # on Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
