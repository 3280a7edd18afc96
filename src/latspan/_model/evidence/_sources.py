"""
Sources of evidence: the type of a source, and the sources that other distributions install.

An entry point in the group ``latspan_evidence`` names an :class:`EvidenceSource`. The sources are
loaded once, when latspan reads its first response. A source that cannot be loaded, or whose adapter
raises, costs one warning and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, NamedTuple

from latspan._base.log import warn_once
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

_GROUP: Final = "latspan_evidence"

Adapter = Callable[[ResponseMetadata], ReportedTimings | None]


class EvidenceSource(NamedTuple):
    """
    A system that reports its own timings in its responses.

    Args:
        markers: Body fields and headers; a response with its timings has at least one of them.
        read: Adapter that returns the timings of a response, or ``None`` if the response has none.
            latspan checks whether they fit the times that the client measured.
        is_gateway: Whether it is a gateway in front of a model server. Its timings are read in
            addition to those of the server.
    """

    markers: frozenset[str]
    read: Callable[[ResponseMetadata], ReportedTimings | None]
    is_gateway: bool = False


def installed_sources() -> tuple[EvidenceSource, ...]:
    """Return the sources of other distributions, in the order of their entry points' names."""
    return tuple(_loaded(sorted(entry_points(group=_GROUP), key=lambda point: point.name)))


def _loaded(points: list[EntryPoint]) -> Iterator[EvidenceSource]:
    for point in points:
        try:
            source: Any = point.load()
            if not isinstance(source, EvidenceSource):
                raise TypeError(f"{point.value} is not an EvidenceSource")
        except Exception as error:  # noqa: BLE001 - it is code of another distribution
            warn_once(f"the evidence source {point.name} could not be loaded", error)
        else:
            yield source._replace(read=functools.partial(_read, point.name, source.read))


def _read(name: str, read: Any, response: ResponseMetadata) -> ReportedTimings | None:
    try:
        return read(response)
    except Exception as error:  # noqa: BLE001 - it is code of another distribution
        warn_once(f"the evidence source {name} failed to read a response", error)
        return None
