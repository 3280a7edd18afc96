"""Discovery of latspan's integrations, and functions that switch them on and off together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from latspan._warn_once import warn_once

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from latspan._instrument._instrumentor import Instrumentor

__all__ = [
    "Integration",
    "IntegrationStatus",
    "auto_instrument",
    "disabled_by",
    "instrumented",
    "instrumentor_of",
    "integrations",
    "uninstrument",
]

_GROUP: Final = "opentelemetry_instrumentor"
_PREFIX: Final = "latspan_"
_DISABLING: Final = ("LATSPAN_DISABLED_INSTRUMENTATIONS", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS")
_EVERY: Final = "*"


class IntegrationStatus(Enum):
    """Status of an integration: whether it can be switched on, and if not, why."""

    READY = "ready"
    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    DISABLED = "disabled"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Integration:
    """
    One of latspan's integrations and its status in this environment.

    Args:
        name: Name of the integration, as in the result of :func:`auto_instrument`.
        status: Whether it can be switched on.
        requires: The requirement that determines the status, for example ``openai >= 2, < 4``;
            empty for a broken integration.
        found: The installed distribution, for example ``openai 3.1.0``, if any.
        reason: Why it is disabled or broken.
    """

    name: str
    status: IntegrationStatus
    requires: str = ""
    found: str | None = None
    reason: str | None = None


def auto_instrument() -> tuple[str, ...]:
    """
    Instrument every supported client library and server framework that is installed.

    A second call has no effect.

    A library is patched when it is imported, or immediately if it has been imported already.
    Integrations listed in ``LATSPAN_DISABLED_INSTRUMENTATIONS`` or
    ``OTEL_PYTHON_DISABLED_INSTRUMENTATIONS``, separated by commas, stay off; ``*`` means all.

    Returns:
        The names of the integrations that are on, for example ``("latspan_httpx2",
        "latspan_openai")``. A library that is not installed is skipped. If the version of a library
        is not supported, or its integration fails, latspan skips the library and logs one warning.
    """
    return tuple(sorted(point.name for point in _ours() if _switch_on(point)))


def instrumented() -> tuple[str, ...]:
    """Return the names of the integrations that are on."""
    return tuple(sorted(point.name for point in _ours() if _is_on(_load(point))))


def uninstrument(*names: str) -> None:
    """
    Remove latspan's instrumentation of client libraries.

    Args:
        names: Names of integrations as returned by :func:`auto_instrument`; all if none is given.
            Unknown names are ignored.
    """
    for point in _ours():
        instrumentor = _load(point) if not names or point.name in names else None
        if instrumentor is not None and _is_on(instrumentor):
            instrumentor.uninstrument()


def instrumentor_of(library: str) -> Instrumentor | None:
    """
    Return the integration of a client library, on or off; ``None`` if there is none.

    Args:
        library: Top-level package of the library; the integration's name is ``latspan_`` followed
            by it.
    """
    for point in _ours():
        if point.name == _PREFIX + library:
            return _load(point)
    return None


def disabled_by(name: str) -> str | None:
    """Return the environment variable that disables an integration, ``None`` if none does."""
    for variable in _DISABLING:
        named = {part.strip() for part in os.environ.get(variable, "").split(",")}
        if not named.isdisjoint({name, _EVERY}):
            return variable
    return None


def integrations() -> Iterator[Integration]:
    """Yield every integration with its status, sorted by name, without switching it on."""
    for point in sorted(_ours(), key=lambda point: point.name):
        try:
            requires = tuple(point.load()().instrumentation_dependencies())
        except Exception as error:  # noqa: BLE001 - an integration may fail in any way
            yield Integration(
                point.name, IntegrationStatus.BROKEN, reason=f"{type(error).__name__}: {error}"
            )
        else:
            yield _integration_of(point.name, requires)


def _integration_of(name: str, requires: tuple[str, ...]) -> Integration:
    from importlib.metadata import version

    from opentelemetry.instrumentation.dependencies import get_dependency_conflicts
    from packaging.requirements import Requirement

    conflict = get_dependency_conflicts(requires)
    if conflict is not None and not conflict.found:
        return Integration(name, IntegrationStatus.ABSENT, str(conflict.required))
    variable = disabled_by(name)
    if conflict is not None:
        status = IntegrationStatus.UNSUPPORTED if variable is None else IntegrationStatus.DISABLED
        return Integration(name, status, str(conflict.required), conflict.found, variable)
    library = Requirement(requires[0]).name
    status = IntegrationStatus.READY if variable is None else IntegrationStatus.DISABLED
    return Integration(name, status, requires[0], f"{library} {version(library)}", variable)


def _is_on(instrumentor: Instrumentor | None) -> bool:
    return instrumentor is not None and instrumentor.is_instrumented_by_opentelemetry


def _ours() -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return [point for point in entry_points(group=_GROUP) if point.name.startswith(_PREFIX)]


def _load(point: EntryPoint) -> Instrumentor | None:
    try:
        return point.load()()
    except Exception as error:  # noqa: BLE001 - an integration may fail in any way
        warn_once(f"{point.name} could not be loaded and stays off", error)
        return None


def _switch_on(point: EntryPoint) -> bool:
    instrumentor = _load(point)
    if instrumentor is None:
        return False
    if not _is_on(instrumentor) and disabled_by(point.name) is None:
        instrumentor.instrument()
    return _is_on(instrumentor)
