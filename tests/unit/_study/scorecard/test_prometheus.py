"""Prometheus's answers become the figures of a scorecard."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

import pytest

from latspan._model.goals import InferencePath, Target, TrafficProfile
from latspan._model.segments import Kind, Outcome, Side
from latspan._study.scorecard import Cycle, ScorecardBuilder, add_source
from latspan._study.scorecard._prometheus import PrometheusTotals, totals_of
from latspan.errors import ConfigError

NOW_NS: Final = 1_795_532_000 * 10**9
"""2026-11-24, a Tuesday."""

Answer = Callable[[str, float], "list[dict[str, Any]] | bytes | int"]


@contextmanager
def prometheus(answer: Answer) -> Generator[str]:
    """Run a server that answers each query, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            asked = urllib.parse.parse_qs(self.rfile.read(length).decode())
            found = answer(asked["query"][0], float(asked["time"][0]))
            if isinstance(found, int):
                self.send_error(found, "no")
                return
            body = (
                found
                if isinstance(found, bytes)
                else json.dumps({"data": {"result": found}}).encode()
            )
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as above
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def labels(outcome: str, **more: str) -> dict[str, str]:
    return {
        "latspan_kind": "call",
        "latspan_side": "client",
        "latspan_outcome": outcome,
        "latspan_inference_path": "chat",
        **more,
    }


def answers(query: str, at_s: float) -> list[dict[str, Any]]:
    """Answer for the current week and month: 90 completed, 10 timeouts; nothing before."""
    if at_s < NOW_NS / 1e9:
        return []
    if "segment" in query:
        return [
            {"metric": labels("completed"), "value": [at_s, "90.2"]},
            {"metric": labels("timeout"), "value": [at_s, "9.9"]},
            {"metric": {"job": "another"}, "value": [at_s, "5"]},
        ]
    if "latspan_time_to_first_token_seconds" in query:
        buckets = [[0, "0.1", "0.1003", "60"], [0, "0.4", "0.4012", "30.4"]]
        return [{"metric": labels("completed"), "histogram": [at_s, {"buckets": buckets}]}]
    return []


def totals(
    answer: Answer,
    *,
    by: str = "inference_path",
    where: Mapping[str, str] | None = None,
    cycles: Sequence[Cycle] = (Cycle.WEEK,),
) -> list[PrometheusTotals]:
    with prometheus(answer) as url:
        return list(totals_of(url, by=by, where=where or {}, cycles=cycles, now_ns=NOW_NS))


def test_counts_and_histograms_of_a_period() -> None:
    """Of the series that latspan exports; counts are rounded, values are bucket middles."""
    (total,) = totals(answers)

    assert total[:5] == (Cycle.WEEK, total.period, Kind.CALL, Side.CLIENT, "chat")
    assert total.period.label == "2026-W48"
    assert total.counts == {Outcome.COMPLETED: 90, Outcome.TIMEOUT: 10}
    population = total.values["time_to_first_token"]
    assert population.never == 10
    histogram = population.exact
    assert histogram.count == 90
    assert histogram.value_at_percentile(50) == pytest.approx(100_150_000, rel=0.002)
    assert histogram.value_at_percentile(95) == pytest.approx(400_600_000, rel=0.002)


@pytest.mark.parametrize(
    "bucket", [[0, "0.4", "+Inf", "3"], [0, "NaN", "0.4", "3"], [0, "0.1", "0.2", "NaN"]], ids=str
)
def test_a_bucket_without_known_values_is_one_error(bucket: list[Any]) -> None:
    """A histogram of another form ends with a bucket to infinity, in which no value is known."""

    def answer(query: str, at_s: float) -> list[dict[str, Any]]:
        if "segment" in query:
            return answers(query, at_s)
        return [{"metric": labels("completed"), "histogram": [at_s, {"buckets": [bucket]}]}]

    with pytest.raises(ConfigError, match="latspan_time_to_first_token_seconds whose values"):
        totals(answer)


def test_a_count_that_is_not_a_number_is_one_error() -> None:
    """It would be left out, or end in a traceback."""
    with pytest.raises(ConfigError, match="a count that is not a number"):
        totals(lambda _, at_s: [{"metric": labels("completed"), "value": [at_s, "NaN"]}])


