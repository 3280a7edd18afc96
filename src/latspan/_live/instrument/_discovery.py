"""
Discovery of latspan's integrations, and functions that switch them on and off together.

The name of an integration ends with the name of its library, for example ``latspan_openai`` or
``latspan_google.genai``. An integration of latspan's own distribution is loaded when its library is
imported, and not before. Until then the library is *awaited*. If the library is a namespace
package, whose import runs no code, the packages inside it are awaited. The integrations of other
distributions are loaded at once, because only their code defines which import they wait for.

No function here holds a lock, because hooks run under import locks. ``_awaited`` is changed by
atomic operations only. A hook first switches its integration on, and then removes the integration
from ``_awaited``. If the integration is no longer there, :func:`uninstrument` was called meanwhile,
and the hook switches the integration off again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from latspan._base.log import warn_once
from latspan._live.process.runtime import instrumentation_requested

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from importlib.metadata import EntryPoint

    from latspan._live.instrument._instrumentor import Instrumentor

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

    A library is patched when it is imported, or immediately if it has already been imported. This
    function imports no library itself. A second call has no effect.

    Integrations listed in ``LATSPAN_DISABLED_INSTRUMENTATIONS`` or
    ``OTEL_PYTHON_DISABLED_INSTRUMENTATIONS``, separated by commas, stay off; ``*`` disables all. In
    the first variable, the name of the library is enough: ``openai`` for ``latspan_openai``.

    Returns:
        The names of the integrations that are on, for example ``("latspan_httpx2",
        "latspan_openai")``: those that have patched their library, and those that wait for its
        import. A library that is not installed is skipped. If the version of a library is not
        supported, or its integration fails, latspan skips the library and logs one warning: now,
        or when the library is imported.
    """
    own, ours = _own(), _ours()
    for point in ours:
        if _is_on(_loaded(point)) or disabled_by(point.name) is not None:
            continue
        if (point.name, point.value) in own:
            _switch_on_when_imported(point)
        else:
            _switch_on(point)
    instrumentation_requested()
    return _names_of(ours)


def instrumented() -> tuple[str, ...]:
    """Return the names of the integrations that are on, awaited ones included."""
    return _names_of(_ours())


def note_switched_on(package: str, integration: Instrumentor) -> None:
    """Record that the integration of an import package was switched on."""
    _switched_on[package] = integration


def switched_on() -> tuple[Instrumentor, ...]:
    """Return the integrations that were switched on at some time."""
    return tuple(_switched_on.values())


def note_patched(package: str, *, is_patched: bool) -> None:
    """Record whether the patches of an import package are in effect."""
    (_patched.add if is_patched else _patched.discard)(package)


def instrumented_libraries() -> tuple[str, ...]:
    """Return the import packages of the libraries whose integrations are on, sorted."""
    on = {package for package, each in _switched_on.items() if _is_on(each)}
    return tuple(sorted(on.union(name.removeprefix(_PREFIX) for name in tuple(_awaited))))


def loaded_clients() -> tuple[str, ...]:
    """Return the client libraries with an integration that this process has imported, sorted."""
    points = {point.name.removeprefix(_PREFIX): point for point in _ours()}
    return tuple(
        library
        for library, point in sorted(points.items())
        # A package is imported after the package around it, so most need no search.
        if library in sys.modules
        and any(package in sys.modules for package in awaited_packages(library))
        and not _serves(point)
    )


def patched_libraries() -> frozenset[str]:
    """Return the import packages whose patches are in effect: they are on, and imported."""
    return frozenset(_patched)


def uninstrument(*names: str) -> None:
    """
    Remove latspan's instrumentation of libraries and frameworks, and stop waiting for their import.

    Args:
        names: Names of integrations as returned by :func:`auto_instrument`; all if none is given.
            Unknown names are ignored.
    """
    for point in _ours():
        if not names or point.name in names:
            _stop_awaiting(point)
            _switch_off(point)


def instrumentor_of(library: str) -> Instrumentor | None:
    """
    Return the integration of a client library, on or off; ``None`` if there is none.

    Args:
        library: Import package of the library; the integration's name is ``latspan_`` followed by
            it.
    """
    for point in _ours():
        if point.name == _PREFIX + library:
            return _load(point)
    return None


def disabled_by(name: str) -> str | None:
    """
    Return the environment variable that disables an integration, ``None`` if none does.

    latspan's own variable may contain the name of the library: ``openai`` for ``latspan_openai``.
    In OpenTelemetry's variable, ``openai`` disables the instrumentation of another distribution,
    and not the integration of latspan.
    """
    for variable in DISABLING_VARIABLES:
        named = {part.strip() for part in os.environ.get(variable, "").split(",")}
        library = {name.removeprefix(_PREFIX)} if variable == _OWN_VARIABLE else set[str]()
        if not named.isdisjoint({name, _EVERY} | library):
            return variable
    return None


