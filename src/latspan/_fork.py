"""
Hooks for child processes: the start of a forked one, and the end of one that skips ``atexit``.

A forked child has only the thread that forked. A lock that another thread held is never released in
the child, so locks and threads must be created again.
"""

from __future__ import annotations

import itertools
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

__all__ = ["register_after_fork", "run_before_a_child_ends", "this_process", "was_started_by"]

_LAST: Final = -1_000_000
"""
Priority of the exit hook: it runs after all finalisers of the application, which may still record.
"""

_this_process = object()


def this_process() -> object:
    """Return an object that identifies this process; each forked child has a different one."""
    return _this_process


def _become_another() -> None:
    global _this_process
    _this_process = object()


os.register_at_fork(after_in_child=_become_another)


def was_started_by(package: str) -> bool:
    """
    Return whether ``package`` is loaded and started this process.

    The check uses the process name, which a spawned child has before it imports the application.
    ``parent_process()`` returns ``None`` until the application is imported.

    Args:
        package: ``multiprocessing``, or billiard, which has the same modules.
    """
    process: Any = sys.modules.get(f"{package}.process")
    return process is not None and process.current_process().name != "MainProcess"


_begins: Final[dict[int, weakref.WeakMethod[Callable[[], None]]]] = {}
"""Callbacks in the order of registration; those of a deleted object are removed."""

_serial: Final = itertools.count()


def register_after_fork(begin: Callable[[], None]) -> None:
    """
    Register ``begin`` to be called in each forked child.

    Args:
        begin: A bound method; removed when its object is deleted.
    """
    number = next(_serial)

    def forget(_: object) -> None:
        _begins.pop(number, None)

    _begins[number] = weakref.WeakMethod(begin, forget)


def _begin_again() -> None:
    for weakly in tuple(_begins.values()):
        begin = weakly()
        if begin is not None:
            begin()


# A single hook for all callbacks, because the interpreter never removes a hook.
os.register_at_fork(after_in_child=_begin_again)


def run_before_a_child_ends(last: Callable[[], None]) -> None:
    """
    Register ``last`` to run when this process ends, if a library that skips ``atexit`` started it.

    Children of ``multiprocessing`` and billiard exit with ``os._exit``, after running their own
    finalisers. Python 3.13 runs ``atexit`` in them, but discards what the parent registered. A
    process of Celery's pool exits before those finalisers run, and dispatches Celery's signal
    ``worker_process_shutdown``. Finalisers are discarded when a child starts, so call this at the
    child's first record, not at the fork.

    Args:
        last: Called at the end of such a process, possibly more than once.
    """
    if was_started_by("multiprocessing") or was_started_by("billiard"):
        from multiprocessing import util  # billiard uses the same finalisers

        util.Finalize(None, last, exitpriority=_LAST)
    signals: Any = sys.modules.get("celery.signals")
    if signals is not None:

        def shut_down(**_: object) -> None:
            last()

        signals.worker_process_shutdown.connect(shut_down, weak=False, dispatch_uid=__name__)
