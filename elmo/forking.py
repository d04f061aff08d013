"""Renews locks, queues and threads in forked children, which lack the threads of their parent."""

import functools
import os
import sys
from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
_RENEWALS: WeakKeyDictionary[Any, Callable[[Any], object]] = WeakKeyDictionary()


def renew_at_fork(owner: T, renew: Callable[[T], object]) -> None:
    """Calls `renew(owner)` at the start of every forked child, as long as `owner` exists."""
    _RENEWALS[owner] = renew


def held_elsewhere(lock: Any) -> bool:
    """Returns whether another thread holds the `RLock`: in a forked child, it will never release it."""
    is_free = lock.acquire(blocking=False)
    if is_free:
        lock.release()
    return not is_free


class cached_property(functools.cached_property[T]):
    """`functools.cached_property`, whose lock, which it has before Python 3.12, is renewed at a fork."""

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        if sys.version_info < (3, 12):
            renew_at_fork(self, lambda made: setattr(made, "lock", RLock()))


class _Child:
    """A forked child of a process that has computed."""

    must_settle = False
    """This process is such a child, and has not computed itself."""


def settle_child() -> None:
    """Limits torch to one thread in a forked child, which would wait for threads that only its parent has.

    Whatever loads a model or computes vectors calls this first. A child that does neither keeps its threads.
    """
    if _Child.must_settle:
        import torch

        _Child.must_settle = False
        torch.set_num_threads(1)
    renew_at_fork(_Child, lambda child: setattr(child, "must_settle", True))


def _renew() -> None:
    for owner, renew in list(_RENEWALS.items()):
        renew(owner)


if sys.platform != "win32":  # Windows does not fork
    os.register_at_fork(after_in_child=_renew)
