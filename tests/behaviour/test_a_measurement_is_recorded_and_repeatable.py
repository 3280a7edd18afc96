"""``latspan measure`` sends a load to an endpoint, records it and prints one document."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latspan import read_snapshots, semconv
from latspan._load import generated
from latspan.histogram import Histogram
from latspan.testing import Script, ScriptedServer, ServedRequest
from support.measuring import Measured, chats_of, measure, starting, when_valid

_QUICK = Script.chat(tokens=4, prefill_ms=20, gap_ms=2, prompt_tokens=40)


def _text(request: ServedRequest) -> str:
    text: str = request.request_json["messages"][-1]["content"]
    return text


def _texts(server: ScriptedServer) -> list[str]:
    return [_text(each) for each in chats_of(server)]


def _texts_by_index(done: Measured, server: ScriptedServer) -> dict[int, str]:
    """Return the text of each request up to the last measured one, as the server received it."""
    served = {each.index: each for each in chats_of(server)}
    texts: dict[int, str] = {}
    for record in done.recording.records("call"):
        details: dict[str, Any] = dict(record.details)
        if details[semconv.LATSPAN_LOAD_PHASE] != "drain":
            # The scripted server's ids end in its number of the request.
            number = int(details[semconv.GEN_AI_RESPONSE_ID].rpartition("-")[2])
            texts[details[semconv.LATSPAN_LOAD_INDEX]] = _text(served[number])
    return texts


def test_an_open_loop_is_recorded_whole(tmp_path: Path) -> None:
    """Every request has a record with its index, phase and dispatch lag."""
    with ScriptedServer(_QUICK) as server:
        done = measure(server.base_url, tmp_path / "r", "--rate", "50", "--requests", "60")
        served = chats_of(server)
    assert done.document["schema"] == "latspan.measurement/1", done.errors
    step = done.step
    assert step["loop"] == "open"
    assert (step["intended"], step["measured"], step["outcomes"]) == (60, 60, {"completed": 60})
    records = list(done.recording.records("call"))
    phases = Counter(record.details[semconv.LATSPAN_LOAD_PHASE] for record in records)
    assert phases["cold"] == 1
    assert (phases["warmup"], phases["measured"]) == (10, 60)
    indexes = {record.details[semconv.LATSPAN_LOAD_INDEX] for record in records}
    assert len(indexes) == len(records)
    # At the end, requests of the drain are cancelled; such a request may not reach the server.
    cancelled = sum(record.outcome == "cancelled" for record in records)
    assert len(records) - cancelled <= len(served) <= len(records)
    conditions = done.recording.conditions
    assert conditions == done.document["conditions"]
    assert conditions["models_returned"] == [served[0].request_json["model"]]
    assert 0 < conditions["connections_reused"] <= 1
    lag = done.recording.columns("dispatch_lag", kind="call")["dispatch_lag"]
    assert 0 <= float(max(lag)) < 60
    assert all(record.outcome == "completed" for record in records if record.details[
        semconv.LATSPAN_LOAD_PHASE] != "drain")  # fmt: skip


def test_the_histogram_logs_have_the_measured_phase_only(tmp_path: Path) -> None:
    """Their percentiles are those of the measured records, by rank, and not of all records."""
    slow = replace(_QUICK, prefill_ns=300_000_000)
    with ScriptedServer([slow, *[_QUICK] * 200]) as server:
        done = measure(
            server.base_url, tmp_path / "r", "--concurrency", "2", "--requests", "40",
            "--warmup", "6",
        )  # fmt: skip
    of_phase: dict[str, list[int]] = {}
    for record in done.recording.records("call"):
        phase = str(record.details[semconv.LATSPAN_LOAD_PHASE])
        of_phase.setdefault(phase, []).append(record.duration_ns)
    assert len(of_phase["measured"]) == 40
    assert {"cold", "warmup"} < of_phase.keys()

    (log,) = (tmp_path / "r").glob("*.hlog")
    values = Histogram()
    for snapshot in read_snapshots(log):
        for key, series in snapshot.series.items():
            if key.metric == "duration":
                values.merge(series.histogram)

    assert values.count == 40
    ordered = sorted(of_phase["measured"])
    for percentile, rank in ((50, 20), (95, 38)):
        shown = values.value_at_percentile(percentile)
        assert ordered[rank - 1] <= shown <= ordered[rank - 1] * 1.001


def test_a_seed_repeats_prompts_order_and_arrivals(tmp_path: Path) -> None:
    """The fingerprints are equal, the server gets the same texts, and another seed differs."""
    conditions: list[dict[str, Any]] = []
    texts: list[dict[int, str]] = []
    for number, seed in enumerate(("5", "5", "6")):
        with ScriptedServer(_QUICK) as server:
            done = measure(
                server.base_url, tmp_path / str(number), "--rate", "100", "--requests", "20",
                "--warmup", "5", "--seed", seed,
            )  # fmt: skip
            # Requests of the drain are sent until the last measured one has ended, so their number
            # depends on the server.
            texts.append(_texts_by_index(done, server))
        conditions.append(done.document["conditions"])
    names = ("prompts", "arrivals", "parameters", "seed", "cache")
    first, second, other = ({name: each[name] for name in names} for each in conditions)
    assert first == second
    assert set(texts[0]) == set(range(26))
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
    for name in ("prompts", "arrivals", "seed"):
        assert first[name] != other[name]


def test_the_order_is_that_of_the_prompts(tmp_path: Path) -> None:
    """With one request in flight, the server sees it exactly."""
    with ScriptedServer(_QUICK) as server:
        measure(server.base_url, tmp_path / "r", "--requests", "5", "--warmup", "3")
        texts = _texts(server)
    prompts = generated(1 + 3 + 2 * 5, seed=0)
    assert texts[:9] == [prompts.of(index).text for index in range(9)]


def test_a_closed_loop_is_labelled_closed(tmp_path: Path) -> None:
    """It has no rate, and no times from schedule."""
    with ScriptedServer(_QUICK) as server:
        done = measure(server.base_url, tmp_path / "r", "--concurrency", "4", "--requests", "30")
    assert done.step["loop"] == "closed"
    assert done.step["load"] == {"pattern": "closed", "concurrency": 4}
    assert {each["from"] for each in done.step["latencies"]} == {"start"}
    assert done.step["offered_per_s"] is None


def test_failures_are_outcomes(tmp_path: Path) -> None:
    """Statuses, cut streams and timeouts are calls with an outcome, and count in p(all)."""
    scripts = [
        _QUICK,
        Script.refused(500),
        Script.refused(429),
        Script.chat(tokens=4, prefill_ms=1, gap_ms=1, ending="cut"),
        Script.chat(tokens=4, prefill_ms=30_000),
    ]
    with ScriptedServer(scripts) as server:
        done = measure(
            server.base_url, tmp_path / "r", "--concurrency", "1", "--requests", "20",
            "--warmup", "4", "--timeout", "200ms",
        )  # fmt: skip
    assert done.step["outcomes"] == {"completed": 4, "error": 8, "rejected": 4, "timeout": 4}
    assert done.step["errors"]["500"] == 4
    (duration,) = (each for each in done.step["latencies"] if each["metric"] == "duration")
    assert duration["failed"] == 16
    assert "p50" in duration["all"]["unbounded"]
    assert duration["completed"]["p50"] < 0.2


def test_a_cold_cache_gives_each_prompt_a_beginning_of_its_own(tmp_path: Path) -> None:
    """It is another one in every measurement, although the fingerprints are equal."""
    (tmp_path / "p.jsonl").write_text('{"prompt": "What is the tide?"}\n')
    beginnings: list[str] = []
    fingerprints: list[str] = []
    for number in range(2):
        with ScriptedServer(_QUICK) as server:
            done = measure(
                server.base_url, tmp_path / str(number), "--requests", "10", "--warmup", "0",
                "--cache", "cold", "--prompts", str(tmp_path / "p.jsonl"),
            )  # fmt: skip
            texts = _texts(server)
        beginnings += [text.partition(" ")[0] for text in texts]
        assert {text.partition(" ")[2] for text in texts} == {"What is the tide?"}
        fingerprints.append(done.document["conditions"]["prompts"]["fingerprint"])
    assert len(set(beginnings)) == len(beginnings)
    assert fingerprints[0] == fingerprints[1]


@pytest.mark.alone
def test_an_inference_path_is_measured_by_its_name(tmp_path: Path) -> None:
    """Its file has the endpoint, the load and the targets; the exit code is the verdict."""
    with ScriptedServer(_QUICK) as server:
        (tmp_path / "chat.toml").write_text(
            f"""
            name = "chat"
            endpoint = "{server.base_url}"
            model = "m"
            [[target]]
            metric = "ttft"
            percentile = 95
            limit_ms = 1
            [traffic]
            arrivals = "constant"
            rate_per_s = 50
            requests = 60
            """
        )
        done = when_valid(lambda n: measure("chat", tmp_path / f"r{n}", cwd=tmp_path))
    assert done.code == 1, done.errors
    assert done.document["name"] == "chat"
    assert done.step["targets"][0]["verdict"] == "missed"
    (path,) = {record.attributes["inference_path"] for record in done.recording.records("call")}
    assert path == "chat"


@pytest.mark.alone
def test_too_few_requests_prove_nothing(tmp_path: Path) -> None:
    """The exit code is 3, and the number of further requests is known."""
    options = ("--rate", "50", "--requests", "30", "--check", "ttft p95 5s")
    with ScriptedServer(_QUICK) as server:
        done = when_valid(lambda n: measure(server.base_url, tmp_path / f"r{n}", *options))
    assert done.code == 3
    assert done.step["targets"][0]["needed"] == 29
    assert "30 requests cannot prove it" in done.errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_measured(tmp_path: Path, number: signal.Signals) -> None:
    """The recording is complete and marked, and the measurement is invalid."""
    with ScriptedServer(Script.chat(tokens=20, prefill_ms=20, gap_ms=10)) as server:
        process = starting(server.base_url, tmp_path / "r", "--rate", "20", "--requests", "1000")
        while len(server.served_requests(timeout_s=0)) < 40:
            pass
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 4, errors
    document = json.loads(out)
    (step,) = document["steps"]
    assert document["interrupted"] is True
    assert "cut_short" in {each["name"] for each in step["caveats"]}
    assert step["measured"] >= 10
    # Those that the interrupt cancelled were measured: each took at least as long as it lasted.
    assert step["intended"] == step["measured"] + step["unsent"]
    assert step["outcomes"]["cancelled"] == step["cut"] > 0


def test_a_killed_measurement_keeps_what_had_ended(tmp_path: Path) -> None:
    """Its recording opens, and states that it did not end."""
    with ScriptedServer(_QUICK) as server:
        process = starting(server.base_url, tmp_path / "r", "--rate", "50", "--requests", "1000")
        while len(server.served_requests(timeout_s=0)) < 40:
            pass
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    shown = subprocess.run(
        [sys.executable, "-c", _SUMMARY, str(tmp_path / "r")], capture_output=True, text=True
    )
    ended, records = shown.stdout.split()
    assert ended == "False"
    assert int(records) > 20


_SUMMARY = """
import sys
from latspan import open_recording
from latspan._study.measurement import summarize
recording = open_recording(sys.argv[1])
print(summarize(recording).ended, len(list(recording.records("call"))))
"""
