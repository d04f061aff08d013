"""Describes the machine of a result: its processor, its devices, its libraries, and the memory of a process."""

import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

import torch

from elmo import __version__
from elmo.errors import InputError


def card(device: str = "cpu") -> dict[str, str | int]:
    """Returns the record of a result's machine, as plain JSON values. Raises InputError if there is no such device."""
    return {
        "date": date.today().isoformat(),
        "processor": processor(device),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "elmo": __version__,
    }


def usable_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def usable_device(name: str | torch.device) -> torch.device:
    """Returns the device. Raises InputError if it cannot be used."""
    try:
        device = torch.empty(0, device=name).device
        torch.zeros(1, device=device).item()  # a "meta" device has no numbers and raises here
        return device
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:  # as torch's backends raise them
        reason = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise InputError(f"device is {str(name)!r}, which cannot be used ({reason}); 'cpu' always can") from error


def processor(device: str = "cpu") -> str:
    """Returns the device's name. Raises InputError if there is no such device."""
    kind = usable_device(device).type
    if kind == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        name = _processor_name()
    except OSError:
        name = ""
    name = name or platform.processor() or platform.machine()
    return name if kind == "cpu" else f"{kind} of {name}"


def _processor_name() -> str:
    """Returns the processor's name as the system gives it; empty if it is unknown."""
    if sys.platform == "win32":
        import winreg

        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=False).stdout.strip()
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def peak_memory() -> int:
    """Returns the peak memory of this process in bytes; 0 if it is unknown."""
    # The peak of `getrusage` includes that of the parent at fork; Linux's own count does not.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    if sys.platform == "win32":
        return 0
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
