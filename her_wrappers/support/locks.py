"""Locks that a process acquires before a fork, so that the child never inherits half-changed data."""

from __future__ import annotations

import os
import threading
import weakref

_LOCKS: weakref.WeakSet[threading.RLock] = weakref.WeakSet()
_FORKING = threading.local()  # .locks: the locks acquired for a fork by this thread


def fork_safe_lock() -> threading.RLock:
    """Return a reentrant lock that is acquired before a fork, and released after it in parent and child."""
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def _acquire_all() -> None:
    _FORKING.locks = list(_LOCKS)
    for lock in _FORKING.locks:
        lock.acquire()


def _release_all() -> None:
    for lock in _FORKING.locks:
        lock.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all)
