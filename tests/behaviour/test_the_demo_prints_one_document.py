"""``latspan demo --json`` prints one document whose numbers add up, and nothing else on stdout."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from latspan._metrics import LATENCY_METRICS
from latspan._segments import Outcome, Source

REQUESTS = 8


@pytest.fixture(scope="module")
def answer() -> subprocess.CompletedProcess[str]:
    """Run the demo once, on the scripted server."""
    pytest.importorskip("openai")
    return demo("--scripted", "--json", "--requests", str(REQUESTS), "--concurrency", "4")


@pytest.fixture(scope="module")
def document(answer: subprocess.CompletedProcess[str]) -> Any:
    """Return what it printed."""
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def demo(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "latspan", "demo", *options],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_every_request_is_there_and_completed(document: Any) -> None:
    """As many as were asked for, none failed."""
    assert document["schema"] == "latspan.demo/1"
    assert [request["outcome"] for request in document["requests"]] == [
        Outcome.COMPLETED
    ] * REQUESTS


def test_segments_sum_to_the_duration_to_the_nanosecond(document: Any) -> None:
    """The first law, seen from outside."""
    for request in document["requests"]:
        lengths = [segment["duration_ns"] for segment in request["segments"]]
        assert sum(lengths) == request["duration_ns"]
        assert all(isinstance(length, int) for length in lengths)


def test_every_segment_says_how_it_is_known(document: Any) -> None:
    """The scripted server speaks like llama.cpp: queue estimated, prefill and decode its own."""
    sources = {
        (segment["name"], segment["source"])
        for request in document["requests"]
        for segment in request["segments"]
    }

    assert {source for _, source in sources} <= {source.value for source in Source}
    assert {
        ("queue", "estimated"),
        ("prefill", "server_reported"),
        ("decode", "server_reported"),
    } <= sources


def test_metrics_are_seconds_or_null_and_tokens_the_providers(document: Any) -> None:
    """Every name of the design, and counts from the usage chunk."""
    names = {metric.name for metric in LATENCY_METRICS.values() if not metric.distribution}
    for request in document["requests"]:
        metrics = request["metrics"]
        assert set(metrics) == names
        assert metrics["duration"] == pytest.approx(request["duration_ns"] / 1e9)
        assert 0 < metrics["time_to_first_token"] < metrics["duration"]
        assert request["tokens"]["source"] == "provider"
        assert request["tokens"]["output"] in (24, 32)


def test_the_summary_shows_no_percentile_of_too_few(document: Any) -> None:
    """Eight values are enough for a median only."""
    summary = document["summary"]

    assert set(summary["metrics"]) == set(LATENCY_METRICS)
    for row in summary["segments"]:
        assert (row["p50_ns"] is None) is (row["n"] < 2)
        assert row["p95_ns"] is None
        assert row["p99_ns"] is None
    assert sum(row["slow_share"] for row in summary["segments"]) == pytest.approx(1)
    assert summary["sentence"].startswith("The slowest of 8 requests spent ")


def test_progress_and_all_else_is_on_stderr(answer: subprocess.CompletedProcess[str]) -> None:
    """Whoever pipes stdout into a program gets the document alone."""
    assert "8 of 8 chats" in answer.stderr


def test_the_report_for_people_has_every_part() -> None:
    """Two waterfalls, three tables, a sentence on stdout; where to go next on stderr."""
    pytest.importorskip("openai")
    pytest.importorskip("rich")
    answer = demo("--scripted", "--requests", "8", "--concurrency", "4")

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("= sum of segments") == 2
    for part in ("median of 8", "slowest of 8", "needs 100", "TTFT", "TPOT", "stalls: ", "tokens"):
        assert part in answer.stdout
    assert "The slowest of 8 requests spent " in answer.stdout
    assert "latspan demo --otlp-endpoint http://localhost:4318" in answer.stderr


def test_an_endpoint_that_cannot_be_one_is_refused_before_anything_starts() -> None:
    """The error has a hint, and the exit code is that of a wrong command line."""
    answer = demo("--scripted", "--requests", "1", "--otlp-endpoint", "ftp://localhost")

    assert answer.returncode == 2
    assert answer.stderr.startswith("error: ")
    assert "\nhint: " in answer.stderr
    assert "Traceback" not in answer.stderr
