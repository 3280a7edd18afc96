"""Processes that add runs to one baseline at the same time lose none, even if one is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from behaviour.programs.adds_runs_to_a_baseline import PROCESSES, RUNS
from latspan._study.compare import Run, runs_in
from support.programs import PROGRAMS, run_program

NAME = "adds_runs_to_a_baseline"


def seconds(runs: Iterable[Run]) -> list[int]:
    """Return the duration of the only call of each run, in whole seconds."""
    return sorted(round(float(run.samples["duration"].values[0]) / 1e9) for run in runs)


def test_every_run_of_every_process_is_in_the_file(tmp_path: Path) -> None:
    """Eight processes add five runs each; nothing else is left in the folder."""
    file = tmp_path / "answer.json"

    run_program(NAME, str(file))

    assert seconds(runs_in(file)) == [*range(1, PROCESSES * RUNS + 1), 1_000]
    assert list(tmp_path.iterdir()) == [file]


def test_a_symbolic_link_is_kept(tmp_path: Path) -> None:
    """The file that it points to has the runs."""
    (tmp_path / "real").mkdir()
    link = tmp_path / "answer.json"
    link.symlink_to(tmp_path / "real" / "answer.json")

    run_program(NAME, str(link))

    assert link.is_symlink()
    assert len(runs_in(tmp_path / "real" / "answer.json")) == PROCESSES * RUNS + 1


def test_a_killed_process_leaves_a_whole_file_and_no_lock(tmp_path: Path) -> None:
    """Every run that it had added is there, and others can add theirs."""
    file = tmp_path / "answer.json"
    with subprocess.Popen([sys.executable, str(PROGRAMS / f"{NAME}.py"), str(file), "endless"]) as (
        process
    ):
        while not file.exists() or len(runs_in(file)) < 3:
            if process.poll() is not None:
                pytest.fail("the program ended")
        process.send_signal(signal.SIGKILL)
    before = len(runs_in(file))

    run_program(NAME, str(file))

    assert len(runs_in(file)) == before + PROCESSES * RUNS + 1
