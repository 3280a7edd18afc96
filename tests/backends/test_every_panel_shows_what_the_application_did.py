"""The dashboards' queries, sent as Grafana sends them, answered with what an application did."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import pytest

from latspan.testing import Script, ScriptedServer
from support.backends import Backends, eventually
from support.grafana import Query, dashboards, queries, said
from support.programs import driving, traffic_plan
from tests.backends.conftest import Watched

TOLERANCE: Final = 0.01
"""Exported at scale 8 a bucket is 0.27 % wide; the application's own precision is 0.1 %."""

EXACT: Final = 1e-6
"""Sums and counts lose nothing on their way but what doubles do."""

BY_SEGMENT: Final = "latspan_segment"

LABEL_VALUES: Final = re.compile(r"^label_values\((.*), (\w+)\)$")

PROMQL: Final = [each for each in queries() if each.asks == "prometheus"]


def panel(title: str, ref: str = "A") -> str:
    """Return what a panel of the dashboard of percentiles asks."""
    (found,) = (each.text for each in PROMQL if each.where == f"segments.json: {title} {ref}")
    return found


def by(label: str, found: list[tuple[dict[str, str], float]]) -> dict[str, float]:
    """Return values by a label that each of them has once."""
    assert len({said.get(label, "") for said, _ in found}) == len(found)
    return {said.get(label, ""): value for said, value in found}


@pytest.mark.parametrize("query", PROMQL, ids=lambda query: query.where)
def test_every_query_has_data(watched: Watched, query: Query) -> None:
    """Numbers, not NaN; of a heat map a histogram with values."""
    heat = query.target.get("format") == "heatmap"

    found = watched.show(f"histogram_count({query.text})" if heat else query.text)

    assert found
    assert [said for said, value in found if math.isnan(value)] == []
    assert not heat or found[0][1] > 0


@pytest.mark.parametrize("kind", ["request", "stage"])
@pytest.mark.parametrize("title", ["p95 by segment", "Load", "Outcomes"])
def test_other_kinds_have_data(watched: Watched, kind: str, title: str) -> None:
    """Of all models, for they have none."""
    variables = {**watched.variables, "kind": kind, "model": ".*"}

    assert Watched(watched.backends, {}, variables, watched.at_s).show(panel(title))


@pytest.mark.parametrize(
    ("title", "ref", "p"),
    [
        ("p95 by segment, slowest first", "A", "p95"),
        ("Segments by source", "B", "p95"),
        ("Segments by source", "C", "p99"),
        ("p95 by segment", "A", "p95"),
    ],
)
def test_percentiles_of_segments(watched: Watched, title: str, ref: str, p: str) -> None:
    """Of each that has values enough, within 1 % of the application's own."""
    segments = watched.calls["segments"]
    expected = {name: each[p] for name, each in segments.items() if each[p] is not None}
    assert expected.keys() >= {"prepare", "send", "queue", "prefill", "decode"}

    found = by(BY_SEGMENT, watched.show(panel(title, ref)))

    assert found.keys() == segments.keys()
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=TOLERANCE)


@pytest.mark.parametrize(
    ("title", "metric"),
    [
        ("Time to first token", "time_to_first_token"),
        ("Time per output token", "time_per_output_token"),
        ("Time to first visible token", "time_to_first_visible_token"),
        ("Gaps between chunks", "chunk_gap"),
        ("$segment: p50, p95, p99", "prefill"),
    ],
)
def test_percentiles_of_metrics(watched: Watched, title: str, metric: str) -> None:
    """Both of the tail, within 1 % of the application's own."""
    own = (watched.calls["metrics"] | watched.calls["segments"])[metric]
    assert own["p99"] is not None

    ((_, p95),) = watched.show(panel(title, "B"))
    ((_, p99),) = watched.show(panel(title, "C"))

    assert (p95, p99) == pytest.approx((own["p95"], own["p99"]), rel=TOLERANCE)


def test_the_slowest_segment_is_first(watched: Watched) -> None:
    found = [value for _, value in watched.show(panel("p95 by segment, slowest first"))]

    assert found == sorted(found, reverse=True)


def test_shares_of_all_time(watched: Watched) -> None:
    """Of the sum of all segments, which is the time of all calls."""
    sums = {name: each["mean"] * each["count"] for name, each in watched.calls["segments"].items()}
    expected = {name: each / sum(sums.values()) for name, each in sums.items()}

    found = by(BY_SEGMENT, watched.show(panel("Segments by source", "E")))

    assert found == pytest.approx(expected, rel=EXACT)


