"""Order of the runs of a verification, and what stops it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from latspan._study.loop import Order, Plan, measure_both, sides_in_order
from latspan.errors import ConfigError, MeasurementError, RecordingError


def test_runs_alternate_so_that_slow_changes_affect_both_sides() -> None:
    """A B B A A B: the mean position of both sides is as equal as it can be."""
    letters = "".join(side[0] for side in sides_in_order(5, Order.ABBA))
    assert letters == "baabbaabba"
    assert letters.count("b") == 5


def test_a_slow_deployment_is_made_and_undone_once() -> None:
    """Half of the runs before are measured after the change was undone."""
    letters = "".join(side[0] for side in sides_in_order(5, Order.ABA))
    assert letters == "bbb" + "aaaaa" + "bb"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("sh -c 'echo no such slot >&2; exit 3'", "failed with exit code 3: no such slot"),
        ("echo no such slot | cat >&2; false", "failed with exit code 1: no such slot"),
        ("no-such-command-here", "failed with exit code 127: .*no-such-command-here"),
        ("sh -c 'unclosed", "failed with exit code 2: .*[Uu]nterminated"),
        ("true " + "x" * 200_000, "cannot run"),
    ],
)
def test_a_command_that_does_not_switch_stops_the_verification(
    tmp_path: Path, command: str, reason: str
) -> None:
    """Before a request was sent."""
    plan = Plan(what="app:f", folder=tmp_path, runs=2, before_command=command, after_command="true")
    with pytest.raises(ConfigError, match=reason):
        measure_both(plan, lambda _: None)


def test_recordings_are_never_mixed_with_earlier_ones(tmp_path: Path) -> None:
    """They would be other conditions."""
    (tmp_path / "after").mkdir()
    (tmp_path / "after" / "run-1").mkdir()
    with pytest.raises(ConfigError, match="after is not empty"):
        measure_both(Plan(what="app:f", folder=tmp_path, runs=2), lambda _: None)


def test_a_measurement_that_cannot_begin_stops_the_verification(tmp_path: Path) -> None:
    """With its own error."""
    lines: list[str] = []
    with pytest.raises(MeasurementError, match="no_such_module"):
        measure_both(Plan(what="no_such_module:f", folder=tmp_path, runs=2), lines.append)
    assert lines == ["run 1 of 4: before"]


_MEASURE = """#!{python}
import sys
from pathlib import Path

print("2 requests/s: 10 to warm up, 1,000 requests to measure", file=sys.stderr)
print("  warmup: 0 of 1,000 measured; 3 in flight", file=sys.stderr)
print("  measured: 40 of 1,000 measured; 3 in flight; 9 s left", file=sys.stderr)
print("  File of a function, line 1: 40 measured;", file=sys.stderr)
Path(sys.argv[sys.argv.index("--output") + 1]).mkdir(parents=True)
"""


@pytest.mark.parametrize("shows", [True, False])
def test_a_run_reports_how_much_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shows: bool
) -> None:
    """The lines of ``latspan measure``, and nothing else that it or the function prints."""
    program = tmp_path / "measure"
    program.write_text(_MEASURE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    lines: list[str] = []
    plan = Plan(what="app:f", folder=tmp_path / "v", runs=1)
    measure_both(plan, lines.append, shows_progress=shows)
    runs = ["run 1 of 2: before", "run 2 of 2: after"]
    assert [line for line in lines if line.startswith(runs[0])] == [
        runs[0],
        *([f"{runs[0]}, 0 of 1,000 requests", f"{runs[0]}, 40 of 1,000 requests"] * shows),
    ]
    assert len(lines) == (6 if shows else 2)


def test_a_change_that_may_be_in_effect_is_named_with_its_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verification that ends early leaves the system as it is."""
    # A real measurement is invalid if other programs use the processors.
    _scripted(monkeypatch, [True])
    lines: list[str] = []
    plan = Plan(
        what="app:f",
        folder=tmp_path / "runs",
        runs=1,
        before_command="true",
        after_command="sh -c 'exit 3'",
    )
    with pytest.raises(ConfigError, match="exit code 3"):
        measure_both(plan, lines.append)
    assert lines[-1] == "the change may still be in effect; this takes it back: true"


