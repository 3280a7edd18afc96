"""Recordings of programs: every request once, whatever ends the program, and nothing secret."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

import latspan
from latspan import Kind
from latspan.testing import Script, ScriptedServer
from support.otlp import await_listener, free_port
from support.programs import serving
from support.workers import TWO_OF_UVICORN

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from behaviour.test_a_newcomers_assistant_is_seen_whole import (
    ASKED,
    BY_ROUTE,
    CALLS,
    REQUESTS,
    SCRIPTS,
    STAGES,
    ask,
)

SCHEMA: Final = Path(__file__).parents[2] / "docs" / "reference" / "recording-2.schema.json"
KILLED: Final = 20
SEED: Final = 18


def recorded(folder: Path, log: Path, *server: str) -> latspan.Recording:
    """Serve the newcomer's assistant under ``latspan run --record`` until SIGTERM."""
    port = free_port()
    command = ("latspan", "run", "--record", str(folder), "--", sys.executable, "-m", "uvicorn")
    with (
        ScriptedServer(named=SCRIPTS) as model,
        serving(
            log,
            *command,
            "serves_an_assistant:app",
            f"--port={port}",
            *server,
            OPENAI_BASE_URL=model.base_url,
        ),
    ):
        await_listener(port)
        with ThreadPoolExecutor(4) as pool:
            sent = [
                pool.submit(ask, port, route.replace("{question}", f"why-{number}"), tenant)
                for (route, tenant), count in ASKED.items()
                for number in range(count)
            ]
            assert {each.result()[0] for each in sent} == {200}
    return latspan.open_recording(folder)


@pytest.mark.parametrize("server", [(), TWO_OF_UVICORN], ids=["one process", "two workers"])
def test_a_served_application_is_recorded(tmp_path: Path, server: tuple[str, ...]) -> None:
    """Each request, call and stage has one line, linked to its request, in any worker."""
    recording = recorded(tmp_path / "recording", tmp_path / "log", *server)
    records = list(recording.records())
    by_kind = Counter(record.kind for record in records)
    requests = {record.scope_id: record for record in records if record.kind is Kind.REQUEST}
    served = Counter(
        (record.attributes["route"], record.attributes["tenant"]) for record in requests.values()
    )

    assert by_kind == {
        Kind.REQUEST: REQUESTS,
        Kind.CALL: REQUESTS * CALLS,
        Kind.STAGE: REQUESTS * len(STAGES),
    }
    assert served == ASKED
    inside = Counter(
        record.parent_id for record in records if record.kind in (Kind.CALL, Kind.STAGE)
    )
    assert inside == dict.fromkeys(requests, CALLS + len(STAGES))
    # The operating system may give all requests to one of the workers.
    files = len(list(recording.folder.glob("requests-*.ended.jsonl")))
    assert recording.notes == (("Merged from 2 processes.",) if files > 1 else ())


def test_a_report_of_a_recording_is_that_of_the_run(tmp_path: Path) -> None:
    """The command reads what the program wrote, as tables or as JSON."""
    folder = tmp_path / "recording"
    recorded(folder, tmp_path / "log")
    command = (sys.executable, "-m", "latspan", "report", str(folder))
    shown = subprocess.run(command, capture_output=True, text=True)
    document = subprocess.run((*command, "--json"), capture_output=True, text=True)

    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"slowest of {max(BY_ROUTE.values())} served requests" in shown.stdout
    assert f"segments of {REQUESTS * CALLS} calls" in shown.stdout
    assert (document.returncode, document.stderr) == (0, "")
    assert json.loads(document.stdout)["schema"] == "latspan.demo/1"


def test_lines_follow_the_published_schema_and_have_no_content(tmp_path: Path) -> None:
    """No prompt, no response, no key: not even of a program that captures content on spans."""
    folder = tmp_path / "recording"
    recorded(folder, tmp_path / "log")
    validator: Any = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    lines = [
        line for path in folder.glob("requests-*.jsonl") for line in path.read_text().splitlines()
    ]

    assert lines
    for line in lines:
        validator.validate(json.loads(line))
    text = "".join(path.read_text() for path in folder.iterdir())
    assert not [secret for secret in ("Rewrite:", "text0", "a document on") if secret in text]


