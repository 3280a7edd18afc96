"""Description of a system that reports its own timings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from latspan._segments import ReportedTimings
from latspan._wire import ResponseMetadata

__all__ = ["Adapter", "EvidenceSource"]

Adapter = Callable[[ResponseMetadata], ReportedTimings | None]


class EvidenceSource(NamedTuple):
    """
    A system that reports its own timings in its responses.

    Args:
        markers: Body fields and headers; a response with its timings has at least one of them.
        read: Adapter that reads the timings of a response; ``None`` if it has none. It only reads:
            latspan checks whether the parts fit the times that the client measured.
        is_gateway: Whether it is a gateway in front of a model server. Its timings are read in
            addition to those of the server.
    """

    markers: frozenset[str]
    read: Callable[[ResponseMetadata], ReportedTimings | None]
    is_gateway: bool = False
