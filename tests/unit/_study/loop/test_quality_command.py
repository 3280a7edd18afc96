"""The user's check of the quality: what its exit codes and its answers mean."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from latspan._study.loop import Plan, QualityCommand, measure_both
from latspan._study.verify import CommandQuality, Quality, QualityJudgement
from latspan.errors import ConfigError

_SIDES = ("before", "after")


def quality(folder: Path, command: str, *, items: int = 0) -> QualityCommand:
    """Return a check; with items, all have the answer ``yes``."""
    rows = [{"id": str(each), "expected": "yes"} for each in range(items)]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return QualityCommand(
        command=command,
        items=folder / "items.jsonl" if items else None,
        answers={side: folder / "answers" / f"{side}.jsonl" for side in _SIDES},
        margin=0.05,
        report=lambda _: None,
    )


def program(text: str) -> str:
    """Return the command line of a Python program."""
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(text)}"


@pytest.mark.parametrize(
    ("code", "judgement"), [(0, QualityJudgement.KEPT), (1, QualityJudgement.DROPPED)]
)
def test_without_items_the_exit_code_is_the_result(
    tmp_path: Path, code: int, judgement: QualityJudgement
) -> None:
    """0 is good enough and 1 is not, as for every linter."""
    made = quality(tmp_path, f"sh -c 'echo 7 of 9 wrong; test {{side}} = before || exit {code}'")
    for side in _SIDES:
        made.run(side)
    found = made.result()
    assert isinstance(found, CommandQuality)
    assert found.judgement is judgement
    assert ("exit code 1: 7 of 9 wrong" in found.sentence) == (code == 1)


def test_with_items_the_answers_are_compared(tmp_path: Path) -> None:
    """The command writes them to the file of the side; braces that it uses itself stay."""
    text = (
        "import json, sys; side, file = sys.argv[1:];"
        " open(file, 'w').writelines(json.dumps({'id': str(n), 'answer': 'yes' if side == 'before'"
        " or n > 20 else 'no'}) + '\\n' for n in range(80))"
    )
    made = quality(tmp_path, f"{program(text)} {{side}} {{answers}}", items=80)
    for side in _SIDES:
        made.run(side)
    found = made.result()
    assert isinstance(found, Quality)
    assert found.judgement is QualityJudgement.DROPPED
    assert (found.before, len(found.worse)) == (1, 21)


@pytest.mark.parametrize(
    ("command", "items", "side", "reason"),
    [
        ("sh -c 'exit 1'", 0, "before", r"does not pass before the change \(exit code 1\)"),
        ("sh -c 'echo bad key >&2; exit 7'", 0, "after", "failed after the change .* 7: bad key"),
        ("sh -c 'exit 1'", 3, "after", "failed after the change with exit code 1"),
        ("no-such-check", 0, "before", "failed before the change with exit code 127"),
        ("sh -c 'unclosed", 0, "before", "failed before the change with exit code 2"),
        ("true {answers}", 3, "before", "did not write .*before.jsonl"),
        ("sh -c 'echo {} > {answers}'", 3, "before", "not an object with an id"),
        ("sh -c ': > {answers}'", 3, "before", "no answer to 0, and to 2 more"),
    ],
)
def test_a_check_that_shows_nothing_is_an_error(
    tmp_path: Path, command: str, items: int, side: str, reason: str
) -> None:
    """It is never taken for a good or for a bad quality."""
    with pytest.raises(ConfigError, match=reason) as raised:
        quality(tmp_path, command, items=items).run(side)
    assert raised.value.hint


def test_answers_of_an_earlier_check_are_not_taken(tmp_path: Path) -> None:
    """A command that writes nothing leaves the old file, which is of another system."""
    made = quality(tmp_path, "true {answers}", items=1)
    file = made.answers["after"]
    file.parent.mkdir()
    file.write_text('{"id": "0", "answer": "yes"}\n', "utf-8")
    with pytest.raises(ConfigError, match=r"did not write .*after\.jsonl"):
        made.run("after")


@pytest.mark.parametrize(
    ("command", "items", "is_switched", "reason"),
    [
        ("./check", 0, False, "it would check the same on both sides"),
        ("./check", 3, True, "the same file of answers"),
    ],
)
def test_both_sides_must_not_be_the_same(
    tmp_path: Path, command: str, items: int, *, is_switched: bool, reason: str
) -> None:
    """Two equal checks would show a quality that is kept, whatever the change does."""
    plan = Plan(
        what="app:f",
        folder=tmp_path / "runs",
        runs=2,
        after_command="true" if is_switched else "",
        before_command="false",
        quality=quality(tmp_path, command, items=items),
    )
    with pytest.raises(ConfigError, match=reason):
        measure_both(plan, lambda _: None)
    assert not (tmp_path / "runs").exists()


def test_a_check_of_a_side_runs_when_the_side_is_in_effect(tmp_path: Path) -> None:
    """After the command that switches, and before the first run."""
    state = tmp_path / "state"
    plan = Plan(
        what="no_such_module:f",
        folder=tmp_path / "runs",
        runs=2,
        before_command=f"sh -c 'echo before > {state}'",
        after_command="true",
        quality=quality(tmp_path, f"sh -c 'cat {state}; exit 5'"),
    )
    with pytest.raises(ConfigError, match="failed before the change with exit code 5: before"):
        measure_both(plan, lambda _: None)
