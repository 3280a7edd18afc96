"""Locust in several processes: the recording has the requests that Locust counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Script, ScriptedServer

# Importing Locust would replace the threads of this process by greenlets.
pytestmark = pytest.mark.skipif(find_spec("locust") is None, reason="locust is not installed")

LOCUSTFILE: Final = """
import json
import os

import gevent
import openai
from latspan_instrumentation.locust import LatspanUser
from locust import constant, events, task
from locust.runners import WorkerRunner


@events.init.add_listener
def quit_when_enough_is_counted(environment, **_):
    ends = []

    def look(**_):
        stats = environment.stats
        names = {name for name, _ in stats.entries}
        if names == {"ask", "fail"} and stats.total.num_requests >= 40 and not ends:
            ends.append(gevent.spawn(environment.runner.quit))

    def write_table(**_):
        with open(os.environ["TABLE"], "w", encoding="utf-8") as table:
            json.dump(environment.stats.serialize_stats(), table)

    # A worker process has the requests that it has not reported to the master yet.
    if not isinstance(environment.runner, WorkerRunner):
        environment.events.quit.add_listener(write_table)
        environment.events.request.add_listener(look)
        environment.events.worker_report.add_listener(look)


class Reader(LatspanUser):
    wait_time = constant(0.01)

    def on_start(self):
        self.client = openai.OpenAI(base_url=os.environ["URL"], api_key="none", max_retries=0)
        self.turns = 0

    @task
    def turn(self):
        self.turns += 1
        self.fail() if self.turns % 4 == 1 else self.ask()

    def ask(self):
        with self.request("ask") as request:
            request.set_attribute("user", "reader")
            messages = [{"role": "user", "content": "Where did the time go?"}]
            for _ in self.client.chat.completions.create(model="m", messages=messages, stream=True):
                pass

    def fail(self):
        with self.request("fail"):
            raise ValueError
"""


def run(tmp_path: Path, *options: str) -> tuple[list[dict[str, Any]], int]:
    """Run Locust for 40 requests; return the rows of the master's table, and the served chats."""
    file, table = tmp_path / "locustfile.py", tmp_path / "table.json"
    file.write_text(LOCUSTFILE)
    with ScriptedServer(Script.chat(tokens=3, prefill_ms=20, gap_ms=1)) as server:
        command = (sys.executable, "-m", "locust", "-f", str(file), "--headless", "--only-summary")
        done = subprocess.run(
            (*command, "-u", "4", "-r", "4", "-t", "90s", "--skip-log", *options),
            env={**os.environ, "URL": server.base_url, "TABLE": str(table)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        served = len(server.served_requests())
    # Tasks that fail make Locust's exit code 1.
    assert done.returncode == 1, done.stderr
    return json.loads(table.read_text("utf-8")), served


@pytest.mark.parametrize("processes", [1, 2])
def test_each_request_is_recorded_once(tmp_path: Path, processes: int) -> None:
    """
    With its outcome, its call and the attributes of the task, whatever process sent it.

    The master of several processes may count fewer: their last reports arrive after its end.
    """
    folder = tmp_path / "recording"
    options = ("--processes", "2") if processes > 1 else ()
    rows, served = run(tmp_path, "--latspan-record", str(folder), *options)
    counted = {row["name"]: (row["num_requests"], row["num_failures"]) for row in rows}
    recording = latspan.open_recording(folder)
    records = [each for each in recording.records() if each.outcome is not Outcome.CANCELLED]
    asked = [each for each in records if each.kind is Kind.REQUEST and each.name == "ask"]
    by_parent = Counter(each.parent_id for each in records if each.kind is Kind.CALL)
    failed = [each for each in records if each.kind is Kind.REQUEST and each.name == "fail"]

    calls = Counter(each.outcome for each in recording.records(Kind.CALL))
    # A request that Locust interrupts at its end may or may not have reached the server.
    assert calls[Outcome.COMPLETED] <= served <= calls.total()
    assert counted["ask"][1] == 0
    if processes == 1:
        assert counted["ask"][0] == len(asked)
        assert counted["fail"] == (len(failed), len(failed))
    assert {each.outcome for each in failed} == {Outcome.ERROR}
    assert {each.details["user"] for each in asked} == {"reader"}
    assert by_parent == {each.scope_id: 1 for each in asked}
    assert recording.notes == (("Merged from 2 processes.",) if processes > 1 else ())


def test_without_a_folder_nothing_is_recorded(tmp_path: Path) -> None:
    """A locustfile runs as before."""
    before = set(tmp_path.iterdir())
    rows, _ = run(tmp_path)

    assert {row["name"] for row in rows} == {"ask", "fail"}
    assert {path.name for path in set(tmp_path.iterdir()) - before} <= {
        "locustfile.py",
        "table.json",
        "__pycache__",
    }


INTERRUPTED: Final = """
import os

import gevent
import openai
from latspan_instrumentation.locust import LatspanUser
from locust import constant, events, task

waiting = []


@events.test_start.add_listener
def interrupt_users_that_wait(environment, **_):
    def end():
        while len(waiting) < 4:
            gevent.sleep(0.005)
        if os.environ["END"] == "stop":
            environment.runner.stop()
        environment.runner.quit()

    gevent.spawn(end)


class Reader(LatspanUser):
    wait_time = constant(0)

    @task
    def turn(self):
        client = openai.OpenAI(base_url=os.environ["URL"], api_key="none", max_retries=0)
        messages = [{"role": "user", "content": "Where did the time go?"}]
        for script in ("whole", "waits"):
            with self.request(script):
                chunks = client.chat.completions.create(
                    model="m", messages=messages, stream=True,
                    extra_headers={"x-latspan-script": script},
                )
                for number, _ in enumerate(chunks):
                    if (script, number) == ("waits", 1):
                        waiting.append(self)
"""


@pytest.mark.parametrize("end", ["quit", "stop"])
def test_a_user_that_locust_interrupts_has_a_cancelled_request(tmp_path: Path, end: str) -> None:
    """After the time that it waited, with what it had received; Locust's tables do not count it."""
    folder = tmp_path / "recording"
    file = tmp_path / "locustfile.py"
    file.write_text(INTERRUPTED)
    scripts = {
        "whole": Script.chat(tokens=3, prefill_ms=5, gap_ms=1),
        "waits": Script.chat(tokens=3, prefill_ms=5, gap_ms=1, stalls_ms={2: 100_000}),
    }
    with ScriptedServer(named=scripts) as server:
        command = (sys.executable, "-m", "locust", "-f", str(file), "--headless", "--json")
        done = subprocess.run(
            (*command, "-u", "4", "-r", "4", "-t", "90s", "--skip-log", "--latspan-record", folder),
            env={**os.environ, "URL": server.base_url, "END": end},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    counted = {row["name"]: (row["num_requests"], row["num_failures"])
               for row in json.loads(done.stdout)}  # fmt: skip
    records = list(latspan.open_recording(folder).records())

    assert Counter((str(each.kind), str(each.outcome)) for each in records) == {
        ("call", "completed"): 4,
        ("request", "completed"): 4,
        ("call", "cancelled"): 4,
        ("request", "cancelled"): 4,
    }
    assert counted == {"whole": (4, 0)}
    for record in records:
        if record.outcome is Outcome.CANCELLED and record.kind is Kind.CALL:
            first = record.metrics["time_to_first_token"].value
            assert 0 < first < record.duration_ns
            assert record.segments[-1].end_ns == record.duration_ns
