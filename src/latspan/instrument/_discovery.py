"""Which of latspan's integrations there are, and switching them on together."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from latspan.instrument._instrumentor import Instrumentor

__all__ = ["auto_instrument", "instrumented", "instrumentor_of", "uninstrument"]

_logger = logging.getLogger("latspan")

_GROUP = "opentelemetry_instrumentor"
_PREFIX = "latspan_"


def auto_instrument() -> tuple[str, ...]:
    """
    Instrument every supported client library that is installed; calling it twice is once.

    Returns:
        The names of the integrations that are on, for example ``("latspan_httpx2",
        "latspan_openai")``. A library that is absent, or of a version that is not supported, is
        left alone.
    """
    return tuple(sorted(point.name for point in _ours() if _switch_on(point)))


def instrumented() -> tuple[str, ...]:
    """Return the names of the integrations that are on."""
    return tuple(sorted(point.name for point in _ours() if _is_on(_load(point))))


def uninstrument(*names: str) -> None:
    """
    Take instrumentation of latspan's off again.

    Args:
        names: Which integrations, as :func:`auto_instrument` returned them; all, if none is given.
    """
    for point in _ours():
        instrumentor = _load(point) if not names or point.name in names else None
        if instrumentor is not None and _is_on(instrumentor):
            instrumentor.uninstrument()


def instrumentor_of(library: str) -> Instrumentor | None:
    """
    Return the integration of a client library, on or off; ``None`` where there is none.

    Args:
        library: Its top-level package; an integration's name is ``latspan_`` and that.
    """
    for point in _ours():
        if point.name == _PREFIX + library:
            return _load(point)
    return None


def _is_on(instrumentor: Instrumentor | None) -> bool:
    return instrumentor is not None and instrumentor.is_instrumented_by_opentelemetry


def _ours() -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return [point for point in entry_points(group=_GROUP) if point.name.startswith(_PREFIX)]


def _load(point: EntryPoint) -> Instrumentor | None:
    try:
        return point.load()()
    except ImportError:
        return None


def _switch_on(point: EntryPoint) -> bool:
    from opentelemetry.instrumentation.dependencies import (
        DependencyConflictError,
    )

    instrumentor = _load(point)
    if instrumentor is None:
        return False
    if not _is_on(instrumentor):
        try:
            instrumentor.instrument(raise_exception_on_conflict=True)
        except DependencyConflictError as conflict:
            _logger.debug("%s stays off: %s", point.name, conflict)
            return False
    return True