def instrumentors() -> Iterator[tuple[str, Instrumentor]]:
    """Yield the import package of every library with an integration, and the integration."""
    for point in _ours():
        instrumentor = _load(point)
        if instrumentor is not None:
            yield point.name.removeprefix(_PREFIX), instrumentor


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
    from latspan._live.instrument._requirements import conflict_with, library_of, version_of

    conflict = conflict_with(requires)
    if conflict is not None and not conflict.found:
        return Integration(name, IntegrationStatus.ABSENT, conflict.required)
    variable = disabled_by(name)
    if conflict is not None:
        status = IntegrationStatus.UNSUPPORTED if variable is None else IntegrationStatus.DISABLED
        return Integration(name, status, conflict.required, conflict.found, variable)
    library = library_of(requires[0])
    status = IntegrationStatus.READY if variable is None else IntegrationStatus.DISABLED
    return Integration(name, status, requires[0], f"{library} {version_of(library)}", variable)


_awaited: dict[str, Callable[[], None]] = {}
"""Hooks of the awaited integrations, by name of the integration."""


def _is_on(instrumentor: Instrumentor | None) -> bool:
    return instrumentor is not None and instrumentor.is_instrumented_by_opentelemetry


def _names_of(points: Iterable[EntryPoint]) -> tuple[str, ...]:
    """Return the names of the integrations that are on."""
    on = {point.name for point in points if _is_on(_loaded(point))}
    return tuple(sorted(on.union(_awaited)))


def _ours() -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return [point for point in entry_points(group=_GROUP) if point.name.startswith(_PREFIX)]


def _own() -> set[tuple[str, str]]:
    """Return the names and values of the entry points that latspan's own distribution has."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        points = distribution("latspan").entry_points.select(group=_GROUP)
    except PackageNotFoundError:
        return set()
    return {(point.name, point.value) for point in points}


def _load(point: EntryPoint) -> Instrumentor | None:
    try:
        return point.load()()
    except Exception as error:  # noqa: BLE001 - an integration may fail in any way
        warn_once(f"{point.name} could not be loaded and stays off", error)
        return None


def _loaded(point: EntryPoint) -> Instrumentor | None:
    """Return the integration if its module has been imported: otherwise it cannot be on."""
    return _load(point) if point.module in sys.modules else None


def _serves(point: EntryPoint) -> bool:
    instrumentor = _load(point)
    return instrumentor is not None and instrumentor.serves


def _switch_on(point: EntryPoint) -> None:
    instrumentor = _load(point)
    if instrumentor is not None:
        instrumentor.instrument()


def _switch_off(point: EntryPoint) -> None:
    instrumentor = _loaded(point)
    if instrumentor is not None:
        instrumentor.uninstrument()


def _switch_on_when_imported(point: EntryPoint) -> None:
    """Await the library that the integration's name ends with, if it is installed."""
    from latspan._live.instrument._import_hooks import when_imported

    library = point.name.removeprefix(_PREFIX)

    def switch_on() -> None:
        if _awaited.get(point.name) is switch_on:
            _switch_on(point)
            if _awaited.pop(point.name, None) is not switch_on:
                _switch_off(point)

    if _is_installed(library) and _awaited.setdefault(point.name, switch_on) is switch_on:
        for package in awaited_packages(library):
            when_imported(package, switch_on)


def _stop_awaiting(point: EntryPoint) -> None:
    switch_on = _awaited.pop(point.name, None)
    if switch_on is not None:
        from latspan._live.instrument._import_hooks import stop_awaiting

        for package in awaited_packages(point.name.removeprefix(_PREFIX)):
            stop_awaiting(package, switch_on)


def awaited_packages(library: str) -> tuple[str, ...]:
    """
    Return the packages that are awaited for the integration of an import package.

    Importing a namespace package runs no code, so the regular packages inside it are awaited.
    """
    spec = _spec_of(library)
    if spec is None or spec.origin is not None:
        return (library,)
    return tuple(sorted(_packages_in(library, spec.submodule_search_locations or ()))) or (library,)


def _packages_in(namespace: str, folders: Iterable[str]) -> Iterator[str]:
    """Yield the regular packages inside a namespace package, however deep."""
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                name = f"{namespace}.{entry.name}"
                if os.path.isfile(os.path.join(entry.path, "__init__.py")):  # noqa: PTH113, PTH118 - pathlib is slow to load
                    yield name
                elif entry.name.isidentifier() and entry.name != "__pycache__" and entry.is_dir():
                    yield from _packages_in(name, [entry.path])


def _is_installed(library: str) -> bool:
    return library in sys.modules or _spec_of(library) is not None


def _spec_of(package: str) -> ModuleSpec | None:
    try:
        return find_spec(package)
    except (ImportError, ValueError):
        return None