@pytest.mark.parametrize(
    "sample",
    [
        {"values": [[0, "1"], [1, "2"]]},
        {"value": [0]},
        {"value": [0, "many"]},
        {"value": [0, None]},
        {"value": None},
    ],
    ids=["matrix", "no value", "text", "null", "no sample"],
)
def test_a_sample_of_another_shape_is_one_error(sample: dict[str, Any]) -> None:
    """A proxy or another server may answer with anything."""
    with pytest.raises(ConfigError, match="does not answer as Prometheus does"):
        totals(lambda _query, _at_s: [{"metric": labels("completed"), **sample}])


@pytest.mark.parametrize("histogram", [None, [0], [0, None], [0, {"buckets": [[0, "x"]]}]])
def test_a_histogram_of_another_shape_is_one_error(histogram: Any) -> None:
    """As for a count."""

    def answer(query: str, at_s: float) -> list[dict[str, Any]]:
        if "segment" in query:
            return answers(query, at_s)
        return [{"metric": labels("completed"), "histogram": histogram}]

    with pytest.raises(ConfigError, match="does not answer as Prometheus does"):
        totals(answer)


def test_each_period_is_asked_up_to_its_end_or_to_now() -> None:
    """Of this week only the time that has passed."""
    asked: list[tuple[str, float]] = []

    def note(query: str, at_s: float) -> list[dict[str, Any]]:
        asked.append((query, at_s))
        return []

    assert totals(note, cycles=[Cycle.WEEK, Cycle.MONTH]) == []

    assert len(asked) == 18
    assert [at_s for _, at_s in asked[:2]] == [NOW_NS / 1e9, 1_795_392_000]
    assert "[140000s]" in asked[0][0]
    assert "[604800s]" in asked[1][0]


def test_attributes_become_labels() -> None:
    """Of latspan, of the conventions, and of the application."""
    asked: list[str] = []

    def note(query: str, at_s: float) -> list[dict[str, Any]]:
        asked.append(query)
        return []

    totals(note, by="model", where={"tenant": 'a"b', "app.plan": "pro"})

    assert asked[0] == (
        "max by (latspan_kind, latspan_side, latspan_outcome, gen_ai_request_model) (sum by"
        " (latspan_kind, latspan_side, latspan_outcome, gen_ai_request_model, latspan_segment)"
        ' (histogram_count(increase(latspan_segment_duration_seconds{latspan_tenant="a\\"b",'
        'app_plan="pro"}[140000s]))))'
    )


def test_the_scorecard_marks_estimates() -> None:
    """No target is judged by counts that are extrapolated, and no duration is made up."""

    def always(query: str, at_s: float) -> list[dict[str, Any]]:
        return answers(query, max(at_s, NOW_NS / 1e9))

    target = Target(metric="ttft", percentile=95, limit_ns=200_000_000)
    path = InferencePath(name="chat", traffic=TrafficProfile(rate_per_s=1), targets=(target,))
    builder = ScorecardBuilder([path], cycles=[Cycle.WEEK])
    with prometheus(always) as url:
        assert add_source(builder, url) == ()
    scorecard = builder.build()
    (card,) = scorecard.cards
    figures = card.rows[Cycle.WEEK][-1].figures

    assert card.metrics == ("time_to_first_token",)
    assert (figures.timeouts.count, figures.timeouts.of) == (10, 100)
    assert figures.attainment is not None
    assert (figures.attainment.count, figures.attainment.of) == (60, 100)
    assert (figures.verdicts, figures.goodput_per_s) == ((None,), None)
    assert scorecard.notes == (
        (
            "Counts from Prometheus are estimates, so no target is judged by them; it has the"
            " duration in wide buckets only, so it is not shown."
        ),
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (400, "answered 400"),
        (b"<html>", "does not answer as Prometheus does"),
        (b'{"data": {}}', "does not answer as Prometheus does"),
    ],
)
def test_another_server_is_one_error(answer: bytes | int, message: str) -> None:
    """With the address that is expected."""

    def always(query: str, at_s: float) -> bytes | int:
        return answer

    with pytest.raises(ConfigError, match=message) as raised:
        totals(always)

    assert "http://localhost:9090" in (raised.value.hint or "")


def test_a_server_that_does_not_run_is_one_error() -> None:
    """A password in the address is not shown."""
    with pytest.raises(ConfigError) as raised:
        list(totals_of("http://me:secret@127.0.0.1:9", by="model", where={}, cycles=[Cycle.WEEK]))

    assert "secret" not in str(raised.value)
    assert "does not answer" in raised.value.message
