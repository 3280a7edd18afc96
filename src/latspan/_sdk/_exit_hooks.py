"""Last export of a child process that exits without running ``atexit``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from latspan._fork import is_child_of

__all__ = ["run_before_a_child_ends"]

_LAST: Final = -1_000_000
"""
Priority of the exit hook: it runs after all finalisers of the application, which may still record.
"""


def run_before_a_child_ends(last: Callable[[], None]) -> None:
    """
    Register ``last`` to run when this process ends, if a library that skips ``atexit`` started it.

    Children of ``multiprocessing`` and billiard exit with ``os._exit``, after running their own
    finalisers. Python 3.13 runs ``atexit`` in them, but discards what the parent registered.
    Celery's pool exits even before those finalisers, and sends a signal of its own. Finalisers are
    discarded when a child starts, so call this at the child's first record, not at the fork.

    Args:
        last: Called at least once.
    """
    if is_child_of("multiprocessing") or is_child_of("billiard"):
        from multiprocessing import util  # billiard uses the same finalisers

        util.Finalize(None, last, exitpriority=_LAST)
    signals: Any = sys.modules.get("celery.signals")
    if signals is not None:

        def shut_down(**_: object) -> None:
            last()

        signals.worker_process_shutdown.connect(shut_down, weak=False, dispatch_uid=__name__)
