"""Numbers and names in the words that people read: each with its unit, no zero for 'unknown'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from latspan.segments import SegmentName, Source
from latspan.units import NS_PER_MS

__all__ = [
    "GLOSSARY",
    "SOURCE_LETTERS",
    "SOURCE_WORDS",
    "count",
    "listed",
    "milliseconds",
    "needs",
    "percent",
]

GLOSSARY: Final[dict[str, str]] = {
    SegmentName.DISPATCH_LAG: "sent later than scheduled",
    SegmentName.PREPARE: "the application before the call",
    SegmentName.CALL: "earlier calls of the same request",
    SegmentName.RETRY: "failed attempts and back-off",
    SegmentName.POOL_WAIT: "waiting for a free connection",
    SegmentName.CONNECT: "opening a connection",
    SegmentName.DNS: "looking up the host",
    SegmentName.TCP: "opening a connection",
    SegmentName.TLS: "agreeing on encryption",
    SegmentName.SEND: "sending the request",
    SegmentName.SERVER_WAIT: "waiting for the server, which says nothing of its inside",
    SegmentName.NETWORK: "on the network",
    SegmentName.GATEWAY: "in a gateway",
    SegmentName.QUEUE: "waiting for the server to start",
    SegmentName.MODEL_LOAD: "loading the model",
    SegmentName.PREFILL: "reading the prompt",
    SegmentName.REASONING: "thinking before the answer",
    SegmentName.DECODE: "writing the answer",
    SegmentName.CONSUMER: "the application's own work between chunks",
    SegmentName.STREAM_CLOSE: "closing the stream",
    SegmentName.POSTPROCESS: "the application after the answer",
    SegmentName.UNATTRIBUTED: "explained by no evidence",
}
"""What a request does in each segment, to follow its name in brackets."""

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


def milliseconds(value_ns: float) -> str:
    """Return nanoseconds as milliseconds with one decimal, or as below 0.1 where it is."""
    value_ms = value_ns / NS_PER_MS
    return "<0.1 ms" if value_ms < 0.05 else f"{value_ms:,.1f} ms"


def percent(share: float) -> str:
    """Return a share in [0, 1] as whole percent; only nothing at all is 0 %."""
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{share * 100:.0f} %"


def needs(values: int) -> str:
    """Return what stands in the place of a percentile that has too few values."""
    return f"needs {values:,}"


def count(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural where there is not exactly one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(parts: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