PROGRAM: Final = """
import os, sys, latspan, openai
client = openai.OpenAI(api_key="sk-secret", max_retries=0)
while True:
    with latspan.request("answer"):
        for _ in client.chat.completions.create(model="m", messages=[], stream=True):
            pass
    sys.stdout.write("done\\n")
    sys.stdout.flush()
"""


@pytest.mark.repetitive
def test_a_killed_program_loses_no_finished_request(tmp_path: Path) -> None:
    """
    Killed at a random moment, 20 times: every request but the last one is in the recording.

    The program prints a line when a request has ended; the worker thread writes the request within
    10 ms, and the next one takes 40 ms.
    """
    moments = random.Random(SEED)  # noqa: S311 - moments of a test
    numbers = [moments.randrange(1, 12) for _ in range(KILLED)]
    with (
        ScriptedServer(Script.chat(tokens=3, prefill_ms=40, gap_ms=0.2)) as model,
        ThreadPoolExecutor(2) as pool,
    ):
        runs = [
            pool.submit(killed, tmp_path / str(number), model.base_url, lines=lines)
            for number, lines in enumerate(numbers)
        ]
        counts = [run.result() for run in runs]

    assert [(ended, held) for ended, held in counts if not ended - 1 <= held <= ended + 1] == []


def killed(folder: Path, base_url: str, *, lines: int) -> tuple[int, int]:
    """
    Run the program until it has printed some lines, and kill it.

    Returns:
        The number of requests that it printed, and the number in its recording.
    """
    environment = {
        **os.environ,
        "OPENAI_BASE_URL": base_url,
        "LATSPAN_RECORD_DIR": str(folder),
        "LATSPAN_RECORD_RATE_LIMIT": "all",
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_METRICS_EXPORTER": "none",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "latspan", "run", "--", sys.executable, "-c", PROGRAM],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = sum(1 for _ in zip(range(lines), process.stdout, strict=False))
        process.send_signal(signal.SIGKILL)
        printed += len(process.stdout.readlines())
    recording = latspan.open_recording(folder)
    held = sum(1 for _ in recording.records("request"))
    (note,) = recording.notes
    assert note.startswith("The last requests of 1 process may be missing")
    return printed, held


@pytest.mark.parametrize(
    "damage", ["rm -rf monday", "echo x > monday/recording.json", "mkdir monday/requests-1-a.jsonl"]
)
def test_a_program_that_damages_its_recording_keeps_its_exit_code(
    tmp_path: Path, damage: str
) -> None:
    """The message states what cannot be read."""
    command = (sys.executable, "-m", "latspan", "run", "--record", "monday", "--report", "--")
    done = subprocess.run(
        (*command, "sh", "-c", f"{damage}; exit 7"), cwd=tmp_path, capture_output=True, text=True
    )

    assert done.returncode == 7
    assert "Traceback" not in done.stderr
    assert "monday" in done.stderr


def test_a_program_that_cannot_be_executed_leaves_no_recording(tmp_path: Path) -> None:
    """The command can be repeated when the program is mended."""
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    (tmp_path / "empty").mkdir()
    for folder in ("monday", "empty"):
        command = (sys.executable, "-m", "latspan", "run", "--record", folder, "--", "./program")
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

        assert done.returncode == 126
        assert "cannot be run" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "program"]
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_program_that_uses_a_recording_is_told_where_it_is(tmp_path: Path) -> None:
    """On stderr, with the next command; its own output and exit code are unchanged."""
    folder = tmp_path / "recording"
    command = (sys.executable, "-m", "latspan", "run", "--record", str(folder), "--")
    done = subprocess.run(
        (*command, sys.executable, "-c", "print('mine'); raise SystemExit(7)"),
        capture_output=True,
        text=True,
    )
    again = subprocess.run((*command, "true"), capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (7, "mine\n")
    assert f"recorded in {folder}" in done.stderr
    assert f"hint: latspan report {folder}" in done.stderr
    assert (again.returncode, again.stdout) == (4, "")
    assert "already holds a recording" in again.stderr
