"""Whether requests carry trace context, as OpenTelemetry's variable says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

__all__ = ["propagates"]

_TRACE_CONTEXT: Final = "tracecontext"


def propagates(environment: Mapping[str, str] = os.environ) -> bool:
    """
    Return whether ``tracecontext`` is among the propagators.

    Args:
        environment: Where the variable is looked up.

    Source: OpenTelemetry specification, "Environment Variable Specification",
    ``OTEL_PROPAGATORS``: set to nothing, it is not set.
    """
    return _TRACE_CONTEXT in (environment.get("OTEL_PROPAGATORS") or _TRACE_CONTEXT)
