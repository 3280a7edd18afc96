"""``latspan sweep`` measures the paths of a folder twice; in between, one server became slower."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple

import pytest

from latspan._model.goals import Arrivals, PromptTemplate, TrafficProfile, toml_of
from latspan.testing import Script, ScriptedServer
from support.loops import chat
from support.schemas import validated
from support.stillness import when_still

# The gaps are long compared with what five users at once cost this machine.
_FAST: Final = Script.chat(tokens=4, queue_ms=1, prefill_ms=60, gap_ms=20)
_SLOW: Final = Script.chat(tokens=4, queue_ms=1, prefill_ms=150, gap_ms=20)
_LOAD: Final = TrafficProfile(arrivals=Arrivals.CLOSED, concurrency=5, requests=30)
_EXIT_CODES: Final = {"no_drift": 0, "drift": 1, "inconclusive": 3}
_COMMAND: Final = (sys.executable, "-m", "latspan", "sweep", "--runs", "2")


def _path(folder: Path, name: str, url: str) -> None:
    (folder / f"{name}.txt").write_text("Be brief.", "utf-8")
    prompt = PromptTemplate(template=f"{name}.txt")
    path = replace(chat(endpoint=url, model="small", traffic=_LOAD, prompt=prompt), name=name)
    (folder / f"{name}.toml").write_text(toml_of(path), "utf-8")


def _sweep(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the document of a sweep."""
    done = subprocess.run(
        [*_COMMAND, *arguments, "--json"], cwd=folder, capture_output=True, text=True
    )
    document = validated(json.loads(done.stdout))
    # Other programs on the machine make a measurement invalid, or vary it.
    if any(each["invalid_runs"] for each in document["paths"]):
        pytest.skip("other programs disturbed the load generator")
    return done.returncode, document


def _by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in document["paths"]}


class _Swept(NamedTuple):
    """A folder of paths, and the exit code and document of each of its sweeps."""

    folder: Path
    answers: list[tuple[int, dict[str, Any]]]


def _sweep_thrice(folder: Path) -> _Swept:
    """Sweep two paths; pin the results; sweep again with one slower, and then only what changed."""
    with ScriptedServer(_FAST, slots=8) as calm, ScriptedServer(_FAST, slots=8) as search:
        _path(folder, "chat", calm.base_url)
        _path(folder, "search", search.base_url)
        answers = [_sweep(folder)]
        pinned = [*_COMMAND[:4], "--pin"]
        assert subprocess.run(pinned, cwd=folder, capture_output=True).returncode == 0
        search.use(_SLOW)
        (folder / "search.txt").write_text("Be thorough.", "utf-8")
        answers.append(_sweep(folder))
        (folder / "search.txt").write_text("Be exact.", "utf-8")
        answers.append(_sweep(folder, "--only-changed"))
    return _Swept(folder, answers)


@pytest.mark.undisturbed
def test_the_path_whose_server_became_slower_drifted(tmp_path: Path) -> None:
    """Against the baseline and the previous sweep, with the segment that explains it."""
    swept = when_still(lambda: _sweep_thrice(Path(mkdtemp(dir=tmp_path))))
    (code, first), (later_code, second), (_, third) = swept.answers
    assert (code, {each["finding"] for each in first["paths"]}) == (0, {"no_drift"})
    assert later_code == 1
    paths = _by_name(second)
    # Two runs of a busy machine may differ too much for a conclusion.
    assert paths["chat"]["baseline"]["judgement"] != "worse"
    found = paths["search"]
    assert (found["finding"], found["targets"][0]["verdict"]) == ("drift", "met")
    for reference in ("baseline", "previous"):
        against = found[reference]
        assert against["judgement"] == "worse"
        assert against["comparison"]["explanation"]["leading"] == "prefill"
        assert [each["name"] for each in against["inputs_changed"]] == ["template"]
    # Only its template changed since the last sweep.
    assert list(_by_name(third)) == ["search"]
    for name in ("chat", "search"):
        results = sorted((swept.folder / "results" / name).iterdir())
        kept = validated(json.loads(results[1].read_text("utf-8")))
        assert kept["command"] == "sweep --runs 2 --json"
        assert kept["exit_code"] == _EXIT_CODES[paths[name]["finding"]]


@pytest.mark.alone
def test_an_interrupted_sweep_keeps_what_was_measured(tmp_path: Path) -> None:
    """The path whose run had ended has a result; the other one has none."""
    with ScriptedServer(_FAST, slots=8) as server:
        for name in ("chat", "search"):
            _path(tmp_path, name, server.base_url)
        with subprocess.Popen(
            [*_COMMAND, "--json"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            assert running.stderr is not None
            for line in running.stderr:
                if line.startswith("run 2 of 4: search"):
                    running.send_signal(signal.SIGINT)
                    break
            out, errors = running.communicate()
    assert running.returncode == 130
    document = json.loads(out)
    assert (document["interrupted"], list(_by_name(document))) == (True, ["chat"])
    assert errors.splitlines()[-1] == "interrupted"
    assert [each.name for each in (tmp_path / "results").iterdir()] == ["chat"]
