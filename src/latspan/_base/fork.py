"""
Hooks for child processes: the start of a forked one, and the end of one that skips ``atexit``.

A forked child has only the thread that forked. A lock that another thread held is never released in
the child, so locks and threads must be created again.

If that thread is not the main one of its parent, the child ends when its function returns: it was
the last thread, and Python does not run ``atexit`` then. Threads of latspan would keep such a child
alive for ever, so one of them waits for the application's threads and then ends it.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

_LAST: Final = -1_000_000
"""
Priority of the exit hook: it runs after all finalisers of the application, which may still record.
"""

_this_process = object()


def this_process() -> object:
    """Return an object that identifies this process; each forked child has a different one."""
    return _this_process


_is_forked_by_thread = False
"""Whether this process, or one that it was forked from, was forked by a thread of its parent."""

_forks_on_thread = False

_OWN_THREADS: Final = "latspan-"
"""Beginning of the names of latspan's threads."""


def _before_fork() -> None:
    global _forks_on_thread
    _forks_on_thread = threading.current_thread() is not threading.main_thread()


def _become_another() -> None:
    global _this_process, _is_forked_by_thread
    _this_process = object()
    _is_forked_by_thread = _is_forked_by_thread or _forks_on_thread


os.register_at_fork(before=_before_fork, after_in_child=_become_another)


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
    Register ``last`` to run when this process ends, if ``atexit`` is skipped then.

    Children of ``multiprocessing`` and billiard exit with ``os._exit``, after running their own
    finalisers. Python 3.13 runs ``atexit`` in them, but discards what the parent registered. A
    process of Celery's pool exits before those finalisers run, and dispatches Celery's signal
    ``worker_process_shutdown``. Finalisers are discarded when a child starts, so call this at the
    child's first record, not at the fork.

    Args:
        last: Called at the end of such a process, possibly more than once.
    """
    if _is_forked_by_thread:
        threading.Thread(
            target=_end_after_all, args=(last,), name=f"{_OWN_THREADS}end", daemon=True
        ).start()
    if was_started_by("multiprocessing") or was_started_by("billiard"):
        from multiprocessing import util  # billiard uses the same finalisers

        util.Finalize(None, last, exitpriority=_LAST)
    signals: Any = sys.modules.get("celery.signals")
    if signals is not None:

        def shut_down(**_: object) -> None:
            last()

        signals.worker_process_shutdown.connect(shut_down, weak=False, dispatch_uid=__name__)


def _end_after_all(last: Callable[[], None]) -> None:
    """Wait until no thread of the application is left, and end the process as Python would."""
    while True:
        others = [
            thread for thread in threading.enumerate() if not thread.name.startswith(_OWN_THREADS)
        ]
        if not others:
            break
        try:
            others[0].join()
        except Exception:  # noqa: BLE001 - a thread that Python did not start, and cannot await
            return
    try:
        last()
    finally:
        os._exit(0)
