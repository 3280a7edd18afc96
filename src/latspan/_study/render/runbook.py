"""
Pages that accompany a write-up: the runbook, a guide of one page, and the text of a pull request.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import date

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._model.units import milliseconds
from latspan._study.loop import Loop
from latspan._study.render.markdown import escaped
from latspan._study.render.marker import marked
from latspan._study.render.write_up import (
    code,
    comparison_table,
    conclusion,
    plain,
    sentence_of,
)


def runbook_page(loop: Loop, today: date) -> str:
    """Return the runbook: commands, where to look, decision rules, and the rollback."""
    return marked(loop.file.stem, _runbook(loop, today))


def guide_page(loop: Loop, today: date) -> str:
    """Return the guide, for a person who meets the inference path for the first time."""
    return marked(loop.file.stem, _guide(loop, today))


def pull_request_page(loop: Loop) -> str:
    """Return the description of the change for a pull request."""
    return marked(loop.file.stem, _pull_request(loop))


def _runbook(loop: Loop, today: date) -> Iterator[str]:
    path, name = loop.path, loop.name
    yield from (f"# Runbook of {escaped(path.name)}", "", f"Written on {today}.", "")
    for target in path.targets:
        yield f"- target: {escaped(target.label)}; owner: {plain(target.owner)}"
    yield from ("", "## Commands", "", "| to | command |", "|---|---|")
    yield f"| see where it stands | {code('latspan status')} |"
    yield f"| measure | {code(f'latspan measure {name}')} |"
    sweep = f"latspan sweep --path {shlex.quote(loop.file.stem)}"
    yield f"| see whether it has drifted | {code(sweep)} |"
    yield f"| find the delay to fix | {code(f'latspan diagnose {name}')} |"
    pinned = _pinned(loop)
    if pinned:
        yield (
            f"| compare with the verified state | {code(f'latspan compare {pinned} RECORDING')},"
            " where RECORDING is the folder that the measurement printed |"
        )
    yield f"| see single requests | {code('latspan report RECORDING')} |"
    yield f"| verify a change | {code(f'latspan verify {name}')} |"
    if path.quality.command:
        yield f"| check the quality of the answers | {code(path.quality.command)} |"
    yield f"| write this page again | {code(f'latspan document {name}')} |"
    yield from ("", "## Where to look", "")
    yield f"- results of every task: {code(f'results/{loop.file.stem}')}"
    for result in (loop.baseline, loop.verification):
        if result is not None:
            yield f"- recordings of {result.day}: {', '.join(map(code, result.recordings))}"
    yield (
        f"- traces and metrics of production: the attribute"
        f" {code(f'{semconv.LATSPAN_INFERENCE_PATH}={path.name}')}"
    )
    yield from ("", "## Decision rules", "", "| if | then |", "|---|---|")
    yield from _rules(loop)
    yield from ("", "## Roll back", "")
    yield from _rollback(loop)
    if path.risks:
        yield from ("", "## Open risks", "")
        for risk in path.risks:
            due = "no date" if risk.due is None else f"decision by {risk.due}"
            yield f"- {plain(risk.text)}; {plain(risk.owner)}; {due}"


def _pinned(loop: Loop) -> str:
    """Return the folder of the runs with which later measurements are compared."""
    if loop.verification is None:
        return "" if loop.latest is None else loop.latest.recordings[0]
    before, after = loop.verification.recordings
    return after if loop.verification.exit_code == 0 else before


def _rules(loop: Loop) -> Iterator[str]:
    path, name = loop.path, loop.name
    measure = code("latspan measure")
    yield f"| {measure} exits with 0 | the targets are met: nothing to do |"
    yield (
        f"| {measure} exits with 1 | a target is missed: {code(f'latspan diagnose {name}')}, then"
        " one change |"
    )
    for target in path.targets:
        if target.tolerated_ns is not None:
            yield (
                f"| p{target.percentile:g} of {escaped(target.metric)} exceeds"
                f" {milliseconds(target.tolerated_ns)} | it is no longer tolerated: roll the last"
                " change back first |"
            )
    yield f"| {measure} exits with 3 | too few requests: repeat with {code('--requests')} |"
    yield f"| {measure} exits with 4 | the measurement is invalid: repeat it on a quiet machine |"
    yield (
        f"| {code('latspan sweep')} exits with 1 | a target is missed, or it became slower:"
        " measure, then diagnose |"
    )
    yield (
        f"| {code('latspan compare')} exits with 1 after a release | it became worse: roll back,"
        " then diagnose |"
    )
    if path.never_ship:
        yield f"| a user gets: {plain(path.never_ship)} | roll back at once, however fast it is |"
    yield "| the model, the prompt template or the load is to change | measure again before that |"


def _rollback(loop: Loop) -> Iterator[str]:
    change = loop.path.change
    if change.flag:
        yield f"- flag of the rollout: {plain(change.flag)}"
        yield ""
    for number, step in enumerate(change.rollback, 1):
        yield f"{number}. {plain(step)}"
    if change.undo and not change.rollback:
        yield f"1. {code(change.undo)}"
    if not (change.rollback or change.undo):
        yield (
            f"_Missing:_ fill in {code('rollback')} under {code('[change]')} in"
            f" {code(loop.file.name)}."
        )


def _guide(loop: Loop, today: date) -> Iterator[str]:
    path = loop.path
    yield from (f"# {escaped(path.name)} on one page", "")
    yield f"As of {today}: {escaped(conclusion(loop))}."
    yield ""
    for target in path.targets:
        yield (
            f"- **How fast it must be**: {escaped(target.label)}, for {plain(target.use_case)},"
            f" under {plain(target.load)}. Source: {plain(target.source)}. Owner:"
            f" {plain(target.owner)}."
        )
    yield f"- **Whatever the speed**: {plain(path.never_ship)} must never reach a user."
    cause = sentence_of(loop.diagnosis) or "nothing was diagnosed."
    yield f"- **What made it slow**: {cause}"
    verification = loop.verification
    if verification is not None:
        levers = ", ".join(each["name"] for each in verification.document["levers"])
        yield f"- **What was changed**: {escaped(levers)}; {plain(path.change.description)}"
        yield f"- **What that gave**: {_goal(loop)} {sentence_of(verification)}"
    measure = code(f"latspan measure {loop.name}")
    yield f"- **How to see it**: {code('latspan status')}, then {measure}"
    yield "- **What to do if it is slow**: the decision rules of [the runbook](runbook.md)"
    yield "- **Why it was decided so**: the decision record of [the write-up](write-up.md)"


def _goal(loop: Loop) -> str:
    """Return the change of the goal in words; empty if it has no value."""
    assert loop.verification is not None  # noqa: S101 - the caller has one
    goal = loop.verification.document["comparison"]["rows"][0]
    if goal["before_s"] is None or goal["after_s"] is None:
        return ""
    before, after = (milliseconds(goal[each] * NS_PER_S) for each in ("before_s", "after_s"))
    return f"p{goal['percentile']:g} {code(goal['metric'])} from {before} to {after}."


def _pull_request(loop: Loop) -> Iterator[str]:
    path, verification = loop.path, loop.verification
    if verification is None:
        yield f"## {escaped(path.name)}: {escaped(conclusion(loop))}"
        return
    document = verification.document
    levers = ", ".join(each["name"] for each in document["levers"])
    yield f"## {escaped(path.name)}, {escaped(levers)}: {escaped(conclusion(loop))}"
    yield from ("", plain(path.change.description), "", f"**{sentence_of(verification)}**", "")
    yield from comparison_table(document["comparison"])
    yield ""
    yield f"- cause: {sentence_of(loop.diagnosis) or '_not diagnosed_'}"
    yield f"- may be traded for speed: {plain(', '.join(path.may_give_up))}"
    yield f"- flag of the rollout: {plain(path.change.flag)}"
    yield f"- rollback: {plain('; '.join(path.change.rollback) or path.change.undo)}"
    yield f"- to repeat: {code(verification.repeated())} (measured on {verification.day})"
