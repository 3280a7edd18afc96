"""The pytest fixture: percentiles of what this test's calls cost, and of nothing else."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import latspan
from latspan.errors import EmptyHistogramError, NotEnoughValuesError, UnknownNameError
from latspan.testing import LatspanCapture, Script, ScriptedServer
from latspan.testing._fixture import recording_fixture
from tests.clients.conftest import MESSAGES, openai

pytestmark = pytest.mark.any_client

SCRIPT = Script.chat(tokens=3, queue_ms=8, prefill_ms=10, gap_ms=2)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of a scripted server."""
    with (
        ScriptedServer(SCRIPT) as server,
        openai.OpenAI(base_url=server.base_url, api_key="none") as client,
    ):
        yield client


def _chat(client: Any, times: int) -> None:
    for _ in range(times):
        for _chunk in client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
            pass


def test_percentiles_segments_and_counts(latspan_capture: LatspanCapture, client: Any) -> None:
    """In the unit asked for, of the metric or segment asked for."""
    _chat(client, 20)

    assert latspan_capture.count() == 20
    ttft_ms = latspan_capture.percentile("ttft", 95, unit="ms")
    assert ttft_ms >= 18
    ttft_s = latspan_capture.percentile("time_to_first_token", 95, unit="s")
    assert ttft_s == pytest.approx(ttft_ms / 1000)
    queue = latspan_capture.segment("queue")
    assert queue.count() == 20
    assert queue.percentile(50) >= 8
    ttft = latspan_capture.metric("ttft")
    # The server's schedule: nobody has a token before it.
    assert ttft.fraction_above(17, unit="ms") == 1
    assert ttft.fraction_above(100, unit="s") == 0


def test_each_test_begins_with_an_empty_recorder(
    latspan_capture: LatspanCapture, client: Any
) -> None:
    """What the test before recorded is gone."""
    assert latspan_capture.records == ()
    _chat(client, 1)
    assert latspan_capture.count() == 1


def test_series_attributes_come_from_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """``configure(series_attributes=…)`` has no effect inside the fixture."""
    monkeypatch.setenv("LATSPAN_SERIES_ATTRIBUTES", "prompt.version")
    with recording_fixture() as captured:
        with latspan.attributes({"prompt.version": "7"}), latspan.request("answer"):
            pass

        assert list(captured.snapshot().group_by("prompt.version")) == ["7"]


def test_too_few_values_is_an_error_with_the_number_needed(
    latspan_capture: LatspanCapture, client: Any
) -> None:
    """A 95th percentile of three values is no number."""
    _chat(client, 3)
    with pytest.raises(NotEnoughValuesError, match=r"p95 of .* needs 20 values, there are 3"):
        latspan_capture.percentile("ttft", 95)
    with pytest.raises(NotEnoughValuesError, match=r"p99 of .* needs 100 values, there are 3"):
        latspan_capture.segment("queue").percentile(99)


def test_a_wrong_name_is_an_error_that_knows_better(
    latspan_capture: LatspanCapture, client: Any
) -> None:
    """Of a metric, a unit or an attribute; a segment that was not seen is one too."""
    _chat(client, 2)
    with pytest.raises(UnknownNameError, match="did you mean 'ttft'"):
        latspan_capture.percentile("tttft", 50)
    with pytest.raises(UnknownNameError, match="'min' is not a unit of time"):
        latspan_capture.percentile("ttft", 50, unit="min")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnknownNameError, match="hint"):
        latspan_capture.percentile("ttft", 50, team="x")
    with pytest.raises(EmptyHistogramError, match="hint"):
        latspan_capture.segment("reasoning").percentile(50)


@pytest.mark.parametrize("query", ["percentile", "metric", "segment", "count"])
def test_the_fixture_answers_as_a_snapshot_does(query: str) -> None:
    """With the same arguments and results."""
    assert inspect.signature(getattr(LatspanCapture, query)) == inspect.signature(
        getattr(latspan.Snapshot, query)
    )


def test_a_part_of_what_was_recorded(latspan_capture: LatspanCapture, client: Any) -> None:
    """A default stands for what is missing; a question about requests is not one about calls."""
    with latspan.request("answer"):
        _chat(client, 2)

    assert latspan_capture.percentile("duration", 95, default=None) is None
    assert latspan_capture.snapshot().where(model="m").count() == 2
    with pytest.raises(UnknownNameError, match='hint: use kind="call"'):
        latspan_capture.percentile("ttft", 50)
    assert latspan_capture.percentile("ttft", 50, kind="call") >= 18


def test_the_module_stays_usable(latspan_capture: LatspanCapture, client: Any) -> None:
    """Attributes, requests and stages of the test are recorded too."""
    with (
        latspan.attributes(inference_path="support"),
        latspan.request("answer"),
        latspan.stage("parse"),
    ):
        _chat(client, 1)
    assert latspan_capture.count(inference_path="support") == 1
    assert latspan_capture.segment("parse").count() == 1


def test_an_application_that_configures_itself_is_still_recorded_here(
    latspan_capture: LatspanCapture, client: Any
) -> None:
    """The application under test may call ``configure`` as it does in production."""
    latspan.configure(export_enabled=False)
    try:
        _chat(client, 2)
        assert latspan_capture.count() == 2
    finally:
        latspan.shutdown()


IN_A_USERS_TEST = """
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import openai

from latspan._base.internal_errors import handle_internal_errors

ANSWER = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": 5}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_an_odd_answer(latspan_capture):
    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
    answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    assert answer.choices == 5
    server.shutdown()
    server.server_close()
    client.close()


def test_a_bug(latspan_capture, caplog):
    with handle_internal_errors("a test"):
        raise ZeroDivisionError
    assert "latspan failed at a test" in caplog.text
"""


def test_a_bug_of_latspans_own_fails_no_test_of_a_users(tmp_path: Path) -> None:
    """It is logged, as in an application; only latspan's own tests have it raised."""
    (tmp_path / "test_users.py").write_text(IN_A_USERS_TEST)

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_users.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert (ran.returncode, "2 passed" in ran.stdout) == (0, True), ran.stdout
