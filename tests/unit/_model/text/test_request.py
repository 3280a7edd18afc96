"""The line of a finished request."""

from __future__ import annotations

from latspan import Kind, Source
from latspan._model.text import line_of
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment

MS = 1_000_000

CALL = RequestRecord(
    name="chat gpt-4o",
    kind=Kind.CALL,
    outcome=Outcome.COMPLETED,
    start_epoch_ns=0,
    duration_ns=900 * MS,
    segments=(
        Segment("prefill", 0, 300 * MS, Source.SERVER_REPORTED),
        Segment("decode", 300 * MS, 900 * MS, Source.ESTIMATED),
    ),
    metrics={"time_to_first_token": MetricValue(310 * MS)},
)


def test_a_call_has_its_ttft_and_its_largest_segment() -> None:
    assert line_of(CALL) == (
        "call    chat gpt-4o · 900.0 ms · TTFT 310.0 ms · decode 600.0 ms (67 %) · completed"
    )


def test_a_request_has_the_time_until_something_shows() -> None:
    """A request has no TTFT: that is its call's."""
    request = RequestRecord(
        name="answer",
        kind=Kind.REQUEST,
        outcome=Outcome.TIMEOUT,
        start_epoch_ns=0,
        duration_ns=2 * MS,
        segments=(Segment("prepare", 0, 2 * MS),),
        metrics={"time_to_first_visible_token": MetricValue(MS)},
    )

    assert line_of(request) == (
        "request answer · 2.0 ms · TTFV 1.0 ms · prepare 2.0 ms (100 %) · timeout"
    )


def test_an_unknown_number_is_left_out() -> None:
    """A call that failed before anything happened has no segment and no TTFT."""
    failed = RequestRecord(
        name="chat",
        kind=Kind.CALL,
        outcome=Outcome.ERROR,
        start_epoch_ns=0,
        duration_ns=0,
        segments=(),
    )

    assert line_of(failed) == "call    chat · <0.1 ms · error"


def test_a_name_cannot_move_the_cursor() -> None:
    """A server chooses the name of its model."""
    hostile = RequestRecord(
        name="chat \x1b]0;title\x07\nlatspan: call    chat",
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=MS,
        segments=(),
    )

    assert line_of(hostile).isprintable()


def test_a_call_that_was_given_up_shows_how_long_its_token_was_waited_for() -> None:
    """Its time to the first token is at least that long."""
    given_up = RequestRecord(
        name="chat gpt-4o",
        kind=Kind.CALL,
        outcome=Outcome.CANCELLED,
        start_epoch_ns=0,
        duration_ns=5_000 * MS,
        segments=(Segment("server_wait", 0, 5_000 * MS),),
        streamed=True,
    )

    assert line_of(given_up) == (
        "call    chat gpt-4o · 5,000.0 ms · TTFT ≥ 5,000.0 ms · server_wait 5,000.0 ms (100 %)"
        " · cancelled"
    )
