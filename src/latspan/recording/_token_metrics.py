"""The metrics that count tokens: what a snapshot can be asked for beside :mod:`latspan.metrics`."""

from __future__ import annotations

import difflib
from typing import Final

from latspan.errors import UnknownNameError
from latspan.metrics import Metric, metric_named

__all__ = ["TOKEN_METRICS", "recorded_metric_named"]

_DEFINITION: Final = "OpenTelemetry GenAI conventions, gen_ai.usage.*"

TOKEN_METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(
            "input_tokens", "1", "prompt tokens, cached ones included", "nobody said", _DEFINITION
        ),
        Metric(
            "cached_tokens",
            "1",
            "the part of input_tokens that came from the provider's prompt cache",
            "nobody said",
            _DEFINITION,
        ),
        Metric(
            "output_tokens",
            "1",
            "generated tokens, reasoning included",
            "nobody said",
            _DEFINITION,
        ),
        Metric(
            "reasoning_tokens",
            "1",
            "the part of output_tokens that was reasoning",
            "nobody said",
            _DEFINITION,
        ),
    )
}


def recorded_metric_named(name: str) -> Metric:
    """
    Return the metric of that name or alias, token counts included.

    Raises:
        UnknownNameError: There is none; the hint names the nearest, or all of them.
    """
    try:
        return TOKEN_METRICS.get(name) or metric_named(name)
    except UnknownNameError as error:
        close = difflib.get_close_matches(name, TOKEN_METRICS, n=1)
        if not close:
            raise
        raise UnknownNameError(error.message, hint=f"did you mean '{close[0]}'?") from None
