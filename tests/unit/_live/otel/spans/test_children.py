"""Every nanosecond of a timeline is in a child span or in an attribute of its span."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from latspan._live.otel.spans import segment_spans, spanless_attributes
from latspan._model.segments import Segment, SegmentName, Source

MS = 1_000_000


def _laid(*parts: tuple[str, int, Source]) -> list[Segment]:
    """Return segments of the given names, lengths in milliseconds and sources, end to end."""
    segments: list[Segment] = []
    for name, length_ms, source in parts:
        begin_ns = segments[-1].end_ns if segments else 0
        segments.append(Segment(name, begin_ns, begin_ns + length_ms * MS, source))
    return segments


def test_a_segment_that_another_interrupts_is_an_attribute() -> None:
    """Neither has a span: both consist of several intervals, or are one inside the other."""
    segments = _laid(
        ("send", 1, Source.MEASURED),
        ("decode", 20, Source.MEASURED),
        ("event_loop", 100, Source.MEASURED),
        ("decode", 30, Source.MEASURED),
        ("event_loop", 10, Source.MEASURED),
    )
    assert [span.name for span in segment_spans(segments, 0)] == ["send"]
    assert spanless_attributes(segments) == {
        "latspan.decode.duration": 0.05,
        "latspan.event_loop.duration": 0.11,
    }


def test_one_block_has_a_span() -> None:
    """It is one interval, even if it interrupts another segment."""
    segments = _laid(
        ("decode", 20, Source.MEASURED),
        ("event_loop", 100, Source.MEASURED),
        ("decode", 30, Source.MEASURED),
    )
    assert [span.name for span in segment_spans(segments, 0)] == ["event_loop"]
    assert spanless_attributes(segments) == {"latspan.decode.duration": 0.05}


def test_time_of_unknown_source_is_an_attribute() -> None:
    """It has no span, as nothing shows what it was."""
    segments = _laid(("unattributed", 7, Source.UNKNOWN), ("decode", 3, Source.MEASURED))
    assert [span.name for span in segment_spans(segments, 0)] == ["decode"]
    assert spanless_attributes(segments) == {"latspan.unattributed.duration": 0.007}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([name.value for name in SegmentName]),
            st.integers(0, 1_000),
            st.sampled_from(list(Source)),
        ),
        max_size=12,
    )
)
def test_nothing_of_the_total_is_missing(parts: list[tuple[str, int, Source]]) -> None:
    """Spans and attributes sum to the duration."""
    segments = _laid(*parts)
    spans_ns = sum(
        span.end_epoch_ns - span.start_epoch_ns for span in segment_spans(segments, 1_000)
    )
    attributes_ns = sum(
        round(seconds * 1e9)
        for seconds in spanless_attributes(segments).values()
        if isinstance(seconds, float)
    )
    assert spans_ns + attributes_ns == (segments[-1].end_ns if segments else 0)
