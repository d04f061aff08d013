"""Symbolic links, which not every user of every system may make."""

import sys
from pathlib import Path

import pytest


def link(path: Path, target: Path | str) -> Path:
    """Makes `path` a link to `target`, and returns it. Skips the test on Windows without the privilege for links."""
    try:
        path.symlink_to(target, target_is_directory=(path.parent / target).is_dir())
    except OSError as error:
        if sys.platform != "win32":
            raise
        pytest.skip(f"links need a privilege of Windows: {error}")
    return path
