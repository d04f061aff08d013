"""Renews locks in forked children, where the thread that held a lock does not exist and cannot release it."""

import os
import sys
from threading import RLock
from typing import Any
from weakref import WeakSet

_OWNERS: WeakSet[Any] = WeakSet()


def renew_at_fork(owner: Any) -> None:
    """Renews `owner` in every forked child in which its `lock` would otherwise be held for ever.

    The owner gets a new `RLock`, and its `clear()` drops what the other thread may have left half done.
    """
    _OWNERS.add(owner)


def _renew() -> None:
    for owner in list(_OWNERS):
        if owner.lock.acquire(blocking=False):
            owner.lock.release()
        else:
            owner.lock = RLock()
            owner.clear()


if sys.platform != "win32":  # Windows does not fork
    os.register_at_fork(after_in_child=_renew)
