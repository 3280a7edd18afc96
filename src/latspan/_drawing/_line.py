"""One line per finished request, for a log that people read."""

from __future__ import annotations

from typing import Final

from latspan._drawing._words import milliseconds, percent
from latspan._recording import RequestRecord
from latspan._shown import printable

__all__ = ["line_of"]

_FIRST: Final = (
    ("TTFT", "time_to_first_token"),
    ("TTFV", "time_to_first_visible_token"),
)
_KIND_WIDTH: Final = 7


def line_of(record: RequestRecord) -> str:
    """
    Return name, duration, time to the first token, largest segment and outcome on one line.

    For example ``call    chat gpt-4o · 905.1 ms · TTFT 310.0 ms · decode 595.1 ms (66 %) ·
    completed``. A request has the time to the first visible token (TTFV) instead of the TTFT.
    """
    parts = [record.name, milliseconds(record.duration_ns)]
    for label, metric in _FIRST:
        if metric in record.metrics:
            parts.append(f"{label} {milliseconds(record.metrics[metric].value)}")
            break
    totals = record.segment_totals
    if totals and record.duration_ns:
        largest = max(totals, key=lambda total: total.duration_ns)
        share = percent(largest.duration_ns / record.duration_ns)
        parts.append(f"{largest.name} {milliseconds(largest.duration_ns)} ({share})")
    parts.append(record.outcome.value)
    return printable(f"{record.kind.value:{_KIND_WIDTH}} {' · '.join(parts)}")
