"""Interface of an open call for the integration that opened it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from latspan._segments import Outcome

__all__ = ["Call"]


class Call(Protocol):
    """
    One logical call of a model's client library, which :func:`open_call` has opened.

    :func:`patch_method` opens and ends the calls of a method. An integration that cannot use it
    runs the client's method in :meth:`active`, and then passes the result to
    :func:`track_response`, or ends the call with the outcome of the exception.
    """

    def active(self) -> AbstractContextManager[object]:
        """
        Return a context in which requests are attempts of this call and spans are its children.
        """
        ...

    def end(
        self,
        outcome: Outcome,
        *,
        done_ns: int | None = None,
        error_type: str | None = None,
        finalizing: bool = False,
    ) -> None:
        """
        End the call. Only the first call of this method has an effect.

        Args:
            outcome: How the call ended.
            done_ns: Instant of the end, on latspan's clock; now if not given.
            error_type: ``error.type`` of the span.
            finalizing: Whether a finaliser ends the call. The rest of the work is then left to the
                worker thread, because a finaliser must not wait for a lock.
        """
        ...
