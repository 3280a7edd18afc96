"""
Registry of open operations: the calls of models, and the HTTP exchanges outside any call.

It also ends the operations that nothing else ends.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from latspan._segments import Outcome

if TYPE_CHECKING:
    from latspan._operations._operation import Operation

__all__ = [
    "TentativeEnd",
    "abandon_open_operations",
    "active_operation",
    "current_operation",
    "end_left_operations",
    "open_operations",
]

current_operation: ContextVar[Operation | None] = ContextVar("latspan_call", default=None)
"""Operation of the current context. It may have ended, see :func:`active_operation`."""

open_operations: Final[dict[Operation, bool]] = {}
"""
Open operations, each with the value ``True``.

The references are strong: an operation that the application never ends must still exist at
shutdown. Popping is atomic: of several threads and a finalizer that end an operation, exactly one
gets ``True``.
"""


class TentativeEnd(NamedTuple):
    """
    End of an operation whose caller has stopped reading, valid unless reading resumes.

    Args:
        outcome: Outcome of the operation.
        done_ns: End of the operation, monotonic nanoseconds.
        error_type: Status code or name of an exception type.
        last_read: Start and end of the read that returned no chunk, if there was one.
    """

    outcome: Outcome
    done_ns: int
    error_type: str | None
    last_read: tuple[int, int] | None


def active_operation() -> Operation | None:
    """
    Return the operation that a client library performs in this context, if any.

    A task that was started inside an operation has it in its context even after its end. For
    transports an operation is over once the client library has returned, although its stream may
    still be read.
    """
    operation = current_operation.get()
    if operation is None or operation.finished or operation.returned_ns is not None:
        return None
    return operation


def abandon_open_operations() -> None:
    """End every open operation as ``abandoned``, because the process shuts down."""
    end_left_operations()
    for operation in list(open_operations):
        operation.end(Outcome.ABANDONED)


def end_left_operations(left_for_ns: int = 0) -> None:
    """
    End the operations whose streams the callers have stopped reading; later reads are not recorded.

    Args:
        left_for_ns: Minimum time since the last read returned, in nanoseconds.
    """
    for operation in list(open_operations):
        operation.end_if_left(left_for_ns)


def _forget_the_parents() -> None:
    """Drop the parent process's open operations in a forked child; the parent ends them."""
    for operation in open_operations:
        operation.finished = True
    open_operations.clear()


os.register_at_fork(after_in_child=_forget_the_parents)
