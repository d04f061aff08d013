"""Locks of threads in a forked child: whoever held one in the parent has no thread in the child to release it."""

import os
import sys
from threading import RLock
from typing import Any
from weakref import WeakSet

_OWNERS: WeakSet[Any] = WeakSet()


def renew_at_fork(owner: Any) -> None:
    """Renews `owner` in every forked child in which another thread would hold its `lock` for ever.

    It gets a new `RLock`, and `clear()` forgets what that thread may have left half done.
    """
    _OWNERS.add(owner)


def _renew() -> None:
    for owner in list(_OWNERS):
        if owner.lock.acquire(blocking=False):
            owner.lock.release()
        else:
            owner.lock = RLock()
            owner.clear()


if sys.platform != "win32":  # which does not fork
    os.register_at_fork(after_in_child=_renew)
