"""The calls that are open: which one a context is in, and the end of those that nobody ends."""

from __future__ import annotations

import itertools
import os
from contextvars import ContextVar
from typing import TYPE_CHECKING

from latspan._segments import Outcome

if TYPE_CHECKING:
    from latspan._operations._call import ModelCall

__all__ = [
    "abandon_open_calls",
    "active_call",
    "current_call",
    "is_first_to_end",
    "opened",
    "settle_left_calls",
]

current_call: ContextVar[ModelCall | None] = ContextVar("latspan_call", default=None)
"""The call that a context was entered for; it may have ended since, see :func:`active_call`."""

# Strong references: a call that nobody finishes must still be there at shutdown.
_open_calls: dict[int, ModelCall] = {}
_serial = itertools.count()


def opened(call: ModelCall) -> int:
    """Keep ``call`` until it ends, and return its handle."""
    handle = next(_serial)
    _open_calls[handle] = call
    return handle


def is_first_to_end(handle: int) -> bool:
    """Return whether the call is open, and let go of it: of several callers one gets ``True``."""
    # Popping is atomic: of several threads and a finaliser exactly one gets through.
    return _open_calls.pop(handle, None) is not None


def active_call() -> ModelCall | None:
    """
    Return the call that a client library is making in this context, if any.

    A task that was begun inside a call carries it in its context, long after its end. A call
    that has returned is over for transports, though its stream may still be read.
    """
    call = current_call.get()
    if call is None or call.finished or call.returned_ns is not None:
        return None
    return call


def abandon_open_calls() -> None:
    """End every call that is still open as ``abandoned``: the process is going down."""
    settle_left_calls()
    for call in list(_open_calls.values()):
        call.finish(Outcome.ABANDONED)


def settle_left_calls(left_for_ns: int = 0) -> None:
    """
    End the calls whose stream the caller has stopped reading; what is read later is not recorded.

    Args:
        left_for_ns: Only those whose last read returned at least so many nanoseconds ago.
    """
    for call in list(_open_calls.values()):
        call.settle(left_for_ns)


def _forget_the_parents() -> None:
    """Leave what is open in the parent to the parent."""
    for call in _open_calls.values():
        call.finished = True
    _open_calls.clear()


os.register_at_fork(after_in_child=_forget_the_parents)