def test_calls_that_run_are_calls_a_second_times_their_time(watched: Watched) -> None:
    """Little's law, with the application's own times."""
    times = [each["mean"] * each["count"] for each in watched.calls["segments"].values()]
    mean = sum(times) / sum(watched.calls["outcomes"].values())

    ((_, ended),) = watched.show(panel("Load", "A"))
    ((_, running),) = watched.show(panel("Load", "B"))
    by_segment = watched.show(panel("Running calls by segment"))

    assert running / ended == pytest.approx(mean, rel=EXACT)
    assert sum(value for _, value in by_segment) == pytest.approx(running, rel=EXACT)


def test_how_calls_ended(watched: Watched) -> None:
    """In the application's own shares, and of these the failures."""
    outcomes = watched.calls["outcomes"]
    calls = sum(outcomes.values())
    assert outcomes.keys() == {"completed", "closed_early", "error"}

    found = by("latspan_outcome", watched.show(panel("Outcomes")))
    ((_, failed),) = watched.show(panel("Failed"))

    whole = sum(found.values())
    assert {outcome: each / whole for outcome, each in found.items()} == pytest.approx(
        {outcome: each / calls for outcome, each in outcomes.items()}, rel=EXACT
    )
    assert failed == pytest.approx(outcomes["error"] / calls, rel=EXACT)


def test_how_many_calls_stalled(watched: Watched) -> None:
    """The application's own share of calls whose stalls are more than nothing."""
    expected = watched.calls["metrics"]["stall_duration"]["above_zero"]
    assert 0 < expected < 1

    ((_, found),) = watched.show(panel("Stalled calls"))

    assert found == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize(
    "query", [each for each in PROMQL if each.target.get("exemplar")], ids=lambda query: query.where
)
def test_exemplars_lead_to_a_trace(watched: Watched, query: Query) -> None:
    """What Grafana asks for the dots of a panel are traces that Jaeger has."""
    found = watched.backends.exemplars(said(query.text, watched.variables))

    assert found
    for trace_id in found:
        kept = eventually(lambda it=trace_id: watched.backends.trace(it), has_spans)
        assert has_spans(kept)


def has_spans(traces: Any) -> bool:
    return bool(traces.resource_spans)


def test_every_label_is_there(watched: Watched) -> None:
    """One that nothing has is no mistake to Prometheus. Those of losses have a test below."""
    wanted = {
        label
        for query in PROMQL
        for group in re.findall(r"by \(([^)]*)\)|\{([^}]*)\}", query.text)
        for label in re.findall(r"(\w+)(?=[,)]|=|$)", re.sub(r'"[^"]*"', "", ",".join(group)))
    }
    assert wanted >= {"latspan_segment", "latspan_source", "service_name", "latspan_inference_path"}

    of_losses = {"latspan_signal", "latspan_reason", "latspan_metric"}
    assert wanted - of_losses <= watched.backends.labels()


def test_variables_list_what_there_is(watched: Watched) -> None:
    """Each variable that asks Prometheus has among its values the one of this application."""
    asked = 0
    for dashboard in dashboards().values():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                asked += 1
                metric, label = LABEL_VALUES.findall(variable["query"]["query"])[0]
                found = by(label, watched.show(f"count by ({label}) ({metric})"))
                assert watched.variables[variable["name"]] in found, variable
    assert asked == 8


def test_what_was_lost_is_shown(backends: Backends) -> None:
    """Series above a limit, spans that had to wait where one may: more than nothing."""
    with (
        ScriptedServer((*traffic_plan(), Script.chat(tokens=5))) as model,
        driving(
            "works_until_told",
            model.base_url,
            LATSPAN_ENDPOINT=backends.otlp_url,
            OTEL_BSP_MAX_QUEUE_SIZE="1",
            OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1",
            LATSPAN_SERVICE_NAME="crowded",
            LATSPAN_CARDINALITY_LIMIT="1",
        ) as app,
    ):
        assert app.do("more")
        shown = Watched(backends, {}, {"service": "crowded"})

        def dropped() -> dict[str, float]:
            return by("latspan_signal", shown.show(panel("Lost telemetry")))

        def overflowed() -> dict[str, float]:
            return by("latspan_metric", shown.show(panel("Values in overflow series")))

        assert eventually(dropped, lambda it: it.get("spans", 0) > 0)["spans"] > 0
        assert eventually(overflowed, lambda it: it.get("segment", 0) > 0)["segment"] > 0
