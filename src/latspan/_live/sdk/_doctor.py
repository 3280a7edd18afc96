"""Diagnosis of this environment: installed packages, integrations, conflicts and settings."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from importlib.metadata import Distribution, distributions
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from latspan._base import shown as _shown
from latspan._live.instrument import Integration, IntegrationStatus, integrations
from latspan._live.sdk._config import Config
from latspan._live.sdk._connectivity_probe import ProbeResult, probe_exports
from latspan._live.sdk._variables import (
    VariableFinding,
    examine_variables,
    misspelt_otlp,
    readable_config,
)
from latspan._version import __version__

_TELEMETRY: Final = (
    "opentelemetry-api",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-exporter-otlp-proto-grpc",
    "opentelemetry-instrumentation",
    "opentelemetry-distro",
)
_INSTRUMENTORS: Final = ("opentelemetry_instrumentor", "openinference_instrumentor")
_OURS: Final = "latspan_"
_BUILT_ON: Final = {"fastapi": "starlette"}
"""Library whose integration covers another one."""
_SHOWN_VARIABLES: Final = ("OTEL_", "LATSPAN_DISABLED_INSTRUMENTATIONS")


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """
    A setting in effect.

    Args:
        name: A field of :class:`latspan.Config`, or an OpenTelemetry variable.
        value: Its value, secrets hidden.
        origin: The variable that set it, or ``default``. Code may override it.
    """

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class OtherInstrumentation:
    """
    Another instrumentation of a library that latspan instruments too.

    Args:
        packages: Its distributions.
        name: Name of the instrumentation in ``OTEL_PYTHON_DISABLED_INSTRUMENTATIONS``.
        meaning: The effect of the conflict, in one sentence.
    """

    packages: tuple[str, ...]
    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Examination:
    """
    Complete result of the diagnosis.

    Args:
        versions: Versions of latspan, Python and the telemetry packages; ``None`` if not installed.
        integrations: latspan's own integrations.
        conflicts: Instrumentations by other packages.
        settings: Settings in effect.
        variables: What is wrong with environment variables.
        exports: Results of the connectivity probe; empty if the endpoint is not valid.
    """

    versions: dict[str, str | None]
    integrations: tuple[Integration, ...]
    conflicts: tuple[OtherInstrumentation, ...]
    settings: tuple[EffectiveSetting, ...]
    variables: tuple[VariableFinding, ...]
    exports: tuple[ProbeResult, ...]

    @property
    def ok(self) -> bool:
        """
        Whether telemetry arrives, libraries can be instrumented and no variable is a mistake.
        """
        bad = {IntegrationStatus.UNSUPPORTED, IntegrationStatus.BROKEN}
        return not (
            any(each.status in bad for each in self.integrations)
            or any(each.arrived is False for each in self.exports)
            or any(each.is_error for each in self.variables)
        )


def examine(timeout_s: float) -> Examination:
    """
    Inspect the environment, and send a span and a metric.

    Args:
        timeout_s: Maximum wait for each response, in seconds.
    """
    config, unreadable, has_endpoint = readable_config(os.environ)
    installed = list(distributions())
    ours = tuple(integrations())
    return Examination(
        versions=dict(_versions(installed)),
        integrations=ours,
        conflicts=tuple(_conflicts(installed, ours)),
        settings=tuple(_settings(config, {each.variable for each in unreadable})),
        variables=(*unreadable, *examine_variables(os.environ, config, ours)),
        exports=tuple(probe_exports(config, timeout_s)) if has_endpoint else (),
    )


def _versions(installed: Iterable[Distribution]) -> Iterator[tuple[str, str | None]]:
    found = {canonicalize_name(each.name): each.version for each in reversed(list(installed))}
    yield "latspan", __version__
    yield "python", platform.python_version()
    for name in _TELEMETRY:
        yield name, found.get(canonicalize_name(name))


def _conflicts(
    installed: Iterable[Distribution], ours: Iterable[Integration]
) -> Iterator[OtherInstrumentation]:
    libraries = {Requirement(each.requires).name.lower() for each in ours if each.requires}
    packages: dict[str, set[str]] = {}
    for distribution in installed:
        for point in distribution.entry_points:
            if point.group in _INSTRUMENTORS and not point.name.startswith(_OURS):
                # `aiohttp-client` belongs to aiohttp, and httpx2 is not httpx.
                library = point.name.lower().replace("_", "-").partition("-")[0]
                if _BUILT_ON.get(library, library) in libraries:
                    packages.setdefault(point.name, set()).add(distribution.name)
    for name, found in sorted(packages.items()):
        yield OtherInstrumentation(tuple(sorted(found)), name, _meaning(name, found))


def _meaning(name: str, packages: set[str]) -> str:
    if len(packages) > 1:
        return (
            "each of them that is active creates its own span for a call;"
            f" OTEL_PYTHON_DISABLED_INSTRUMENTATIONS={name} disables all of them"
        )
    return (
        "if it is active too, its span represents the call or the served request, and latspan adds"
        " attributes to it;"
        f" OTEL_PYTHON_DISABLED_INSTRUMENTATIONS={name} disables it"
    )


def _settings(config: Config, unreadable: Collection[str]) -> Iterator[EffectiveSetting]:
    for field in fields(Config):
        variable = f"LATSPAN_{field.name.upper()}"
        value = getattr(config, field.name)
        text = "unset" if value is None else _shown.foreign(str(value))
        if field.name == "endpoint" and value is not None:
            text = _shown.address(str(value))
        if field.name == "scrape_servers":
            text = ", ".join(map(_shown.address, config.scrape_servers)) or "none"
        is_set = os.environ.get(variable) and variable not in unreadable
        yield EffectiveSetting(field.name, text, variable if is_set else "default")
    without_effect = {each.variable for each in misspelt_otlp(os.environ)}
    for variable, text in sorted(os.environ.items()):
        if (
            text
            and variable.startswith(_SHOWN_VARIABLES)
            and _shown.printable(variable) not in without_effect
        ):
            shown = _shown.setting(variable, text)
            yield EffectiveSetting(_shown.printable(variable), shown, variable)
