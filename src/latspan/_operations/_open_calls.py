"""Registry of open calls, which also ends the calls that nothing else ends."""

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
    "end_left_calls",
    "is_first_to_end",
    "opened",
]

current_call: ContextVar[ModelCall | None] = ContextVar("latspan_call", default=None)
"""Call of the current context. It may have ended already, see :func:`active_call`."""

# Strong references: a call that the application never ends must still exist at shutdown.
_open_calls: dict[int, ModelCall] = {}
_serial = itertools.count()


def opened(call: ModelCall) -> int:
    """Keep ``call`` until it ends, and return its handle."""
    handle = next(_serial)
    _open_calls[handle] = call
    return handle


def is_first_to_end(handle: int) -> bool:
    """Drop the call and return whether it was open; only one of several callers gets ``True``."""
    # Popping is atomic: of several threads and a finalizer, exactly one gets the call.
    return _open_calls.pop(handle, None) is not None


def active_call() -> ModelCall | None:
    """
    Return the call that a client library is making in this context, if any.

    A task that was started inside a call has it in its context even after the call has ended. For
    transports a call is over once it has returned, although its stream may still be read.
    """
    call = current_call.get()
    if call is None or call.finished or call.returned_ns is not None:
        return None
    return call


def abandon_open_calls() -> None:
    """End every open call as ``abandoned``, because the process shuts down."""
    end_left_calls()
    for call in list(_open_calls.values()):
        call.end(Outcome.ABANDONED)


def end_left_calls(left_for_ns: int = 0) -> None:
    """
    End the calls whose streams the callers have stopped reading; later reads are not recorded.

    Args:
        left_for_ns: Minimum time since the last read returned, in nanoseconds.
    """
    for call in list(_open_calls.values()):
        call.end_if_left(left_for_ns)


def _forget_the_parents() -> None:
    """Drop the parent process's open calls in a forked child; the parent ends them."""
    for call in _open_calls.values():
        call.finished = True
    _open_calls.clear()


os.register_at_fork(after_in_child=_forget_the_parents)
