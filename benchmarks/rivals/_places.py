"""Sources of the values that each library reports: its spans, attributes, events and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

from rivals._situations import Fact

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from rivals._switches import Total

_NS_PER_S: Final = 1e9


class Place(Protocol):
    """Place of a number in a library's telemetry."""

    def look(self, span: ReadableSpan, totals: Mapping[str, Total], /) -> float | None:
        """Return the number, in seconds or a count; ``None`` if it is absent."""
        ...


@dataclass(frozen=True, slots=True)
class Attribute:
    """Attribute of the span that contains the number."""

    name: str

    def look(self, span: ReadableSpan, _: Mapping[str, Total]) -> float | None:
        """Return the attribute's value, if it is a number."""
        value = (span.attributes or {}).get(self.name)
        return value if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True)
class Instant:
    """Attribute that contains an instant; the number is the time since the span's start."""

    name: str

    def look(self, span: ReadableSpan, _: Mapping[str, Total]) -> float | None:
        """Return the seconds from the span's start to the instant."""
        value = (span.attributes or {}).get(self.name)
        if not isinstance(value, str) or span.start_time is None:
            return None
        return datetime.fromisoformat(value.strip('"')).timestamp() - span.start_time / _NS_PER_S


@dataclass(frozen=True, slots=True)
class FirstEvent:
    """First event of a name; the number is the time since the span's start."""

    name: str

    def look(self, span: ReadableSpan, _: Mapping[str, Total]) -> float | None:
        """Return the seconds from the span's start to the event."""
        for event in span.events:
            if event.name == self.name and span.start_time is not None:
                return (event.timestamp - span.start_time) / _NS_PER_S
        return None


@dataclass(frozen=True, slots=True)
class LongestBetweenEvents:
    """Longest time between two consecutive events of a name."""

    name: str

    def look(self, span: ReadableSpan, _: Mapping[str, Total]) -> float | None:
        """Return this time in seconds; ``None`` if there are fewer than two events."""
        instants = [event.timestamp for event in span.events if event.name == self.name]
        gaps = [after - before for before, after in pairwise(instants)]
        return max(gaps) / _NS_PER_S if gaps else None


@dataclass(frozen=True, slots=True)
class SpanDuration:
    """Duration of the span."""

    def look(self, span: ReadableSpan, _: Mapping[str, Total]) -> float | None:
        """Return the seconds from the span's start to its end."""
        if span.start_time is None or span.end_time is None:
            return None
        return (span.end_time - span.start_time) / _NS_PER_S


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of a metric's values."""

    name: str

    def look(self, _: ReadableSpan, totals: Mapping[str, Total]) -> float | None:
        """Return the sum, in the metric's unit."""
        return totals[self.name].total if self.name in totals else None


@dataclass(frozen=True, slots=True)
class Greatest:
    """Greatest of a metric's values."""

    name: str

    def look(self, _: ReadableSpan, totals: Mapping[str, Total]) -> float | None:
        """Return the greatest value, in the metric's unit."""
        return totals[self.name].most if self.name in totals else None


@dataclass(frozen=True, slots=True)
class Sources:
    """
    Sources of the values of one library.

    Args:
        places: Place of each number that it reports.
        streamed: Prefix of the name of the record for a streamed response, if that is not the
            call's own span.
    """

    places: Mapping[Fact, Place] = field(default_factory=dict[Fact, Place])
    streamed: str | None = None


_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
_CHUNK_TIMES: Final = "gen_ai.client.operation.time_per_output_chunk"

SOURCES: Final[Mapping[str, Sources]] = {
    "bare": Sources(),
    "official": Sources(
        {
            Fact.DURATION: SpanDuration(),
            Fact.FIRST_CHUNK: Attribute(_FIRST_CHUNK),
            Fact.LONGEST_GAP: Greatest(_CHUNK_TIMES),
            Fact.GAPS: Sum(_CHUNK_TIMES),
        }
    ),
    "openllmetry": Sources(
        {
            Fact.DURATION: SpanDuration(),
            Fact.TTFT: Sum("gen_ai.server.time_to_first_token"),
            Fact.LONGEST_GAP: LongestBetweenEvents("gen_ai.content.completion.chunk"),
            Fact.GAPS: Sum("llm.chat_completions.streaming_time_to_generate"),
        }
    ),
    "openinference": Sources(
        {
            Fact.DURATION: SpanDuration(),
            Fact.TTFT: FirstEvent("First Token Stream Event"),
        }
    ),
    "langfuse": Sources(
        {
            Fact.DURATION: SpanDuration(),
            Fact.TTFT: Instant("langfuse.observation.completion_start_time"),
        }
    ),
    "logfire": Sources({Fact.DURATION: Attribute("duration")}, streamed="streaming response from"),
    "latspan": Sources(
        {
            Fact.DURATION: SpanDuration(),
            Fact.FIRST_CHUNK: Attribute(_FIRST_CHUNK),
            Fact.TTFT: Attribute("latspan.time_to_first_token"),
            Fact.LONGEST_GAP: Attribute("latspan.chunk_gap.max"),
            Fact.GAPS: Sum("chunk_gap"),
            Fact.CONSUMER: Attribute("latspan.consumer.duration"),
            Fact.ATTEMPTS: Attribute("latspan.attempt.count"),
        }
    ),
}
