"""
``latspan verify`` runs the user's check of the quality on both sides of a real change.

The change is another model at a scripted server, whose first token comes ten times sooner. Its
commands switch the server, and the check asks the server the questions of an evaluation set.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from latspan._model.goals import Arrivals, Change, QualityCheck, TrafficProfile, toml_of
from latspan.testing import PayloadPart, Script, ScriptedServer
from support.loops import chat
from support.measuring import skip_if_disturbed
from support.schemas import validated
from support.switches import switch, write_switch

_ITEMS: Final = 60
_GAP_MS: Final = 20
"""
Long compared with the jitter of a machine: the time per token of an answer with one gap varies more
than that of one with seven, and would be worse at the p95.
"""
_SLOW: Final = Script.chat(tokens=8, queue_ms=1, prefill_ms=150, gap_ms=_GAP_MS)
_FAST: Final = Script.chat(tokens=8, queue_ms=1, prefill_ms=15, gap_ms=_GAP_MS)
_SHORT: Final = Script.chat(tokens=2, queue_ms=1, prefill_ms=15, gap_ms=_GAP_MS)
_REFUSES: Final = replace(
    _FAST,
    steps=tuple(
        replace(step, piece=PayloadPart.REFUSAL) if step.piece is PayloadPart.TEXT else step
        for step in _FAST.steps
    ),
)

_ANSWER: Final = """
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen


def answered(line):
    item = json.loads(line)
    body = {{"model": "m", "messages": [{{"role": "user", "content": item["id"]}}]}}
    request = Request(
        "{url}/chat/completions",
        json.dumps(body).encode(),
        {{"content-type": "application/json"}},
    )
    message = json.load(urlopen(request))["choices"][0]["message"]
    return json.dumps({{"id": item["id"], "answer": message["content"] or ""}}) + "\\n"


with ThreadPoolExecutor(8) as pool, open(sys.argv[1], "w") as file:
    file.writelines(pool.map(answered, open("items.jsonl")))
"""


def _verified(
    folder: Path, fast: Script, command: str, *, expected: str = ""
) -> tuple[int, dict[str, Any], str]:
    """Return exit code, document and messages of the verification of a faster model."""
    quality = QualityCheck(command=command, items="items.jsonl" if expected else "")
    rows = [{"id": str(each), "scorer": "contains", "expected": expected} for each in range(_ITEMS)]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    states: Mapping[str, Script] = {"slow": _SLOW, "fast": fast}
    with ScriptedServer(_SLOW, slots=8) as server, switch(server, states) as port:
        write_switch(folder, port)
        (folder / "answer.py").write_text(_ANSWER.format(url=server.base_url), "utf-8")
        path = chat(
            endpoint=server.base_url,
            model="small",
            traffic=TrafficProfile(arrivals=Arrivals.CLOSED, concurrency=5, requests=25),
            quality=quality,
            change=Change(
                lever="model",
                apply=f"{sys.executable} switch.py fast",
                undo=f"{sys.executable} switch.py slow",
                runs=3,
            ),
        )
        (folder / "chat.toml").write_text(toml_of(path), "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "latspan", "verify", "chat", "--goal", "p50 ttft", "--json"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
    found: dict[str, Any] = validated(json.loads(done.stdout)) if done.stdout else {}
    skip_if_disturbed(found, done.stderr)
    return done.returncode, found, done.stderr


def _text() -> str:
    """Return the text of a complete answer."""
    return "".join(step.text for step in _SLOW.steps if step.piece is PayloadPart.TEXT)


@pytest.mark.alone
def test_refusals_are_fast_and_fail(tmp_path: Path) -> None:
    """As long as the answers before, ten times faster, and worse."""
    command = f"{sys.executable} answer.py {{answers}}"
    code, found, errors = _verified(tmp_path, _REFUSES, command, expected=_text())
    assert found["comparison"]["judgement"] == "improved"
    assert found["comparison"]["differences"] == []
    assert (code, found["judgement"]) == (1, "worse")
    quality = found["quality"]
    assert (quality["method"], quality["judgement"]) == ("items", "dropped")
    assert (quality["before"], quality["after"], len(quality["worse"])) == (1, 0, _ITEMS)
    # Each side is checked once, before its first run. A disturbed run is repeated.
    shown = [line.partition(":")[0] for line in errors.splitlines()]
    assert [shown.count(f"quality {side}") for side in ("before", "after")] == [1, 1]
    order = ["run 1 of 6", "quality before", "run 2 of 6", "quality after", "run 3 of 6"]
    assert sorted(order, key=shown.index) == order


@pytest.mark.alone
def test_answers_as_good_as_before_pass(tmp_path: Path) -> None:
    """The exit code is the result if there is no evaluation set."""
    check = f"{sys.executable} -c 'raise SystemExit(0)'"
    code, found, _ = _verified(tmp_path, _FAST, check)
    assert (code, found["judgement"]) == (0, "improved"), found["sentence"]
    assert (found["quality"]["method"], found["quality"]["judgement"]) == ("command", "kept")
    assert "The answers were not compared" not in " ".join(found["notes"])


@pytest.mark.alone
def test_shorter_answers_are_flagged(tmp_path: Path) -> None:
    """They still pass this check, but a part of the gain is less output."""
    command = f"{sys.executable} answer.py {{answers}}"
    code, found, _ = _verified(tmp_path, _SHORT, command, expected=_text()[:3])
    assert code == 0, found["sentence"]
    assert found["quality"]["judgement"] == "kept"
    notes = " ".join(found["notes"])
    assert "length of the answers differs, 8.0 tokens before and 2.0 tokens after" in notes
    assert "The answers to the evaluation set are" in notes
    assert "shorter" in notes


def test_a_check_that_fails_is_an_error_before_the_load(tmp_path: Path) -> None:
    """It shows nothing about the quality, so nothing is measured."""
    code, found, errors = _verified(tmp_path, _FAST, "sh -c 'echo no key >&2; exit 3'")
    assert (code, found) == (2, {})
    assert "failed before the change with exit code 3: no key" in errors
    assert not list((tmp_path / "verifications").rglob("recording.json"))
