"""Order of the runs of a verification, and what stops it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from latspan._workflow import Order, Plan, measure_both, sides_in_order
from latspan.errors import ConfigError, MeasurementError


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
        ("no-such-command-here", "cannot run no-such-command-here"),
        ("sh -c 'unclosed", "cannot run"),
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


def test_a_change_that_may_be_in_effect_is_named_with_its_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verification that ends early leaves the system as it is."""
    (tmp_path / "app.py").write_text("def f(prompt):\n    return prompt\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    lines: list[str] = []
    plan = Plan(
        what="app:f",
        folder=tmp_path / "runs",
        runs=1,
        options=("--requests", "1", "--warmup", "0"),
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
