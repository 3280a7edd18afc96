"""Details of a record: the attributes of its span that are not fields of the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from latspan import semconv
from latspan._model.metrics import SPAN_ATTRIBUTES

_Value = TypeVar("_Value")

_NOT_DETAILS: Final = frozenset(
    {
        # Content, and addresses that may contain it.
        semconv.GEN_AI_INPUT_MESSAGES,
        semconv.GEN_AI_OUTPUT_MESSAGES,
        semconv.GEN_AI_SYSTEM_INSTRUCTIONS,
        semconv.GEN_AI_TOOL_DEFINITIONS,
        semconv.URL_FULL,
        # Values that a record has in fields of its own.
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        *SPAN_ATTRIBUTES.values(),
        *semconv.SERIES_ATTRIBUTES.values(),
        semconv.LATSPAN_KIND,
        semconv.LATSPAN_OUTCOME,
        semconv.LATSPAN_SEGMENT,
        semconv.LATSPAN_SIDE,
        semconv.LATSPAN_SOURCE,
        semconv.LATSPAN_TOKEN_SOURCE,
        semconv.LATSPAN_CHUNK_GAP_P95,
        semconv.LATSPAN_ESTIMATED_ATTRIBUTES,
    }
)
_USAGE: Final = "gen_ai.usage."


def details_of(attributes: Mapping[str, _Value]) -> dict[str, _Value]:
    """
    Return the attributes of a span that its record does not repeat, without any content.

    Args:
        attributes: Attributes of a span.
    """
    return {
        name: value
        for name, value in attributes.items()
        if name not in _NOT_DETAILS and not name.startswith(_USAGE)
    }
