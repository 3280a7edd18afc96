"""What llama.cpp says of its slots: which of them work on a request."""

from __future__ import annotations

import json
from typing import Any

from latspan import semconv
from latspan._scraping._sample_buffer import Reading

__all__ = ["read_slots"]


def read_slots(text: str) -> Reading:
    """
    Return how many slots work; of requests without a slot the page does not tell.

    Args:
        text: JSON, a list of slots.

    Raises:
        ValueError: It is none.

    Source: llama.cpp, ``tools/server/README.md``, ``GET /slots``.
    """
    try:
        slots: Any = json.loads(text)
        working = [slot["is_processing"] for slot in slots]
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError("no list of slots") from error
    if not isinstance(slots, list) or not all(isinstance(each, bool) for each in working):
        raise ValueError("no list of slots")
    return Reading(gauges={semconv.LATSPAN_REQUESTS_RUNNING: sum(working)})
