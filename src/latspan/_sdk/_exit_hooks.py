"""The last export of a child that ends without ``atexit``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from latspan._fork import is_child_of

__all__ = ["run_before_a_child_ends"]

_LAST: Final = -1_000_000
"""The exit priority: after everything of the application's, which may record."""


def run_before_a_child_ends(last: Callable[[], None]) -> None:
    """
    Have ``last`` called when this process ends, if a library started it that skips ``atexit``.

    Children of ``multiprocessing`` and billiard leave by ``os._exit``, after finalisers of their
    own; 3.13 runs ``atexit`` in them, but forgets what the parent registered. Celery's pool
    leaves before even those, with a signal of its own. Finalisers are forgotten when a child
    begins, so this is for its first record, not for the fork.

    Args:
        last: Called once or more often.
    """
    if is_child_of("multiprocessing") or is_child_of("billiard"):
        from multiprocessing import util  # billiard's finalisers are these

        util.Finalize(None, last, exitpriority=_LAST)
    signals: Any = sys.modules.get("celery.signals")
    if signals is not None:

        def shut_down(**_: object) -> None:
            last()

        signals.worker_process_shutdown.connect(shut_down, weak=False, dispatch_uid=__name__)
