"""What must begin again in a forked child, where no other thread lives to let go of a lock."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

__all__ = ["begin_again_in_child", "this_process"]

_this_process = object()


def this_process() -> object:
    """Return what is the same as long as nobody forks, and another in each forked child."""
    return _this_process


def _become_another() -> None:
    global _this_process
    _this_process = object()


os.register_at_fork(after_in_child=_become_another)


def begin_again_in_child(begin: Callable[[], None]) -> None:
    """
    Call ``begin`` in each forked child.

    Args:
        begin: A bound method; forgotten when its object is gone.
    """
    weakly = weakref.WeakMethod(begin)

    def after_in_child() -> None:
        begin = weakly()
        if begin is not None:
            begin()

    os.register_at_fork(after_in_child=after_in_child)
