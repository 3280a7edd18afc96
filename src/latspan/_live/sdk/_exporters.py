"""
Exporters of each signal: their settings are checked at once, and they are created when needed.

An exporter reads most ``OTEL_*`` variables when it is created, on latspan's own thread. A value
with which it could not be created is found here before, without importing its packages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from latspan._base import shown as _shown
from latspan._live.process.import_locks import Imports
from latspan._live.process.loading import DeferredExporter
from latspan._live.sdk._config import Config, is_exported, otlp_target
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

    from latspan._live.otel.export import OtlpMetrics, OtlpPayloads, OtlpSpans, SelfMetric
    from latspan._live.sdk._endpoints import OtlpTarget, Protocol, Signal
    from latspan._model.recording import Recorder

_SDK: Final = {"opentelemetry.sdk.trace": "opentelemetry-sdk", "google.protobuf": "protobuf"}

_PACKAGES: Final[Mapping[Protocol, Mapping[str, str]]] = {
    "http/protobuf": {
        **_SDK,
        "requests": "requests",
        "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    },
    "grpc": {
        **_SDK,
        "grpc": "grpcio",
        "opentelemetry.exporter.otlp.proto.grpc": "opentelemetry-exporter-otlp-proto-grpc",
    },
}
"""Packages of the exporters and the distributions that have them, by protocol."""

_SDK_MODULES: Final[Mapping[Signal, str]] = {
    "traces": "opentelemetry.sdk.trace.export",
    "metrics": "opentelemetry.sdk.metrics.export",
    "logs": "opentelemetry.sdk._logs.export",
}
_EXPORTER_MODULES: Final[Mapping[Signal, str]] = {
    "traces": "trace_exporter",
    "metrics": "metric_exporter",
    "logs": "_log_exporter",
}
_SDK_PACKAGES: Final = (
    "opentelemetry.metrics",
    "opentelemetry._logs",
    "opentelemetry.semconv",
    "opentelemetry.sdk",
)
_SENDERS: Final[Mapping[Protocol, Sequence[str]]] = {
    "http/protobuf": ("certifi", "charset_normalizer", "idna", "urllib3", "requests"),
    "grpc": ("grpc",),
}
"""Packages that send messages, by protocol; the last one imports the others."""
_OPTIONAL: Final = {"urllib3.contrib.socks": "socks"}
"""Modules that the senders import only if a package is installed, with a warning if it is not."""
_EXPORTERS: Final = "opentelemetry.exporter.otlp.proto"
_MESSAGES: Final = (
    "google.protobuf",
    "google.rpc",
    "opentelemetry.proto",
    # Namespace packages have no module, and do not list what is in them.
    f"{_EXPORTERS}.common",
    f"{_EXPORTERS}.http",
    f"{_EXPORTERS}.grpc",
)

_PROVIDERS: Final = "opentelemetry_otlp_credential_provider"
"""Group of the entry points that the variables ``…_CREDENTIAL_PROVIDER`` name."""


def span_exporter(config: Config) -> Callable[[], OtlpSpans]:
    """
    Return a function that creates the exporter of spans.

    Raises:
        ConfigError: The exporter cannot be created with this configuration.
    """
    target = _checked(config, "traces")

    def make() -> OtlpSpans:
        from latspan._live.otel.export import otlp_spans

        return otlp_spans(target.protocol, target.endpoint)

    return make


def event_exporter(config: Config) -> Callable[[], OtlpSpans]:
    """Return a function that creates the exporter of events; errors as :func:`span_exporter`."""
    target = _checked(config, "logs")

    def make() -> OtlpSpans:
        from latspan._live.otel.export import otlp_events

        return otlp_events(target.protocol, target.endpoint)

    return make


def metrics_exporter(
    config: Config,
    resource: Callable[[], Resource],
    recorder: Recorder,
    about: Callable[[], Iterable[SelfMetric]],
) -> DeferredExporter[OtlpMetrics]:
    """
    Return the exporter of histograms as OTLP metrics.

    Args:
        config: Validated configuration.
        resource: Returns this process's resource.
        recorder: Recorder whose totals are sent under cumulative temporality.
        about: Returns readings about latspan itself.

    Raises:
        ConfigError: The exporter cannot be created with this configuration.
    """
    target = _checked(config, "metrics")

    def make() -> OtlpMetrics:
        from latspan._live.otel import export as _export

        session = None if target.protocol == "grpc" else _export.http_session("METRICS")
        return _export.OtlpMetrics(
            recorder,
            _export.otlp_metric_exporter(target.protocol, target.endpoint, session),
            session=session,
            resource=resource,
            about=about,
            scale=config.metrics_scale,
            max_buckets=config.metrics_max_buckets,
        )

    return DeferredExporter("histograms", make)


def payload_exporter(
    config: Config, resource: Callable[[], Resource]
) -> DeferredExporter[OtlpPayloads]:
    """Return the exporter of exact histograms; arguments and errors as :func:`metrics_exporter`."""
    target = _checked(config, "logs")

    def make() -> OtlpPayloads:
        from latspan._live.otel import export as _export

        session = None if target.protocol == "grpc" else _export.http_session("LOGS")
        exporter = _export.otlp_log_exporter(target.protocol, target.endpoint, session)
        return _export.OtlpPayloads(exporter, session=session, resource=resource)

    return DeferredExporter("exact histograms", make)


def exporter_imports(config: Config, *, emits_events: bool) -> tuple[Imports, ...]:
    """
    Return what the exporters import, in small parts: a thread that needs one of them waits for it.

    Args:
        config: Validated configuration.
        emits_events: Whether events are exported.
    """
    signals: list[Signal] = ["traces", "metrics"]
    if emits_events or config.export_raw_histograms:
        signals.append("logs")
    protocols: dict[Signal, Protocol] = {
        signal: otlp_target(config, signal).protocol
        for signal in signals
        if is_exported(config, signal)
    }
    senders = [_SENDERS[protocol] for protocol in dict.fromkeys(protocols.values())]
    return (
        *(Imports(_SDK_PACKAGES, [_SDK_MODULES[signal]]) for signal in protocols),
        *(Imports(sender, sender[-1:], _OPTIONAL) for sender in senders),
        *(
            Imports(
                _MESSAGES,
                [f"{_EXPORTERS}.{protocol.partition('/')[0]}.{_EXPORTER_MODULES[signal]}"],
            )
            for signal, protocol in protocols.items()
        ),
    )


def _checked(config: Config, signal: Signal) -> OtlpTarget:
    target = otlp_target(config, signal)
    check_exporter(signal, target.protocol)
    return target


def check_exporter(
    signal: Signal, protocol: Protocol, environment: Mapping[str, str] = os.environ
) -> None:
    """
    Raise if the exporter of a signal cannot be created.

    Args:
        signal: Signal to send.
        protocol: Protocol to send with.
        environment: Source of the ``OTEL_*`` variables.

    Raises:
        ConfigError: A package of the exporter is not installed, or it rejects a variable.
    """
    for package, distribution in _PACKAGES[protocol].items():
        if not _is_installed(package):
            raise ConfigError(
                f"{signal} cannot be exported over {protocol}: there is no package '{package}'",
                hint=f"pip install {distribution}",
            )
    prefixes = (f"{signal.upper()}_", "")
    transport = "GRPC" if protocol == "grpc" else "HTTP"
    for prefix in prefixes:
        variable = f"OTEL_EXPORTER_OTLP_{prefix}TIMEOUT"
        # The exporter over HTTP ignores a timeout that is not a number, with a warning.
        if protocol == "grpc" and not _is_number(environment.get(variable, "0")):
            raise ConfigError(
                f"{variable} is '{_shown.foreign(environment[variable])}', which is not a number",
                hint="for example 10; the exporter reads it as seconds",
            )
        variable = f"OTEL_PYTHON_EXPORTER_OTLP_{transport}_{prefix}CREDENTIAL_PROVIDER"
        provider = environment.get(variable)
        if provider and not _is_provider(provider):
            raise ConfigError(
                f"{variable} is '{_shown.foreign(provider)}', which no installed package provides",
                hint=f"install the package that has this entry point in the group {_PROVIDERS}",
            )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_provider(name: str) -> bool:
    from importlib.metadata import entry_points

    return bool(entry_points(group=_PROVIDERS, name=name))
