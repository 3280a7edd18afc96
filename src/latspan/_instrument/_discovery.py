"""Discovery of latspan's integrations, and functions that switch them on and off together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from latspan import _runtime
from latspan._warn_once import warn_once

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from latspan._instrument._instrumentor import Instrumentor

__all__ = [
    "DISABLING_VARIABLES",
    "Integration",
    "IntegrationStatus",
    "auto_instrument",
    "disabled_by",
    "instrumented",
    "instrumented_libraries",
    "instrumentor_of",
    "integrations",
    "note_patched",
    "note_switched_on",
    "patched_libraries",
    "uninstrument",
]

_GROUP: Final = "opentelemetry_instrumentor"
_PREFIX: Final = "latspan_"
_OWN_VARIABLE: Final = "LATSPAN_DISABLED_INSTRUMENTATIONS"
DISABLING_VARIABLES: Final = (_OWN_VARIABLE, "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS")
"""Variables with the names of integrations to leave off: latspan's own, and OpenTelemetry's."""

_EVERY: Final = "*"

_switched_on: Final[dict[str, Instrumentor]] = {}
"""Integrations that were switched on at some time, by the import package of their library."""

_patched: Final[set[str]] = set()


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

    A library is patched when it is imported, or immediately if it has already been imported. A
    second call has no effect.

    Integrations listed in ``LATSPAN_DISABLED_INSTRUMENTATIONS`` or
    ``OTEL_PYTHON_DISABLED_INSTRUMENTATIONS``, separated by commas, stay off; ``*`` disables all. In
    the first variable, the name of the library is enough: ``openai`` for ``latspan_openai``.

    Returns:
        The names of the integrations that are on, for example ``("latspan_httpx2",
        "latspan_openai")``. A library that is not installed is skipped. If the version of a library
        is not supported, or its integration fails, latspan skips the library and logs one warning.
    """
    names = tuple(sorted(point.name for point in _ours() if _switch_on(point)))
    _runtime.instrumentation_requested()
    return names


def instrumented() -> tuple[str, ...]:
    """Return the names of the integrations that are on."""
    return tuple(sorted(point.name for point in _ours() if _is_on(_load(point))))


def note_switched_on(package: str, integration: Instrumentor) -> None:
    """Record that the integration of an import package was switched on."""
    _switched_on[package] = integration


def note_patched(package: str, *, is_patched: bool) -> None:
    """Record whether the patches of an import package are in effect."""
    (_patched.add if is_patched else _patched.discard)(package)


def instrumented_libraries() -> tuple[str, ...]:
    """
    Return the import packages of the libraries whose integrations are on, sorted.

    Unlike :func:`instrumented`, this function loads no integration.
    """
    return tuple(sorted(package for package, each in _switched_on.items() if _is_on(each)))


def patched_libraries() -> frozenset[str]:
    """Return the import packages whose patches are in effect: they are on, and imported."""
    return frozenset(_patched)


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
    """
    Return the environment variable that disables an integration, ``None`` if none does.

    latspan's own variable may name the library instead: ``openai`` for ``latspan_openai``. In
    OpenTelemetry's variable, that name disables the instrumentations of other packages only.
    """
    for variable in DISABLING_VARIABLES:
        named = {part.strip() for part in os.environ.get(variable, "").split(",")}
        library = {name.removeprefix(_PREFIX)} if variable == _OWN_VARIABLE else set[str]()
        if not named.isdisjoint({name, _EVERY} | library):
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
