"""Jobs of the bench: answers do not depend on how the work is divided."""

from __future__ import annotations

from pathlib import Path

import pytest

from verdicts import _judge
from verdicts._generator import Requests, System
from verdicts._judge import Job, judged
from verdicts._scenarios import CELLS, PAIRS, POWER
from verdicts.adapter import ERROR, JUDGEMENTS, VERDICTS


def test_names_of_scenarios_are_unique() -> None:
    """A name selects one scenario, and each states what is right."""
    names = [each.name for each in (*PAIRS, *POWER, *CELLS)]

    assert len({*names}) == len(names)
    assert all(each.expected and each.false for each in PAIRS)


def test_answers_do_not_depend_on_the_division_into_jobs() -> None:
    """Two jobs give the answers of one job with the same recordings."""
    whole = judged(Job("p95_complete", 5, 0, 22))
    parts = [judged(Job("p95_complete", 5, *each)) for each in ((0, 9), (9, 22))]

    assert whole.answers == parts[0].answers + parts[1].answers
    assert whole.answers.total() == 22 + 2 * 2


@pytest.mark.parametrize("name", ["slower_equal_runs", "drift_one_side_first", "other_tail"])
def test_a_pair_has_one_known_answer(name: str) -> None:
    """``latspan compare`` answers each pair with a documented word."""
    answers = judged(Job(name, 1, 0, 2)).answers

    assert answers.total() == 2
    assert {answer for _, answer in answers} <= {*JUDGEMENTS}


def test_a_target_has_a_known_answer_of_each_command() -> None:
    """The commands and the assertion answer with a documented word."""
    answers = judged(Job("p99_failures", 1, 0, 1)).answers

    assert {command for command, _ in answers} == {"assert_target", "diagnose", "scorecard"}
    assert {answer for _, answer in answers} <= {*VERDICTS}


def test_runs_in_turn_alternate_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of both sides alternate, unless one side is measured first."""
    written: dict[str, list[tuple[int, str]]] = {}

    def note(folder: Path, _system: System, requests: Requests, _rng: object) -> None:
        written.setdefault(current, []).append((int(requests.start_ns[0]), folder.parent.name))

    monkeypatch.setattr(_judge, "_write", note)

    def refuse(_before: Path, _after: Path) -> str:
        return ERROR

    monkeypatch.setattr(_judge.adapter, "compare_sides", refuse)
    for current in ("drift_in_turn", "drift_one_side_first"):
        judged(Job(current, 1, 0, 1))

    in_turn = [side for _, side in sorted(written["drift_in_turn"])]
    assert in_turn == ["before", "after"] * 5
    assert [side for _, side in sorted(written["drift_one_side_first"])] == sorted(
        in_turn, reverse=True
    )
