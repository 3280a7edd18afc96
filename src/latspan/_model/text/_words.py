"""Formatting of numbers and names in reports. An unknown number is never shown as zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from latspan._base.nanoseconds import NS_PER_S
from latspan._model.segments import SegmentName, Source
from latspan._model.tokens import TokenSource
from latspan._model.units import (
    MetricUnit,
    TimeUnit,
    in_metric_unit,
    in_unit,
    milliseconds,
    rounded_ms,
)

GLOSSARY: Final[dict[str, str]] = {
    SegmentName.DISPATCH_LAG: "sent later than scheduled",
    SegmentName.APPLICATION: "your code and its framework, outside the steps",
    SegmentName.PREPARE: "the client library before the request",
    SegmentName.CALL: "earlier calls of the same request, recorded by an older version",
    SegmentName.RETRY: "failed attempts and back-off",
    SegmentName.POOL_WAIT: "waiting for a free connection",
    SegmentName.CONNECT: "opening a connection",
    SegmentName.DNS: "looking up the host",
    SegmentName.TCP: "opening a connection",
    SegmentName.TLS: "agreeing on encryption",
    SegmentName.SEND: "sending the request",
    SegmentName.SERVER_WAIT: "waiting for the server, which reports no times",
    SegmentName.NETWORK: "on the network",
    SegmentName.GATEWAY: "in a gateway",
    SegmentName.QUEUE: "waiting for the server to start work",
    SegmentName.MODEL_LOAD: "loading the model",
    SegmentName.PREFILL: "reading the prompt",
    SegmentName.REASONING: "thinking before the answer",
    SegmentName.DECODE: "writing the answer",
    SegmentName.CONSUMER: "the application's own work between chunks",
    SegmentName.STREAM_CLOSE: "closing the stream",
    SegmentName.POSTPROCESS: "the application after the answer",
    SegmentName.EVENT_LOOP: "the application's event loop was blocked or busy",
    SegmentName.UNATTRIBUTED: "not explained by any evidence",
}
"""Activity of a request in each segment, shown in brackets after its name."""

SOURCE_WORDS: Final[dict[Source, str]] = {
    Source.MEASURED: "measured",
    Source.SERVER_REPORTED: "reported by the server",
    Source.ESTIMATED: "estimated",
    Source.UNKNOWN: "unknown",
}

SOURCE_LETTERS: Final[dict[Source, str]] = {
    Source.MEASURED: "m",
    Source.SERVER_REPORTED: "s",
    Source.ESTIMATED: "e",
    Source.UNKNOWN: "?",
}


def letters(sources: Mapping[Source | TokenSource, int]) -> str:
    """Return the letters of the sources of the values, from the most certain on."""
    return "+".join(SOURCE_LETTERS[source] for source in Source if sources.get(source)) or "—"


def difference(value_ns: float) -> str:
    """Return a difference in nanoseconds as milliseconds with its sign; whole from 100 ms on."""
    return f"{'-' if value_ns < 0 else '+'}{rounded_ms(abs(value_ns))}"


def percent(share: float) -> str:
    """Return a fraction in [0, 1] as whole percent; only zero is shown as 0 %."""
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{share * 100:.0f} %"


def needs(values: int) -> str:
    """Return the text that replaces a percentile with too few values."""
    return f"needs {values:,}"


def count(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless the number is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def in_words(name: str) -> str:
    """Return an identifier as words: ``closed_early`` as "closed early"."""
    return name.replace("_", " ")


def listed(parts: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def quantity(value: int, unit: MetricUnit, shown: TimeUnit) -> str:
    """
    Return a value with its unit, in as many digits as its precision has.

    Args:
        value: Nanoseconds for the unit ``s``, a plain number for ``1``, billionths for ``ratio``.
        unit: Unit of the metric.
        shown: Unit in which to show a time.
    """
    if unit == "1":
        return f"{value:,}"
    if unit == "ratio":
        return percent(in_metric_unit(value, unit))
    if shown == "ms":
        return milliseconds(value)
    decimals = {"ns": 0, "us": 1, "s": 3}[shown]
    least = 10**-decimals
    time = in_unit(value, shown)
    return f"<{least:g} {shown}" if 0 < time < least / 2 else f"{time:,.{decimals}f} {shown}"


def instant(epoch_ns: int) -> str:
    """Return Unix time in nanoseconds as a date and a time of day, in UTC."""
    return f"{datetime.fromtimestamp(epoch_ns // NS_PER_S, UTC):%Y-%m-%d %H:%M:%S}"


def span_of_time(seconds: float) -> str:
    """Return a length of time in whole units, for example ``40 s``, ``12 min`` or ``1 h 5 min``."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join(
        [*([f"{hours:,} h"] if hours else []), *([f"{minutes} min"] if minutes else [])]
    )
