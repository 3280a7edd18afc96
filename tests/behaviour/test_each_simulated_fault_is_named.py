"""
Each simulated fault is named from its recording: a small part of ``make bench-diagnose``.

The benchmark runs many strengths, seeds and pairs, and counts. Here, one recording per fault has to
be right.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latspan._model.recording.folder import open_recording
from latspan._study.diagnose import Conclusion, Diagnosis, diagnose, parse_goal
from support.simulation import (
    FAULTS,
    Scenario,
    records_of,
    requests_of,
    scenario_of,
    spread_out,
    write_recording,
)

# Most of the time is that of the simulation, and the unit tests of the rules record coverage.
pytestmark = pytest.mark.repetitive

_SEED = 7
_NEEDS_CALIBRATION = "slow_prefill"


def _diagnosed(folder: Path, scenario: Scenario, goal: str = "p95 duration") -> Diagnosis:
    write_recording(folder, records_of(requests_of(scenario, _SEED), scenario))
    return diagnose(
        open_recording(folder).records(), parse_goal(goal), stable_tokens=scenario.stable or None
    )


@pytest.mark.parametrize("name", [name for name in FAULTS if name != _NEEDS_CALIBRATION])
def test_a_fault_is_named(name: str, tmp_path: Path) -> None:
    """The recording of a fault alone leads to its cause."""
    fault = FAULTS[name]
    diagnosis = _diagnosed(tmp_path, fault.of(1.25), fault.goal)
    if fault.cause == Conclusion.NOT_INSTRUMENTED.value:
        assert diagnosis.conclusion is Conclusion.NOT_INSTRUMENTED
        return
    assert diagnosis.finding is not None
    assert diagnosis.finding.cause == fault.cause
    assert fault.named in diagnosis.sentence


@pytest.mark.parametrize("name", ["under_capacity", "long_context", "reprocessed_prefix"])
def test_no_cause_inside_the_server_is_named_without_evidence(name: str, tmp_path: Path) -> None:
    """Without times of the server, its wait is one segment, even if token counts explain it."""
    fault = FAULTS[name]
    scenario = replace(fault.of(1.25), reported=False)
    diagnosis = _diagnosed(tmp_path, scenario, fault.goal)
    assert diagnosis.finding is not None
    assert not {"queue", "prefill"} & set(diagnosis.finding.segments)
    assert not {"queue", "prefill"} & {share.name for share in diagnosis.shares}


def test_equal_parts_are_spread_out(tmp_path: Path) -> None:
    """No single delay is named if six parts take about as long."""
    diagnosis = _diagnosed(tmp_path, spread_out(scenario_of(), 1.0))
    assert diagnosis.conclusion in (Conclusion.SPREAD_OUT, Conclusion.TIE)
