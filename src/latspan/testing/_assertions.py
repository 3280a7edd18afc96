"""
Assertions on what a test recorded: a target is met, and nothing became worse than a baseline.

A test has few requests, so an assertion has three results. If it is neither proven nor refuted, it
is *undecided*; the caller chooses whether that fails or skips the test.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias, get_args

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.goals import PercentileGoal
from latspan._model.recording import RequestRecord
from latspan._model.recording.folder import host_conditions
from latspan._model.segments import KIND_NOUNS, Kind
from latspan._study.stats import Verdict, requests_needed, target_verdict
from latspan._version import __version__
from latspan.errors import ConfigError
from latspan.testing._folder_lock import locked

if TYPE_CHECKING:
    from latspan._study.compare import Run

Undecided: TypeAlias = Literal["fail", "skip"]
"""What an undecided assertion does with the test."""


def check_target(
    records: Sequence[RequestRecord],
    goal: PercentileGoal,
    *,
    kind: Kind,
    confidence: float,
    undecided: Undecided,
) -> None:
    """
    Fail the test unless a percentile is proven to be within a limit.

    Args:
        records: Records of the test; only records of this ``kind`` are used.
        goal: Percentile, metric and limit.
        kind: Kind of the units.
        confidence: In (0.5, 1).
        undecided: What happens if there are too few records.

    Raises:
        AssertionError: The target is missed, or undecided.
        ConfigError: An argument is invalid.
    """
    __tracebackhide__ = True
    _refuse_unknown(undecided)
    limit_ns = goal.required_limit_ns
    values = [
        value
        for each in records
        if each.kind is kind and (value := each.censored(goal.metric)) is not None
    ]
    misses = sum(each.low > limit_ns for each in values)
    left = sum(each.low <= limit_ns < each.high for each in values)
    found = target_verdict(
        len(values), misses, goal.percentile, undecided=left, confidence=confidence
    )
    if found.verdict is Verdict.MET:
        return
    noun = KIND_NOUNS[kind][1]
    failed = sum(math.isinf(each.low) for each in values)
    text = (
        f"{goal} at most {limit_ns / NS_PER_MS:g} ms is {found.verdict}: {misses:,} of"
        f" {len(values):,} {noun} took longer or failed ({failed:,} failed),"
        f" {confidence:.0%} confidence"
    )
    if left:
        text += f"; {left:,} were left before the limit, so they may have missed it"
    if found.verdict is Verdict.MISSED:
        raise AssertionError(
            f'{text}\nhint: print(latspan_capture.diagnose("{goal}")) names the one delay to fix'
        )
    least = requests_needed(0, goal.percentile, confidence=confidence)
    _undecided(
        f"{text}\nhint: {found.needed:,} more without a miss would prove it; a test without"
        f" any miss needs at least {least:,} {noun}",
        undecided,
    )


def check_no_worse(
    records: Sequence[RequestRecord],
    baseline: str | os.PathLike[str],
    goal: PercentileGoal,
    *,
    kind: Kind,
    margin: float | None,
    changed: Collection[str],
    undecided: Undecided,
) -> None:
    """
    Fail the test if the goal, another percentile or a segment is worse than in a baseline.

    Args:
        records: Records of the test.
        baseline: Baseline file, or recordings.
        goal: Percentile and metric.
        kind: Kind of the units.
        margin: Largest ratio at which the goal is no worse.
        changed: Conditions that were changed on purpose.
        undecided: What happens if the result is undecided.

    Raises:
        AssertionError: The test is worse than the baseline, the comparison cannot be interpreted,
            or the result is undecided.
        ConfigError: An argument is invalid.
        RecordingError: The baseline cannot be read.
        MissingExtraError: The extra ``study`` is not installed.
    """
    __tracebackhide__ = True
    _refuse_unknown(undecided)
    from latspan.reports._extra import needs_study

    with needs_study():
        from latspan._study.compare import Judgement, compare, question, runs_in
    if not Path(baseline).exists():
        raise ConfigError(
            f"no baseline {baseline}",
            hint="run the test five times with: pytest --latspan-save-baselines",
        )
    before, after = runs_in(baseline), [_run_of(records, kind)]
    found = compare(before, after, question(goal, before, after, margin=margin), accept=changed)
    if found.is_no_worse:
        return
    text = found.sentence
    if found.judgement is Judgement.INCONCLUSIVE:
        hint = "hint: send more requests, or add runs to the baseline with --latspan-save-baselines"
        _undecided(f"{text}\n{hint}", undecided)
    rows = [f"p{row.percentile:g} {row.name} is worse" for row in found.worse]
    if found.judgement is Judgement.NOT_INTERPRETABLE:
        names = [each.name for each in found.differences if each.blocks]
        listed = ", ".join(f'"{name}"' for name in names)
        rows = [f"hint: make a new baseline, or pass changed=[{listed}] if this is the change"]
    raise AssertionError("\n".join([text, *rows]))


def add_to_baseline(
    records: Sequence[RequestRecord], file: str | os.PathLike[str], kind: Kind
) -> None:
    """
    Add the run of a test to a baseline file, which is created if it does not exist.

    Several processes may add to one file at the same time: each run is kept. A process that is
    interrupted leaves the file as it was.

    Args:
        records: Records of the test.
        file: File to write.
        kind: Kind of the units.

    Raises:
        ConfigError: Its name does not end in ``.json``, or it cannot be written.
        RecordingError: It exists and is not a baseline.
        MissingExtraError: The extra ``study`` is not installed.
    """
    from latspan.reports._extra import needs_study

    with needs_study():
        from latspan._study.compare import baseline_document, check_baseline_name, read_baseline
    check_baseline_name(file)
    run = _run_of(records, kind)
    try:
        # Of a symbolic link, the file that it points to is replaced, and that file's folder locked.
        path = Path(os.path.realpath(file))
        with locked(path.parent):
            runs = [*(read_baseline(path) if path.exists() else ()), run]
            text = json.dumps(baseline_document(runs), indent=1, allow_nan=False) + "\n"
            _replace(path, text)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {file}: {error.strerror}",
            hint="use a path in an existing folder that you can write to, on a local disk",
        ) from error


def _replace(path: Path, text: str) -> None:
    with NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=".latspan-", delete=False
    ) as written:
        try:
            written.write(text)
            written.flush()
            Path(written.name).replace(path)
        except BaseException:
            Path(written.name).unlink()
            raise


def _run_of(records: Sequence[RequestRecord], kind: Kind) -> Run:
    from latspan._study.compare import run_of_records

    # The test itself makes the load, so its rate is no condition.
    run = run_of_records(records, "this test", kind=kind, load={})
    return replace(run, conditions={"latspan": __version__, **host_conditions()})


def _refuse_unknown(undecided: Undecided) -> None:
    known = get_args(Undecided)
    if undecided not in known:
        raise ConfigError(f"undecided is '{undecided}'", hint=f"use {' or '.join(known)}")


def _undecided(text: str, undecided: Undecided) -> NoReturn:
    __tracebackhide__ = True
    if undecided == "skip":
        import pytest

        pytest.skip(text)
    raise AssertionError(text)
