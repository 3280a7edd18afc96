"""Propagation of trace context, as OpenTelemetry's variable configures it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

__all__ = ["propagates"]

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
