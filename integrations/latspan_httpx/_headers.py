"""
latspan's trace context in the headers of a request, added before the send and removed after it.
"""

from __future__ import annotations

from typing import Any, Final

from latspan._instrument import Exchange

__all__ = ["Loan"]

_TRACEPARENT: Final = b"traceparent"

_lent: Final[set[bytes]] = set()
"""
Values of ``traceparent`` that latspan has added to requests in flight.

The same request object may be in flight twice at once. The value in its headers may then belong to
the other send; this set distinguishes it from a value that the caller has set.
"""


class Loan:
    """
    Trace context that was added to the headers of one request.

    Args:
        exchange: The exchange whose trace context is added.
        headers: The headers of the request, an httpx ``Headers`` object.
    """

    __slots__ = ("_entry", "_state", "_state_before")

    def __init__(self, exchange: Exchange, headers: Any) -> None:
        self._entry: tuple[bytes, bytes, bytes] | None = None
        self._state: str | None = None
        self._state_before: str | None = None
        # Each method of httpx's `Headers` iterates over all headers, to find, to add and to remove
        # a value. Together these calls took longer than the rest of latspan's work for a request.
        listed: list[tuple[bytes, bytes, bytes]] | None = getattr(headers, "_list", None)
        if listed is None:
            return
        present: int | None = None
        for at, each in enumerate(listed):
            if each[1] == _TRACEPARENT:
                present = at
                break
        if present is not None and listed[present][2] not in _lent:
            return
        for name, value in exchange.trace_context():
            if name != "traceparent":
                self._state, self._state_before = value, headers.get(name)
                headers[name] = value
                continue
            entry = (_TRACEPARENT, _TRACEPARENT, value.encode("ascii"))
            if present is None:
                listed.append(entry)
            elif listed[present][2] == entry[2]:
                # A transport has copied the headers of the same call, so the value is there
                # already.
                return
            else:
                listed[present] = entry
            _lent.add(entry[2])
            self._entry = entry

    def give_back(self, headers: Any) -> None:
        """
        Remove the trace context, and keep every other change that the transport made.

        Args:
            headers: The present headers of the request.
        """
        if self._entry is None:
            return
        _lent.discard(self._entry[2])
        listed: list[tuple[bytes, bytes, bytes]] | None = getattr(headers, "_list", None)
        if listed is not None and self._entry in listed:
            listed.remove(self._entry)
        if self._state is not None and headers.get("tracestate") == self._state:
            if self._state_before is None:
                del headers["tracestate"]
            else:
                headers["tracestate"] = self._state_before