def test_the_reason_of_a_measurement_that_fails_is_its_error(tmp_path: Path) -> None:
    """The lines before the error describe the load."""
    with pytest.raises(MeasurementError) as raised:
        measure_both(Plan(what="no_such_module:f", folder=tmp_path, runs=2), lambda _: None)
    assert "failed: error: no module named 'no_such_module'" in str(raised.value)


def _scripted(monkeypatch: pytest.MonkeyPatch, valid: list[bool]) -> None:
    """Have the measurements be valid or not, in this order."""
    answers = iter(valid)

    def measure(what: str, folder: Path, options: object, progress: object) -> bool:
        folder.mkdir(parents=True)
        return next(answers)

    def reason(folder: Path) -> str:
        return "the generator was late"

    module = "latspan._study.loop._interleaved"
    monkeypatch.setattr(f"{module}.measure_run", measure)
    monkeypatch.setattr(f"{module}.reason_of", reason)


def test_an_invalid_run_is_measured_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its turn, so that the order stays; its recording is kept beside the others."""
    _scripted(monkeypatch, [True, False, True, True, True])
    lines: list[str] = []
    sides = measure_both(Plan(what="app:f", folder=tmp_path, runs=2), lines.append)
    assert lines[2] == "run 2 is invalid, and is repeated: the generator was late"
    assert [len(list(side.iterdir())) for side in sides] == [2, 2]
    assert [each.name for each in (tmp_path / "invalid").iterdir()] == ["after-run-1-1"]


def test_a_system_that_is_always_invalid_is_not_measured_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After as many repetitions as a side has runs, there can be no verdict."""
    _scripted(monkeypatch, [False] * 3)
    lines: list[str] = []
    with pytest.raises(RecordingError, match=r"run 1 of 4 .* the generator was late"):
        measure_both(Plan(what="app:f", folder=tmp_path, runs=2), lines.append)
    assert sum("is repeated" in line for line in lines) == 2
    assert len(list((tmp_path / "invalid").iterdir())) == 2


@pytest.mark.parametrize("runs", [2, 3])
def test_the_system_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    """Whichever side the last run was; the command that applies the change is named."""
    state = tmp_path / "state"
    _scripted(monkeypatch, [True] * 2 * runs)
    lines: list[str] = []
    plan = Plan(
        what="app:f",
        folder=tmp_path / "runs",
        runs=runs,
        before_command=f"echo old > {state}",
        after_command=f"echo new > {state}",
    )
    measure_both(plan, lines.append)
    assert state.read_text() == "old\n"
    assert lines[-1].startswith(
        "the system is as it was before the change; this applies the change"
    )
    assert "echo new" in lines[-1]


def test_an_undo_that_fails_leaves_the_change_in_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system is still in the state after the change; output in any encoding is read."""
    _scripted(monkeypatch, [True] * 4)
    lines: list[str] = []
    plan = Plan(
        what="app:f",
        folder=tmp_path / "runs",
        runs=2,
        order=Order.ABA,
        before_command=f"mkdir {tmp_path / 'once'}",
        after_command="printf '\\374'",
    )
    with pytest.raises(ConfigError, match="mkdir"):
        measure_both(plan, lines.append)
    assert lines[-1].startswith("the change may still be in effect; this takes it back: mkdir")


def test_a_change_that_cannot_be_taken_back_loses_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the error."""
    _scripted(monkeypatch, [True] * 2)
    lines: list[str] = []
    once = tmp_path / "once"
    plan = Plan(
        what="app:f",
        folder=tmp_path / "runs",
        runs=1,
        before_command=f"mkdir {once}",
        after_command="true",
    )
    assert measure_both(plan, lines.append)[1].name == "after"
    assert lines[-1].startswith("the change is still in effect: mkdir")
