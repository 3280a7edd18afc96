"""``latspan measure module:function`` calls the user's own code with each prompt."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from latspan import Kind, semconv
from latspan.cli import main
from latspan.testing import Script, ScriptedServer
from support.measuring import Measured, measure

_MODULE = """
import asyncio
import time

import openai

import latspan


async def wait(prompt):
    await asyncio.sleep(0.02)


def block(prompt):
    time.sleep(0.02)


def chunks(prompt):
    for _ in range(3):
        time.sleep(0.01)
        yield prompt


async def achunks(prompt):
    for _ in range(3):
        await asyncio.sleep(0.01)
        yield prompt


count = 0


async def sometimes(prompt):
    global count
    count += 1
    if count % 5 == 0:
        raise KeyError(prompt)
    if count % 5 == 1 and count > 1:
        await asyncio.sleep(60)


async def ask(prompt):
    with latspan.stage("retrieve"):
        await asyncio.sleep(0.01)
    client = openai.AsyncOpenAI(api_key="none")
    async with client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": prompt}], stream=True
        )
        async for _ in stream:
            pass


def fails(prompt):
    raise ValueError("no such index")


def takes_two(prompt, more):
    pass


async def cancels(prompt):
    raise asyncio.CancelledError


def stops(prompt):
    next(iter([]))


def configures(prompt):
    latspan.configure(export_enabled=False)


def switches_off(prompt):
    latspan.shutdown()


def hangs(prompt):
    global count
    count += 1
    if count == 3:
        time.sleep(600)
"""


def _measured(folder: Path, function: str, *options: str, **variables: str) -> Measured:
    (folder / "app.py").write_text(_MODULE)
    return measure(f"app:{function}", folder / "r", *options, cwd=folder, **variables)


@pytest.mark.parametrize(
    ("function", "least_s"),
    [("wait", 0.02), ("block", 0.02), ("chunks", 0.03), ("achunks", 0.03)],
)
def test_every_kind_of_function_is_called(tmp_path: Path, function: str, least_s: float) -> None:
    """Asynchronous ones on the event loop, others in threads; generators are read to their end."""
    done = _measured(tmp_path, function, "--concurrency", "4", "--requests", "20")
    assert done.document["kind"] == "request", done.errors
    assert done.step["outcomes"] == {"completed": 20}
    assert least_s <= done.seconds("duration", "start", "p50") < 1


def test_calls_inside_belong_to_their_request(tmp_path: Path) -> None:
    """The request has the index and the phase, and its calls and stages are recorded with it."""
    with ScriptedServer(Script.chat(tokens=3, prefill_ms=10, gap_ms=2)) as server:
        done = _measured(
            tmp_path, "ask", "--concurrency", "2", "--requests", "10",
            OPENAI_BASE_URL=server.base_url,
        )  # fmt: skip
    assert done.step["outcomes"] == {"completed": 10}, done.errors
    records = list(done.recording.records())
    requests = {
        record.scope_id: record
        for record in records
        # The end of the measurement cancels the drain.
        if record.kind == "request" and record.details[semconv.LATSPAN_LOAD_PHASE] != "drain"
    }
    inside = Counter(record.kind for record in records if record.parent_id in requests)
    assert inside[Kind.CALL] == inside[Kind.STAGE] == len(requests)
    assert {record.details[semconv.LATSPAN_LOAD_PHASE] for record in requests.values()} == {
        "cold", "warmup", "measured",
    }  # fmt: skip
    assert done.seconds("time_to_first_visible_token", "start", "p50") > 0.01


_TOML = """
name = "assistant"
endpoint = "app:ask"
[traffic]
arrivals = "closed"
concurrency = 1
requests = 10
[[target]]
metric = "duration"
percentile = 90
limit_ms = 5000
"""


def test_requests_of_an_inference_path_are_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those of a URL: ``latspan scorecard`` judges its targets, and calls inside have it too."""
    (tmp_path / "app.py").write_text(_MODULE)
    (tmp_path / "assistant.toml").write_text(_TOML)
    with ScriptedServer(Script.chat(tokens=3, prefill_ms=10, gap_ms=2)) as server:
        done = measure(
            "assistant",
            tmp_path / "r",
            "--no-result",
            cwd=tmp_path,
            OPENAI_BASE_URL=server.base_url,
        )
    paths = {
        (record.kind, record.attributes.get("inference_path"))
        for record in done.recording.records()
    }
    assert (Kind.REQUEST, "assistant") in paths, done.errors
    assert {path for _, path in paths} == {"assistant"}
    monkeypatch.chdir(tmp_path)
    assert main(["scorecard", "r", "--target", "assistant", "--json"]) == 0
    (card,) = json.loads(capsys.readouterr().out)["cards"]
    assert card["periods"]


def test_exceptions_and_timeouts_are_outcomes(tmp_path: Path) -> None:
    """The load goes on."""
    done = _measured(
        tmp_path, "sometimes", "--concurrency", "1", "--requests", "20", "--warmup", "0",
        "--timeout", "100ms",
    )  # fmt: skip
    assert done.step["outcomes"] == {"completed": 12, "error": 4, "timeout": 4}, done.errors
    assert done.step["errors"] == {"KeyError": 4, "TimeoutError": 4}


def test_a_run_that_never_ends_does_not_keep_the_command_from_ending(tmp_path: Path) -> None:
    """It counts as a timeout, and its thread ends with the process."""
    done = _measured(
        tmp_path, "hangs", "--concurrency", "1", "--requests", "5", "--warmup", "0",
        "--timeout", "100ms",
    )  # fmt: skip
    assert done.step["outcomes"] == {"completed": 4, "timeout": 1}, done.errors


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("fails", "app:fails fails on the first prompt: ValueError: no such index"),
        ("takes_two", "app:takes_two cannot be called with a prompt: missing a required argument"),
        ("nothing", "the module 'app' has no function 'nothing'"),
        ("cancels", "app:cancels fails on the first prompt: FunctionExitError: CancelledError"),
        ("stops", "app:stops fails on the first prompt: FunctionExitError: StopIteration"),
        ("configures", "app:configures configured latspan again or shut it down"),
        ("switches_off", "app:switches_off configured latspan again or shut it down"),
    ],
)
def test_a_function_that_does_not_work_is_explained(
    tmp_path: Path, function: str, message: str
) -> None:
    """Before the load, with exit code 2."""
    done = _measured(tmp_path, function)
    assert done.code == 2
    assert message in done.errors
    assert not done.folder.exists()
