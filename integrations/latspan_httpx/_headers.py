"""Our trace context among the headers of a request, added before it is sent and removed after."""

from __future__ import annotations

from typing import Any, Final

from latspan.integrations import Exchange

__all__ = ["Loan"]

_TRACEPARENT: Final = b"traceparent"

_lent: Final[set[bytes]] = set()
"""
The values of ``traceparent`` that are lent at the moment. One request may be on its way twice at
once: then the value that stands there is the other's loan, and not the caller's own.
"""


class Loan:
    """
    What was added to the headers of one request.

    Args:
        exchange: Whose trace context it is.
        headers: The request's own, in httpx's class.
    """

    __slots__ = ("_entry", "_state", "_state_before")

    def __init__(self, exchange: Exchange, headers: Any) -> None:
        self._entry: tuple[bytes, bytes, bytes] | None = None
        self._state: str | None = None
        self._state_before: str | None = None
        listed = _listed(headers)
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
                # A transport copied the headers of the same call.
                return
            else:
                listed[present] = entry
            _lent.add(entry[2])
            self._entry = entry

    def give_back(self, headers: Any) -> None:
        """
        Remove it, and leave everything else as the transport left it.

        Args:
            headers: Those that the request has now.
        """
        if self._entry is None:
            return
        _lent.discard(self._entry[2])
        listed = _listed(headers)
        if listed is not None and self._entry in listed:
            listed.remove(self._entry)
        if self._state is not None and headers.get("tracestate") == self._state:
            if self._state_before is None:
                del headers["tracestate"]
            else:
                headers["tracestate"] = self._state_before


def _listed(headers: Any) -> list[tuple[bytes, bytes, bytes]] | None:
    # The headers' own methods go through all of them to look, again to add and again to remove:
    # that took longer than all the rest of a request.
    return getattr(headers, "_list", None)
