"""Locust in several processes: the recording has the requests that Locust counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Script, ScriptedServer

pytest.importorskip("locust", reason="locust is not installed")

LOCUSTFILE: Final = """
import os

import openai
from locust import constant, task
from latspan_locust import LatspanUser


class Reader(LatspanUser):
    wait_time = constant(0)

    def on_start(self):
        self.client = openai.OpenAI(base_url=os.environ["URL"], api_key="none", max_retries=0)

    @task(3)
    def ask(self):
        with self.request("ask") as request:
            request.set_attribute("user", "reader")
            messages = [{"role": "user", "content": "Where did the time go?"}]
            for _ in self.client.chat.completions.create(model="m", messages=messages, stream=True):
                pass

    @task
    def fail(self):
        with self.request("fail"):
            raise ValueError
"""


def run(tmp_path: Path, *options: str) -> list[dict[str, object]]:
    """Run Locust for two seconds, and return the rows of its own tables."""
    file = tmp_path / "locustfile.py"
    file.write_text(LOCUSTFILE)
    with ScriptedServer(Script.chat(tokens=3, prefill_ms=20, gap_ms=1)) as server:
        command = (sys.executable, "-m", "locust", "-f", str(file), "--headless", "--json")
        done = subprocess.run(
            (*command, "-u", "4", "-r", "4", "-t", "2s", "--skip-log", *options),
            env={**os.environ, "URL": server.base_url},
            capture_output=True,
            text=True,
            timeout=120,
        )
    # Tasks that fail make Locust's exit code 1.
    assert done.returncode == 1, done.stderr
    # The worker processes print a table of their own, which is empty.
    return json.loads(done.stdout[done.stdout.rindex("\n[\n") if "\n[\n" in done.stdout else 0 :])


@pytest.mark.parametrize("processes", [1, 2])
def test_each_request_that_locust_counts_is_recorded_once(tmp_path: Path, processes: int) -> None:
    """With its outcome, its call and the attributes of the task, whatever process sent it."""
    folder = tmp_path / "recording"
    options = ("--processes", "2") if processes > 1 else ()
    rows = run(tmp_path, "--latspan-record", str(folder), *options)
    counted = {row["name"]: (row["num_requests"], row["num_failures"]) for row in rows}
    recording = latspan.open_recording(folder)
    records = [each for each in recording.records() if each.outcome is not Outcome.CANCELLED]
    asked = [each for each in records if each.kind is Kind.REQUEST and each.name == "ask"]
    by_parent = Counter(each.parent_id for each in records if each.kind is Kind.CALL)
    failed = [each for each in records if each.kind is Kind.REQUEST and each.name == "fail"]

    assert counted["ask"] == (len(asked), 0)
    assert counted["fail"] == (len(failed), len(failed))
    assert {each.outcome for each in failed} == {Outcome.ERROR}
    assert {each.details["user"] for each in asked} == {"reader"}
    assert by_parent == {each.scope_id: 1 for each in asked}
    assert recording.notes == (("Merged from 2 processes.",) if processes > 1 else ())


def test_without_a_folder_nothing_is_recorded(tmp_path: Path) -> None:
    """A locustfile runs as before."""
    before = set(tmp_path.iterdir())
    rows = run(tmp_path)

    assert {row["name"] for row in rows} == {"ask", "fail"}
    assert {path.name for path in set(tmp_path.iterdir()) - before} <= {
        "locustfile.py",
        "__pycache__",
    }
