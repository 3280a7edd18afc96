"""Validation of settings: one check per kind of setting, and one hint per mistake."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from latspan import _shown
from latspan._scraping import address_of
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from latspan._sdk._config import Protocol

__all__ = [
    "check_base",
    "check_choice",
    "check_endpoint",
    "check_folder",
    "check_integer",
    "check_number",
    "check_provider",
    "check_ratio",
    "check_servers",
    "check_switch",
    "check_text",
]

_WEB: Final = frozenset({"http", "https"})
_PATHS: Final = ("/v1/traces", "/v1/metrics", "/v1/logs")


def check_number(name: str, value: object, least: float, most: float) -> None:
    """Raise unless ``value`` is a number in [least, most]; not every caller is type-checked."""
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    if not (usable and least <= cast("float", value) <= most):
        raise ConfigError(
            f"{name} is {value!r}",
            hint=f"use a number greater than 0, from {least:g} to {most:g}",
        )


def check_ratio(name: str, value: object) -> None:
    """Raise unless ``value`` is a fraction in (0, 1]."""
    if isinstance(value, bool) or not (isinstance(value, int | float) and 0 < value <= 1):
        raise ConfigError(
            f"{name} is {value!r}",
            hint="use a number above 0 and up to 1, for example 0.05 for one trace in twenty;"
            " OTEL_TRACES_EXPORTER=none exports no spans",
        )


def check_integer(name: str, value: object, least: int, most: float, *, unset: str = "") -> None:
    """
    Raise unless ``value`` is an integer in [least, most].

    Args:
        name: Name of the setting.
        value: Its value.
        least: Minimum; at least 0 if the setting is a count.
        most: Maximum; ``math.inf`` if the setting has no upper limit.
        unset: Meaning of ``None``, if ``None`` is allowed.
    """
    if value is None and unset:
        return
    if not (type(value) is int and least <= value <= min(most, sys.maxsize)):
        reach = f"of {least} or more" if most == math.inf else f"from {least} to {most}"
        other = f", or None {unset}" if unset else ""
        raise ConfigError(f"{name} is {value!r}", hint=f"use a whole number {reach}{other}")


def check_switch(name: str, value: object) -> None:
    """Raise unless ``value`` is a boolean."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}", hint="use True or False")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise unless ``value`` is one of ``choices``; ``None`` is not one of them."""
    if value is not None and value not in choices:
        raise ConfigError(f"{name} is '{value}'", hint=f"use one of {', '.join(choices)}")


def check_text(name: str, value: object) -> None:
    """Raise unless ``value`` is a string; ``None`` is not a string."""
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{name} is {value!r}, which is not a text", hint="use a str, or None")


def check_folder(name: str, path: object) -> None:
    """Raise if ``path`` can never be a folder; a missing folder is created later."""
    if path is None:
        return
    try:
        folder = Path(cast("str", path))
        nearest = next(each for each in (folder, *folder.parents) if each.exists())
        usable = nearest.is_dir() and "\0" not in str(folder)
    except (OSError, TypeError):
        # It is not a path, or a parent folder is not accessible.
        usable = False
    if not usable:
        raise ConfigError(
            f"{name} is '{path}', which is no folder",
            hint="name a folder; each process makes a file of its own in it",
        )


def check_servers(name: str, addresses: object) -> None:
    """Raise unless ``addresses`` is a list of server addresses."""
    hint = "for example ['http://127.0.0.1:8080']; http:// or https://, and no user in it"
    # A string is a sequence too: of characters.
    if isinstance(addresses, str) or not isinstance(addresses, Sequence):
        # The value is not shown, here and below, because it may hold a password.
        raise ConfigError(f"{name} is not a list of addresses", hint=hint)
    for number, address in enumerate(cast("Sequence[object]", addresses), start=1):
        try:
            address_of(str(address))
        except ValueError:
            raise ConfigError(f"{name}: no {number} is no address", hint=hint) from None


def check_endpoint(name: str, endpoint: object, protocol: Protocol = "http/protobuf") -> None:
    """
    Raise if no exporter can send to ``endpoint``.

    Args:
        name: Name of the setting or the variable.
        endpoint: Its value.
        protocol: Over gRPC, OpenTelemetry's variables accept any address that gRPC resolves.
    """
    usable = isinstance(endpoint, str)
    try:
        parts = urlsplit(str(endpoint))
        resolved = protocol == "grpc" and parts.scheme not in _WEB
        usable &= resolved or (parts.scheme in _WEB and bool(parts.hostname))
        usable &= parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        shown = _shown.address(str(endpoint))
        raise ConfigError(
            f"{name} is '{shown}', which is no http:// or https:// address",
            hint="for example http://localhost:4318 (OTLP over HTTP) or http://localhost:4317"
            " (gRPC); a port is a number from 1 to 65535",
        )


def check_base(name: str, endpoint: object) -> None:
    """Raise if no exporter can send to ``endpoint``, or if a path cannot be appended to it."""
    check_endpoint(name, endpoint)
    parts = urlsplit(str(endpoint))
    if parts.query or parts.fragment:
        raise ConfigError(
            f"{name} is '{_shown.address(str(endpoint))}' and a query, behind which no path can be",
            hint="leave out what begins with ? or #; credentials belong in"
            " OTEL_EXPORTER_OTLP_HEADERS",
        )
    path = parts.path.rstrip("/")
    if path.endswith(_PATHS):
        raise ConfigError(
            f"{name} is '{_shown.address(str(endpoint))}', the address of one signal",
            hint=f"leave out {path[path.rindex('/v1/') :]}: it is added, and that of each other"
            " signal",
        )


def check_provider(name: str, provider: object) -> None:
    """Raise unless ``provider`` can create tracers; ``None`` is not a provider."""
    if provider is None:
        return
    from opentelemetry.trace import TracerProvider

    if not isinstance(provider, TracerProvider):
        raise ConfigError(
            f"{name} is {provider!r}, which is no TracerProvider",
            hint="use an object of opentelemetry.trace.TracerProvider, for example"
            " opentelemetry.sdk.trace.TracerProvider()",
        )
