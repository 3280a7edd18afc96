"""Definition of done of an inference path, and the command that leads towards it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from latspan._model.text import listed
from latspan._study.compare import Judgement
from latspan._study.diagnose import Conclusion
from latspan._study.loop._loop import Loop, TaskStatus
from latspan._study.loop._readings import (
    conclusion_of,
    is_attributable,
    is_disturbed,
    is_good,
    judgement_of,
    metrics_without_values,
    needs_quality,
    proves_targets,
    quality_of,
    requests_to_decide,
    runs_to_decide,
    sentence_of,
    sweep_found_drift,
    sweep_text,
    verdict_of,
    why_invalid,
)
from latspan._study.loop._results import Result, Task
from latspan._study.verify import LEVERS, QualityJudgement

_INTAKE: Final = re.compile(r"target\.\w+|never_ship|may_give_up")
_ANSWERS: Final = ("quality.items", "quality.before", "quality.after")
_WATCHED: Final = timedelta(days=30)
"""Time after which a path is measured again, if nothing changes before."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """
    One line of the definition of done.

    Args:
        task: Task that it belongs to.
        text: The criterion.
        is_met: Whether it is met.
        fields: Fields of the file that are still empty, if these are all that is lacking.
    """

    task: Task
    text: str
    is_met: bool
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NextCommand:
    """
    The next thing to do.

    Args:
        command: Command line for a shell in the folder of the file.
        reason: Why, and what to do with it.
    """

    command: str
    reason: str


def missing_fields(loop: Loop) -> tuple[str, ...]:
    """Return the empty fields of the file as a user writes them, for example ``target.owner``."""
    names = (re.sub(r"^targets\[\d+\]", "target", each) for each in loop.path.blanks())
    return tuple(dict.fromkeys(names))


def criteria_of(loop: Loop) -> tuple[Criterion, ...]:
    """Return the definition of done, in the order of the loop."""
    return tuple(_criteria(loop))


def _criteria(loop: Loop) -> Iterator[Criterion]:
    blank = missing_fields(loop)
    intake = tuple(each for each in blank if _INTAKE.fullmatch(each))
    text = "the target has a use case, a load, an owner and a source; trade-offs are stated"
    yield Criterion(Task.TARGET, text, not intake, intake)
    measured = (
        loop.latest is not None
        and verdict_of(loop.latest) is not None
        and not metrics_without_values(loop.latest)
    )
    yield Criterion(Task.MEASURE, "a valid measurement under the load of the file", measured)
    verification = loop.verification
    if verification is None and loop.is_met:
        yield Criterion(Task.MEASURE, "every target is met", True)
        yield _documented(loop)
        return
    diagnosis = loop.diagnosis
    applies = loop.state(Task.DIAGNOSE).state is not TaskStatus.STALE
    named = diagnosis is not None and conclusion_of(diagnosis) is Conclusion.FIX
    yield Criterion(Task.DIAGNOSE, "a diagnosis names one cause", applies and named)
    change = loop.path.change
    single = verification is not None and is_attributable(verification)
    undescribed = ("change.description",) if single and not change.description else ()
    text = "one lever is changed, and described"
    yield Criterion(Task.VERIFY, text, single and not undescribed, undescribed)
    good = verification is not None and is_good(verification)
    yield Criterion(Task.VERIFY, "the change is verified: improved or no worse", good)
    met = verification is not None and proves_targets(verification, loop.path.targets)
    yield Criterion(Task.VERIFY, "every target is met", met or loop.is_met)
    if verification is None or needs_quality(verification):
        kept = verification is not None and quality_of(verification) is QualityJudgement.KEPT
        compared = verification is not None and quality_of(verification) is not None
        is_checked = compared or bool(loop.path.quality.command)
        fields = () if is_checked else tuple(each for each in _ANSWERS if each in blank)
        yield Criterion(Task.VERIFY, "the answers are as good as before", kept, fields)
    has_rollback = bool(change.rollback or change.undo)
    lacking = () if has_rollback else ("change.rollback",)
    yield Criterion(Task.CHANGE, "the rollback is described", has_rollback, lacking)
    yield _documented(loop)


def _documented(loop: Loop) -> Criterion:
    done = loop.state(Task.DOCUMENT).state is TaskStatus.DONE
    return Criterion(Task.DOCUMENT, "the write-up is current", done)


def is_done(loop: Loop) -> bool:
    """Return whether every criterion is met, and no sweep has found drift since then."""
    found_drift = loop.sweep is not None and sweep_found_drift(loop.sweep)
    return not found_drift and all(each.is_met for each in criteria_of(loop))


def next_of(loop: Loop) -> NextCommand:
    """Return the next command: the first task that is not done, or watching."""
    for command in (_before_verdict, _fix, _write, _drift, _after):
        found = command(loop)
        if found is not None:
            return found
    done = (loop.latest, loop.write_up, loop.sweep)
    last = max(each.created for each in done if each is not None)
    return NextCommand(
        "latspan sweep",
        f"done; watch for drift: sweep again by {last + _WATCHED:%Y-%m-%d}, and after every"
        " change of the prompt template, the model or the load",
    )


def next_after_write_up(loop: Loop) -> NextCommand | None:
    """Return the next command as if the write-up were current; ``None`` if nothing is open."""
    found = (command(loop) for command in (_before_verdict, _fix, _after))
    return next((each for each in found if each is not None), None)


def _edit(loop: Loop, reason: str) -> NextCommand:
    return NextCommand(loop.edit_command, reason)


def _before_verdict(loop: Loop) -> NextCommand | None:
    """Return the next command until a measurement has a verdict."""
    if loop.state(Task.TARGET).state is not TaskStatus.DONE:
        return _edit(
            loop, "fill in endpoint (the URL of an API, or module:function), model and the load"
        )
    missing = loop.missing_file
    if missing is not None:
        return _edit(loop, f"there is no file {missing}: write it, or correct its name in [prompt]")
    measure = loop.state(Task.MEASURE)
    command = f"latspan measure {loop.name}"
    if loop.latest is None:
        reason = measure.text or "measure under the load of the file, and check the targets"
        return NextCommand(command, reason)
    if verdict_of(loop.latest) is None:
        return NextCommand(command, f"measure again: {why_invalid(loop.latest)}")
    lacking = metrics_without_values(loop.latest)
    if lacking:
        # Another measurement of the same requests would have no value either.
        return _edit(
            loop,
            f"no request has a value of {listed(lacking)}: use another metric in [target], for"
            f" example duration, or make the requests stream and run {command} again",
        )
    needed = requests_to_decide(loop.latest)
    if needed is not None:
        return NextCommand(
            f"{command} --requests {needed}", "there were too few requests to prove the target"
        )
    return None


def _fix(loop: Loop) -> NextCommand | None:
    """Return the next command from a missed target to a verified change."""
    diagnose, verify = loop.state(Task.DIAGNOSE), loop.state(Task.VERIFY)
    if diagnose.state in (TaskStatus.OPEN, TaskStatus.STALE) and loop.verification is None:
        if diagnose.state is TaskStatus.STALE or loop.diagnosis is None:
            return NextCommand(
                f"latspan diagnose {loop.name}", "the target is not met: find the delay to fix"
            )
        return _measure_again(loop, conclusion_of(loop.diagnosis))
    if loop.state(Task.CHANGE).state is TaskStatus.OPEN:
        return _edit(loop, _change_wanted(loop))
    if verify.state in (TaskStatus.DONE, TaskStatus.NOT_NEEDED):
        return None
    verification = loop.verification
    command = _verify_command(loop)
    if verification is None:
        reason = "the same test before and after the change, in turn"
        return NextCommand(command, reason)
    judgement = judgement_of(verification)
    if judgement is Judgement.NOT_INTERPRETABLE:
        sentence = sentence_of(verification)
        if is_disturbed(verification):
            return NextCommand(command, f"verify again: {sentence}")
        return _edit(loop, f"{sentence} Correct [change], or run {command} again")
    runs = runs_to_decide(verification)
    if runs is not None and judgement is Judgement.INCONCLUSIVE:
        return NextCommand(f"{command} --runs {runs}", "more runs per side are needed")
    return _compare_answers(loop, verification, "compare the answers of both sides")


def _verify_command(loop: Loop) -> str:
    """Return the command that verifies: that of the last verification if the file has no lever."""
    if loop.verification is None or loop.path.change.lever in LEVERS:
        return f"latspan verify {loop.name}"
    # The number of runs is decided anew.
    return loop.verification.repeated(without=("--runs",))


def _compare_answers(loop: Loop, verification: Result, reason: str) -> NextCommand:
    if loop.path.quality.command:
        # The command needs the system in the state of each side.
        return NextCommand(f"latspan verify {loop.name}", f"check the quality: {reason}")
    sides = shlex.join(verification.recordings)
    return NextCommand(f"latspan verify {loop.name} --recorded {sides}", reason)


def _measure_again(loop: Loop, conclusion: Conclusion) -> NextCommand:
    assert loop.diagnosis is not None  # noqa: S101 - it concluded this
    command = f"latspan measure {loop.name}"
    if conclusion is Conclusion.TOO_FEW:
        command = f"{command} --requests 100"
    reason = f"measure again: {loop.diagnosis.document['sentence']}"
    if conclusion is Conclusion.NOT_INSTRUMENTED:
        reason = f"{reason} Add stages to the program first (latspan doctor shows what is recorded)"
    return NextCommand(command, reason)


def _change_wanted(loop: Loop) -> str:
    change = loop.state(Task.CHANGE)
    reason = "describe the change in [change]: lever, and apply with undo, or options"
    diagnosis = loop.diagnosis
    if diagnosis is not None and diagnosis.document["cause"] is not None:
        reason = f"{reason}. The diagnosis proposes: {diagnosis.document['cause']['lever']}"
    if not loop.path.quality.is_described:
        reason = (
            f"{reason}. If it may worsen the answers, fill in quality.command, or quality.items"
            " with before and after, too: the verification runs the check"
        )
    return f"{reason} ({change.text})" if change.text else reason


def _write(loop: Loop) -> NextCommand | None:
    if loop.state(Task.DOCUMENT).state is TaskStatus.DONE:
        return None
    return NextCommand(f"latspan document {loop.name}", "write up what was measured and changed")


def _drift(loop: Loop) -> NextCommand | None:
    """Return the next command if the newest sweep found drift: it begins another pass."""
    if loop.sweep is None or not sweep_found_drift(loop.sweep):
        return None
    reason = f"measure again: the sweep of {loop.sweep.day} found {sweep_text(loop.sweep)}"
    return NextCommand(f"latspan measure {loop.name}", reason)


def _after(loop: Loop) -> NextCommand | None:
    """Return the next command after the write-up, unless everything is done."""
    open_ = [
        each for each in criteria_of(loop) if not each.is_met and each.task is not Task.DOCUMENT
    ]
    fields = [name for each in open_ for name in each.fields]
    if fields:
        return _edit(loop, f"fill in {listed(fields)}")
    verification = loop.verification
    if verification is None or not open_:
        return None
    if is_good(verification):
        lacking = "; ".join(each.text for each in open_)
        return NextCommand(
            f"latspan measure {loop.name}",
            f"roll the change out, and measure the next pass. Not reached yet: {lacking}",
        )
    if quality_of(verification) is QualityJudgement.INCONCLUSIVE:
        return _compare_answers(
            loop, verification, "the answers are inconclusive: add items and answers, then compare"
        )
    return _edit(
        loop,
        f"the change is {judgement_of(verification)}: take it back, and describe another one in"
        " [change]",
    )
