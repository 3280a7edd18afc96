"""Registry of open calls, which also ends the calls that nothing else ends."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from latspan._segments import Outcome

if TYPE_CHECKING:
    from latspan._operations._call import ModelCall

__all__ = [
    "TentativeEnd",
    "abandon_open_calls",
    "active_call",
    "current_call",
    "end_left_calls",
    "open_calls",
]

current_call: ContextVar[ModelCall | None] = ContextVar("latspan_call", default=None)
"""Call of the current context. It may have ended already, see :func:`active_call`."""

open_calls: Final[dict[ModelCall, bool]] = {}
"""
Open calls, each with the value ``True``.

The references are strong: a call that the application never ends must still exist at shutdown.
Popping a call is atomic: of several threads and a finalizer that end it, exactly one gets ``True``.
"""


class TentativeEnd(NamedTuple):
    """
    End of a call whose caller has stopped reading, valid unless reading resumes.

    Args:
        outcome: Outcome of the call.
        done_ns: End of the call, monotonic nanoseconds.
        error_type: Status code or name of an exception type.
        last_read: Start and end of the read that returned no chunk, if there was one.
    """

    outcome: Outcome
    done_ns: int
    error_type: str | None
    last_read: tuple[int, int] | None


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
    for call in list(open_calls):
        call.end(Outcome.ABANDONED)


def end_left_calls(left_for_ns: int = 0) -> None:
    """
    End the calls whose streams the callers have stopped reading; later reads are not recorded.

    Args:
        left_for_ns: Minimum time since the last read returned, in nanoseconds.
    """
    for call in list(open_calls):
        call.end_if_left(left_for_ns)


def _forget_the_parents() -> None:
    """Drop the parent process's open calls in a forked child; the parent ends them."""
    for call in open_calls:
        call.finished = True
    open_calls.clear()


os.register_at_fork(after_in_child=_forget_the_parents)
