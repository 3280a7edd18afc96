"""``latspan demo --json`` prints one consistent document, and nothing else on stdout."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from latspan import Source
from latspan._model.metrics import LATENCY_METRICS
from latspan.integrations import Outcome

REQUESTS = 8


@pytest.fixture(scope="module")
def answer() -> subprocess.CompletedProcess[str]:
    """Output of one demo on the scripted server."""
    pytest.importorskip("openai")
    return demo("--scripted", "--json", "--requests", str(REQUESTS), "--concurrency", "4")


@pytest.fixture(scope="module")
def document(answer: subprocess.CompletedProcess[str]) -> Any:
    """The printed document."""
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def demo(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "latspan", "demo", *options],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_document_has_every_request(document: Any) -> None:
    """As many as requested, all completed."""
    assert document["schema"] == "latspan.demo/1"
    assert [request["outcome"] for request in document["requests"]] == [
        Outcome.COMPLETED
    ] * REQUESTS


def test_segments_sum_to_the_duration_to_the_nanosecond(document: Any) -> None:
    """Segments tile the duration in the document too."""
    for request in document["requests"]:
        lengths = [segment["duration_ns"] for segment in request["segments"]]
        assert sum(lengths) == request["duration_ns"]
        assert all(isinstance(length, int) for length in lengths)


def test_every_segment_has_its_source(document: Any) -> None:
    """The scripted server reports like llama.cpp: the queue is estimated, the rest reported."""
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


def test_metrics_are_in_seconds_and_tokens_are_the_providers(document: Any) -> None:
    """The document has every latency metric, and its token counts come from usage."""
    names = {metric.name for metric in LATENCY_METRICS.values() if not metric.distribution}
    for request in document["requests"]:
        metrics = request["metrics"]
        assert set(metrics) == names
        assert metrics["duration"] == pytest.approx(request["duration_ns"] / 1e9)
        assert 0 < metrics["time_to_first_token"] < metrics["duration"]
        assert request["tokens"]["source"] == "provider"
        assert request["tokens"]["output"] in (24, 32)


def test_the_summary_has_no_percentile_of_too_few_values(document: Any) -> None:
    """Eight values are enough only for a median."""
    summary = document["summary"]

    assert set(summary["metrics"]) == set(LATENCY_METRICS)
    for row in summary["segments"]:
        assert (row["p50_ns"] is None) is (row["n"] < 2)
        assert row["p95_ns"] is None
        assert row["p99_ns"] is None
    assert sum(row["slow_share"] for row in summary["segments"]) == pytest.approx(1)
    assert summary["sentence"].startswith("The slowest of 8 calls spent ")


def test_progress_is_printed_on_stderr(answer: subprocess.CompletedProcess[str]) -> None:
    """A program that reads stdout gets only the document."""
    assert "8 of 8 chats" in answer.stderr


def test_the_terminal_report_has_every_part() -> None:
    """Two waterfalls, three tables and a sentence on stdout; the next steps on stderr."""
    pytest.importorskip("openai")
    pytest.importorskip("rich")
    answer = demo("--scripted", "--requests", "8", "--concurrency", "4")

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("= sum of segments") == 2
    for part in ("median of 8", "slowest of 8", "needs 100", "TTFT", "TPOT", "stalls: ", "tokens"):
        assert part in answer.stdout
    assert "The slowest of 8 calls spent " in answer.stdout
    assert "latspan demo --otlp-endpoint http://localhost:4318" in answer.stderr
    assert "latspan run --report -- python app.py" in answer.stderr
    guides = re.findall(r"^  file://(.+)$", answer.stderr, re.MULTILINE)
    assert [Path(guide).name for guide in guides] == ["report.md", "instrument.md", "backends.md"]
    assert all(Path(guide).is_file() for guide in guides)


def test_an_invalid_endpoint_is_refused_before_the_start() -> None:
    """The error has a hint, and the exit code is that of a usage error."""
    answer = demo("--scripted", "--requests", "1", "--otlp-endpoint", "ftp://localhost")

    assert answer.returncode == 2
    assert answer.stderr.startswith("error: ")
    assert "\nhint: " in answer.stderr
    assert "Traceback" not in answer.stderr
