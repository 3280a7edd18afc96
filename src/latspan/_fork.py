"""
Processes that begin as a copy of another.

In a forked child no other thread lives to let go of a lock, so much must begin again.
"""

from __future__ import annotations

import itertools
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

__all__ = ["is_child_of", "register_after_fork", "this_process"]

_this_process = object()


def this_process() -> object:
    """Return what is the same as long as nobody forks, and another in each forked child."""
    return _this_process


def _become_another() -> None:
    global _this_process
    _this_process = object()


os.register_at_fork(after_in_child=_become_another)


def is_child_of(package: str) -> bool:
    """
    Return whether ``package``, if it is loaded at all, started this process.

    By its name, which a spawned child has before it imports the application; its parent, which
    there is a function for, it knows only afterwards.

    Args:
        package: ``multiprocessing``, or billiard, which has the same modules.
    """
    process: Any = sys.modules.get(f"{package}.process")
    return process is not None and process.current_process().name != "MainProcess"


_begins: Final[dict[int, weakref.WeakMethod[Callable[[], None]]]] = {}
"""What begins again, in the order in which it was asked for; an object that is gone is not here."""

_serial: Final = itertools.count()


def register_after_fork(begin: Callable[[], None]) -> None:
    """
    Call ``begin`` in each forked child.

    Args:
        begin: A bound method; forgotten when its object is gone.
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


# One hook for all: the interpreter keeps each for good, whatever becomes of its object.
os.register_at_fork(after_in_child=_begin_again)
