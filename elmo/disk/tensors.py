"""Writes tensors to files of safetensors."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor


def write_tensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    """Writes contiguous tensors, which share no memory, without a copy; errors of the system are OSErrors."""
    file.touch()
    mode = file.stat().st_mode
    try:
        save_file(dict(tensors), file)
    except SafetensorError as error:
        if number := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
        raise OSError(str(error)) from error
    file.chmod(mode)  # safetensors makes its files readable by the owner only
