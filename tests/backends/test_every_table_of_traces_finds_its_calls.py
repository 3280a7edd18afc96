"""The dashboards' TraceQL, sent as Grafana sends it, finds the traces that it says it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import pytest

from support.backends import eventually
from support.grafana import Query, queries, said
from support.readback import Seen, spans_of
from support.tempo import Tempo
from tests.backends.conftest import SERVICE, Run, Watched

TRACEQL: Final = [each for each in queries() if each.asks == "tempo"]

FAILED: Final = {"error", "timeout", "rejected", "truncated"}

Number = TypeVar("Number", int, float)

FIRST_TOKEN: Final = "latspan.time_to_first_token"


def failed(span: Seen) -> bool:
    return is_call(span) and span.attributes["latspan.outcome"] in FAILED


def tried_again(span: Seen) -> bool:
    return is_call(span) and number(span, "latspan.attempt.count") > 1


def late(span: Seen, limit_s: float) -> bool:
    return is_call(span) and number(span, FIRST_TOKEN) > limit_s


def long_prefill(span: Seen, limit_ns: int) -> bool:
    return span.name == "prefill" and span.duration_ns > limit_ns


def is_call(span: Seen) -> bool:
    return span.attributes.get("latspan.kind") == "call"


def number(span: Seen, name: str) -> float:
    """Return an attribute, 0 where the span does not have it."""
    found = span.attributes.get(name, 0)
    assert isinstance(found, int | float)
    return found


@pytest.mark.parametrize("query", TRACEQL, ids=lambda query: query.where)
def test_every_query_finds_something(watched: Watched, tempo: Tempo, query: Query) -> None:
    asked = said(query.text, watched.variables)

    assert eventually(lambda: tempo.search(asked), bool)


@pytest.mark.parametrize(("title", "is_one"), [("Failed", failed), ("Retried calls", tried_again)])
def test_it_finds_those_and_no_others(
    run: Run, tempo: Tempo, title: str, is_one: Callable[[Seen], bool]
) -> None:
    """By the copies that the application kept of its spans."""
    assert_finds(run, tempo, title, is_one)


def test_it_finds_calls_with_a_late_first_token(run: Run, tempo: Tempo) -> None:
    """The later half."""
    limit_s = middle(number(span, FIRST_TOKEN) for span in every(run) if late(span, 0))

    assert_finds(
        run,
        tempo,
        "First token later than $first_token s",
        lambda span: late(span, limit_s),
        first_token=repr(limit_s),
    )


def test_it_finds_calls_with_a_long_prefill(run: Run, tempo: Tempo) -> None:
    """The longer half."""
    limit_ns = middle(span.duration_ns for span in every(run) if span.name == "prefill")

    assert_finds(
        run,
        tempo,
        "Prefill longer than $long",
        lambda span: long_prefill(span, limit_ns),
        long=f"{limit_ns}ns",
    )


def assert_finds(
    run: Run, tempo: Tempo, title: str, is_one: Callable[[Seen], bool], **limits: str
) -> None:
    (query,) = (each for each in TRACEQL if each.where == f"traces.json: {title} A")
    asked = said(query.text, {"service": SERVICE, "path": ".*", "model": ".*", **limits})
    traces = spans_of(run.spans)
    expected = {trace_id for trace_id, held in traces.items() if any(map(is_one, held.values()))}
    assert 0 < len(expected) < len(traces)

    assert eventually(lambda: tempo.search(asked), expected.__eq__) == expected


def every(run: Run) -> list[Seen]:
    return [span for held in spans_of(run.spans).values() for span in held.values()]


def middle(values: Iterable[Number]) -> Number:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def test_exemplars_lead_to_a_trace_in_tempo(watched: Watched, tempo: Tempo) -> None:
    """Of the panel of first tokens; Jaeger's are held beside Prometheus' panels."""
    (query,) = (each for each in queries() if each.where == "segments.json: Time to first token B")
    found = watched.backends.exemplars(said(query.text, watched.variables))

    assert found
    for trace_id in found:
        kept = eventually(lambda it=trace_id: spans_of(tempo.trace(it)), bool)
        assert [*kept] == [trace_id]
