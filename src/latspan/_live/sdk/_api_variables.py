"""Variables that OpenTelemetry's API reads: propagators and the class of the tracer provider."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from latspan._base import shown as _shown
from latspan.errors import ConfigError

_TRACE_CONTEXT: Final = "tracecontext"


def propagates(environment: Mapping[str, str] = os.environ) -> bool:
    """
    Return whether ``OTEL_PROPAGATORS`` includes ``tracecontext``, which is the default.

    Args:
        environment: Source of the variable.

    Source: OpenTelemetry specification, "Environment Variable Specification",
    ``OTEL_PROPAGATORS``: an empty value counts as not set.
    """
    return _TRACE_CONTEXT in (environment.get("OTEL_PROPAGATORS") or _TRACE_CONTEXT)


def check_api_variables() -> None:
    """
    Raise if the API of OpenTelemetry cannot use a variable.

    It reads each when it first needs it, which may be inside a request of the application.

    Raises:
        ConfigError: A propagator or the tracer provider that a variable names does not exist.
    """
    _check("OTEL_PROPAGATORS", lambda: import_module("opentelemetry.propagate"))
    _check("OTEL_PYTHON_TRACER_PROVIDER", _get_tracer_provider)


def _get_tracer_provider() -> object:
    from opentelemetry import trace

    return trace.get_tracer_provider()


def _check(variable: str, use: Callable[[], object]) -> None:
    value = os.environ.get(variable)
    if not value:
        return
    try:
        use()
    except Exception as error:
        raise ConfigError(
            f"{variable} is '{_shown.foreign(value)}', which OpenTelemetry cannot load: {error}",
            hint="install the package that provides it, correct the name, or unset the variable",
        ) from error
