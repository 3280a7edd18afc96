"""OTLP endpoints: which protocol and address each signal uses, and which addresses are valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from latspan._base import shown as _shown
from latspan._base.log import warn_once
from latspan.errors import ConfigError

Protocol = Literal["http/protobuf", "grpc"]
Signal = Literal["traces", "metrics", "logs"]

_WEB: Final = frozenset({"http", "https"})
_GRPC_PORT: Final = 4317
_DEFAULT_ENDPOINTS: Final[Mapping[Protocol, str]] = {
    "http/protobuf": "http://localhost:4318",
    "grpc": "http://localhost:4317",
}


class OtlpTarget(NamedTuple):
    """
    Protocol and address to which a signal is sent.

    Args:
        protocol: OTLP protocol.
        address: Address; for HTTP it includes the path of the signal.
        is_from_variable: Whether an ``OTEL_*`` variable sets the address. Exporters read these
            variables themselves.
    """

    protocol: Protocol
    address: str
    is_from_variable: bool

    @property
    def endpoint(self) -> str | None:
        """Endpoint argument for an exporter; ``None`` if it reads the variable itself."""
        return None if self.is_from_variable else self.address


def is_switched_off(signal: Signal, environment: Mapping[str, str]) -> bool:
    """Return whether ``OTEL_<SIGNAL>_EXPORTER`` is ``none``."""
    return environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() == "none"


def target_for(
    signal: Signal,
    endpoint: str | None,
    protocol: Protocol | None,
    environment: Mapping[str, str],
) -> OtlpTarget:
    """
    Return the protocol and the address of ``signal``.

    Args:
        signal: Signal to send.
        endpoint: latspan's own setting, an address without the signal's path.
        protocol: latspan's own setting.
        environment: Source of the ``OTEL_EXPORTER_OTLP_*`` variables, which apply if the settings
            are ``None``.

    Raises:
        ConfigError: The address in the environment is not valid.
    """
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"
    variable, address = next(_variables(environment, signal, "ENDPOINT"), ("", ""))
    protocol = protocol or _protocol_in(environment, signal)
    if endpoint is not None:
        variable, address = "", endpoint
    elif variable:
        check_endpoint(variable, address, protocol or "http/protobuf")
    if protocol is None:
        is_grpc = bool(address) and urlsplit(address).port == _GRPC_PORT
        protocol = "grpc" if is_grpc else "http/protobuf"
    address = address or _DEFAULT_ENDPOINTS[protocol]
    if protocol != "grpc" and variable != own:
        if variable:
            _refuse_path_of_signal(variable, address)
        address = f"{address.rstrip('/')}{_path(signal)}"
    return OtlpTarget(protocol, address, is_from_variable=bool(variable))


def check_endpoint(name: str, endpoint: object, protocol: Protocol = "http/protobuf") -> None:
    """
    Raise if no exporter can send to ``endpoint``.

    Args:
        name: Name of the setting or the variable.
        endpoint: Its value.
        protocol: Protocol. For ``grpc``, an ``OTEL_*`` variable may have any address that gRPC
            resolves.

    Raises:
        ConfigError: The address is not valid; the message hides the credentials in it.
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
            f"{name} is '{shown}', which is not an http:// or https:// address",
            hint="for example http://localhost:4318 (OTLP over HTTP) or http://localhost:4317"
            " (gRPC); a port is a number from 1 to 65535",
        )


def check_base(name: str, endpoint: object) -> None:
    """
    Raise if no exporter can send to ``endpoint``, or if a path cannot be appended to it.

    Args:
        name: Name of the setting.
        endpoint: Its value.

    Raises:
        ConfigError: The address is not valid, has a query or a fragment, or is that of one signal.
    """
    check_endpoint(name, endpoint)
    parts = urlsplit(str(endpoint))
    if parts.query or parts.fragment:
        raise ConfigError(
            f"{name} is '{_shown.address(str(endpoint))}' with a query, and no path can follow it",
            hint="remove the part from ? or # on; credentials belong in OTEL_EXPORTER_OTLP_HEADERS",
        )
    _refuse_path_of_signal(name, str(endpoint))


def _refuse_path_of_signal(name: str, endpoint: str) -> None:
    """Raise if the path of ``endpoint`` is that of one signal, because one is added to it."""
    parts = urlsplit(endpoint)
    path = parts.path.rstrip("/")
    for signal in get_args(Signal):
        if path.endswith(_path(signal)):
            base = parts._replace(path=path.removesuffix(_path(signal)), query="", fragment="")
            raise ConfigError(
                f"{name} is '{_shown.address(endpoint)}', the address of one signal",
                hint=f"use the base address {_shown.address(base.geturl())}: the path of each"
                " signal is added to it",
            )


def _path(signal: Signal) -> str:
    return f"/v1/{signal}"


def _variables(
    environment: Mapping[str, str], signal: Signal, name: str
) -> Iterator[tuple[str, str]]:
    """Yield the OTLP variables that are set, with their values; the signal's own comes first."""
    for prefix in (f"{signal.upper()}_", ""):
        variable = f"OTEL_EXPORTER_OTLP_{prefix}{name}"
        value = environment.get(variable, "").strip()
        if value:
            yield variable, value


def _protocol_in(environment: Mapping[str, str], signal: Signal) -> Protocol | None:
    """
    Return the protocol that OpenTelemetry's variables set; ``None`` if they do not set one.

    Source: OpenTelemetry specification, "Environment Variable Specification", Enum: an unknown
    value is ignored with a warning.
    """
    for variable, value in _variables(environment, signal, "PROTOCOL"):
        if value == "grpc" or value == "http/protobuf":
            return value
        warn_once(
            f"{variable} is '{value}', not one of {', '.join(get_args(Protocol))}: it is ignored"
        )
    return None
