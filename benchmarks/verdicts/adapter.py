"""
The one place of this bench that calls latspan.

Each function is one question, and returns the answer as the word that ``--json`` documents. The
command line is called in this process, because starting a process for each of some 10,000 questions
would take longer than everything else.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final

from latspan._model.goals import parse_percentile_goal
from latspan._model.metrics import MetricValue
from latspan._model.recording import RequestRecord
from latspan._model.segments import Kind, Outcome, Segment, Source
from latspan.cli import main
from latspan.errors import LatspanError
from latspan.testing._assertions import check_target
from verdicts._generator import START_NS, Observed

JUDGEMENTS: Final = ("improved", "worse", "no_worse", "inconclusive", "not_interpretable")
"""Answers of a comparison."""

VERDICTS: Final = ("met", "missed", "undecided")
"""Answers about a target."""

ERROR: Final = "error"
"""Answer if latspan refuses the question: a usage error, or a recording that it cannot read."""


def compare_sides(before: Path, after: Path) -> str:
    """
    Return the judgement of ``latspan compare`` on the p95 of the duration.

    Args:
        before: Folder of the recordings of one side, one per run.
        after: The same of the other side.
    """
    document = _document("compare", str(before), str(after), "--goal", "p95 duration")
    return ERROR if document is None else str(document["judgement"])


def target(source: Path | Sequence[Observed], goal: str, limit_ms: float) -> str:
    """
    Return the verdict on a target.

    Args:
        source: A recording, for ``latspan diagnose``; or requests in memory, for
            ``latspan_capture.assert_target``.
        goal: Percentile and metric, for example ``p95 duration``.
        limit_ms: The limit.
    """
    if not isinstance(source, Path):
        return _asserted(source, goal, limit_ms)
    document = _document("diagnose", str(source), "--goal", goal, "--limit-ms", repr(limit_ms))
    # Without a verdict, the diagnosis does not state anything about the target.
    return ERROR if document is None else str(document["goal"]["verdict"] or "undecided")


def scorecard_target(folder: Path, goal: str, limit_ms: float) -> str:
    """
    Return the verdict of ``latspan scorecard`` on a target.

    Args:
        folder: A recording whose requests are in one week.
        goal: Percentile and metric.
        limit_ms: The limit.
    """
    percentile, metric = goal.removeprefix("p").split(" ")
    path = folder.parent / "chat.toml"
    path.write_text(
        f'name = "chat"\n[[target]]\nmetric = "{metric}"\npercentile = {percentile}\n'
        f"limit_ms = {limit_ms!r}\n[traffic]\nrate_per_s = 2\n",
        "utf-8",
    )
    document = _document("scorecard", str(folder), "--target", str(path), "--period", "week")
    if document is None:
        return ERROR
    (card,) = document["cards"]
    (period,) = card["periods"]
    (verdict,) = period["verdicts"]
    return "undecided" if verdict is None else str(verdict["verdict"])


def _document(*arguments: str) -> dict[str, Any] | None:
    """Return the JSON document of a command; ``None`` if it prints none."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        main([*arguments, "--json"])
    text = printed.getvalue()
    return json.loads(text) if text.strip() else None


def _asserted(requests: Sequence[Observed], goal: str, limit_ms: float) -> str:
    records = [_record(each) for each in requests]
    try:
        asked = parse_percentile_goal(goal, limit_ms=limit_ms)
        check_target(records, asked, kind=Kind.CALL, confidence=0.95, undecided="fail")
    except AssertionError as error:
        first = str(error).partition("\n")[0]
        for verdict in ("missed", "undecided", "needs"):
            if f" is {verdict}" in first:
                return "missed" if verdict == "missed" else "undecided"
        raise ValueError(f"the message of the assertion has no verdict: {first}") from error
    except LatspanError:
        return ERROR
    return "met"


_STREAM: Final = {"gen_ai.request.stream": True}
_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}


def _record(observed: Observed) -> RequestRecord:
    duration_ns, outcome, first_ns, ratio = observed
    metrics = {"duration": MetricValue(duration_ns, Source.MEASURED)}
    if first_ns is not None:
        metrics["time_to_first_token"] = MetricValue(first_ns, Source.MEASURED)
    return RequestRecord(
        name="chat small",
        kind=Kind.CALL,
        outcome=_OUTCOMES[outcome],
        start_epoch_ns=START_NS,
        duration_ns=duration_ns,
        segments=(Segment("server_wait", 0, duration_ns, Source.MEASURED),),
        metrics=metrics,
        ratio=ratio,
        details=_STREAM,
    )
