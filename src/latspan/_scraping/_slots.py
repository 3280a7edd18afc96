"""Slots of a llama.cpp server and how many of them process a request."""

from __future__ import annotations

import json
from typing import Any

from latspan import semconv
from latspan._scraping._sample_buffer import Sample

__all__ = ["read_slots"]


def read_slots(text: str) -> Sample:
    """
    Return the number of busy slots; the page does not list requests that wait for a slot.

    Args:
        text: JSON, a list of slots.

    Raises:
        ValueError: The text is not a list of slots.

    Source: llama.cpp, ``tools/server/README.md``, ``GET /slots``.
    """
    try:
        slots: Any = json.loads(text)
        working = [slot["is_processing"] for slot in slots]
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError("not a list of slots") from error
    if not isinstance(slots, list) or not all(isinstance(each, bool) for each in working):
        raise ValueError("not a list of slots")
    return Sample(gauges={semconv.LATSPAN_REQUESTS_RUNNING: sum(working)})
