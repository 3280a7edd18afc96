"""
Each reader gives each request its weight, in each situation in which a request could be forgotten.

The table of the tests is readers × situations: ``[diagnose-weighted]``, ``[report-cut]``. A reader
is a function that returns what a command or a public function shows of a recording or of a
histogram log. A situation is traffic for which a careless count gives another number. The truth is
computed in ``support/traffic.py`` by sorting, counting and dividing. A pair without a meaning is in
``NOT_APPLICABLE`` with its reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest

import latspan
from latspan import open_recording
from latspan.cli import main
from latspan.errors import LatspanError
from latspan.testing import Captured, LatspanCapture
from support.traffic import (
    CUT,
    FAILED,
    Request,
    bounds_of,
    count_of,
    share_above,
    write_log,
    write_recording,
)

TTFT: Final = "time_to_first_token"
PERCENTILES: Final = (50, 75, 95)
LIMITS_MS: Final = (200.0, 1_000.0, 6_000.0)
RUNS: Final = 4


# Situations.


def _varied(middle: float, index: int, size: int = 97) -> float:
    """Return times from 0.9 to 1.1 of the middle one, in an order without a trend."""
    return middle * (0.9 + 0.2 * (index * 37 % size) / size)


def _fast(count: int, **changes: Any) -> list[Request]:
    return [
        Request(_varied(1_000, index), _varied(100, index), **changes) for index in range(count)
    ]


def _mixed(*groups: Sequence[Request]) -> list[Request]:
    """Return the requests of several groups, spread evenly over 60 seconds."""
    placed = sorted(
        (((index + 0.5) / len(group), number, index) for number, group in enumerate(groups)
         for index in range(len(group))),
    )  # fmt: skip
    total = len(placed)
    return [
        replace(groups[number][index], at_s=60 * place / total)
        for place, (_, number, index) in enumerate(placed)
    ]


def _weighted() -> list[Request]:
    """Return 200 fast requests, and 200 slow ones that stand for 2,000."""
    slow = [
        Request(1_000 + 405 + 5 * index, 405 + 5 * index, ratio=0.1) for index in range(200)
    ]
    return _mixed(_fast(200), slow)


def _unsampled() -> list[Request]:
    """Return the traffic of :func:`_weighted` with a line for each request."""
    return _mixed(
        *([each for each in _weighted() if each.ratio == ratio] * round(1 / ratio)
          for ratio in (1.0, 0.1)),
    )  # fmt: skip


def _cut() -> list[Request]:
    """Return 200 whole responses, 60 that callers left without a token, 40 left after tokens."""
    return _mixed(
        _fast(200),
        [Request(5_000, None, "cancelled") for _ in range(60)],
        [Request(600, _varied(100, index), "closed_early") for index in range(40)],
    )


def _waited() -> list[Request]:
    """Return the traffic of :func:`_cut` if nobody had left."""
    return _mixed(
        _fast(240), [Request(_varied(9_000, index), _varied(8_000, index)) for index in range(60)]
    )


def _failed() -> list[Request]:
    """Return 200 whole responses and 100 failures, all of them faster."""
    return _mixed(
        _fast(200),
        [Request(50, None, "error") for _ in range(25)],
        [Request(150, 100, "error") for _ in range(25)],
        [Request(5, None, "rejected") for _ in range(25)],
        [Request(500, 100, "truncated") for _ in range(25)],
    )


def _phase() -> list[Request]:
    """Return a load test whose other phases are 20 times slower and must not count."""
    others = [Request(20_000, 2_000, phase="cold", at_s=-30)] + [
        Request(_varied(20_000, index), _varied(2_000, index), phase=phase, at_s=at_s + index / 10)
        for phase, at_s in (("warmup", -25.0), ("drain", 61.0))
        for index in range(40)
    ]
    measured = _mixed(_fast(300, phase="measured"))
    return sorted([*others, *measured], key=lambda each: each.at_s)


def _measured_only() -> list[Request]:
    return _mixed(_fast(300, phase="measured"))


def _no_token() -> list[Request]:
    """Return 200 whole streams, 60 streams without a token, and 40 responses that are no streams."""
    return _mixed(
        _fast(200),
        [Request(300, None, output=None) for _ in range(60)],
        [Request(_varied(2_000, index), None, streamed=False) for index in range(40)],
    )


def _with_tokens() -> list[Request]:
    return _mixed(
        _fast(260),
        [Request(_varied(2_000, index), None, streamed=False) for index in range(40)],
    )


@dataclass(frozen=True, slots=True)
class Situation:
    """
    Traffic in which a reader could forget requests.

    Args:
        requests: The traffic.
        before: Traffic of the same system, or of a better one, without what can be forgotten.
        judgements: Judgements of a comparison that are true.
        is_load_test: Whether it is a load test.
    """

    requests: list[Request]
    before: list[Request]
    judgements: frozenset[str]
    is_load_test: bool = False

    def account(self, requests: Sequence[Request]) -> dict[str, Any] | None:
        """Return the account of the load test in the manifest."""
        if not self.is_load_test:
            return None
        measured = sum(each.phase == "measured" for each in requests)
        return {
            "name": "chat",
            "kind": "call",
            "ended": True,
            "steps": [
                {
                    "load": {"pattern": "poisson", "rate_per_s": 5},
                    "intended": measured,
                    "unsent": 0,
                    "cut": [],
                    "sent": {"measured": measured},
                    "generator": {
                        "busy": 0.1,
                        "loop_lag": {"p50": 0.0006, "p99": 0.002, "max": 0.004},
                        "dispatch_lag": {"p50": 0.0005, "p99": 0.0021, "max": 0.003},
                    },
                    "offered_per_s": 5.0,
                    "reached_per_s": 5.0,
                }
            ],
            "targets": [
                {"metric": TTFT, "percentile": 95, "limit_ns": round(limit_ms * 1e6)}
                for limit_ms in LIMITS_MS
            ],
        }

    def write(self, folder: Path, requests: Sequence[Request] | None = None) -> Path:
        """Write the recording of the traffic, or of other traffic."""
        chosen = self.requests if requests is None else requests
        return write_recording(folder, chosen, measurement=self.account(chosen))


_SAME: Final = frozenset({"no_worse", "inconclusive"})
_WORSE: Final = frozenset({"worse", "inconclusive", "not_interpretable"})

SITUATIONS: Final[Mapping[str, Situation]] = {
    "weighted": Situation(_weighted(), _unsampled(), _SAME),
    "cut": Situation(_cut(), _waited(), frozenset({"inconclusive", "worse"})),
    "failed": Situation(_failed(), _mixed(_fast(300)), frozenset({"worse"})),
    "phase": Situation(_phase(), _measured_only(), frozenset({"no_worse"}), is_load_test=True),
    "no_token": Situation(_no_token(), _with_tokens(), frozenset({"worse", "inconclusive"})),
}


# Truth.


@dataclass(slots=True)
class Shown:
    """
    What a reader shows.

    Args:
        percentiles: Bounds in milliseconds by metric and percentile: a pair, or one number for a
            known value, or ``None`` for a value that is stated to be unknown.
        counts: Numbers of requests; the keys are those of :func:`_counts`.
        shares: Share of the requests above a limit in milliseconds, as a pair or a number.
        verdicts: Verdict of the p95 or p75 of a metric at a limit in milliseconds.
        judgement: Judgement of a comparison.
        tolerance: Relative error of its percentiles.
    """

    percentiles: dict[tuple[str, float], Any] = field(default_factory=dict[Any, Any])
    counts: dict[str, float] = field(default_factory=dict[str, float])
    shares: dict[tuple[str, float], Any] = field(default_factory=dict[Any, Any])
    verdicts: dict[tuple[str, float, float], str | None] = field(default_factory=dict[Any, Any])
    judgement: str | None = None
    tolerance: float = 0.002


def _counts(requests: Sequence[Request]) -> dict[str, float]:
    return {
        "requests": count_of(requests),
        "completed": count_of(requests, ["completed"]),
        "cut": count_of(requests, CUT),
        "failed": count_of(requests, FAILED),
        "first tokens": count_of(requests, metric=TTFT),
    }


def _verdict(requests: Sequence[Request], metric: str, percentile: float, limit_ms: float) -> str:
    """Return the verdict; every share of the situations is far from what a percentile allows."""
    low, high = share_above(requests, metric, limit_ms)
    allowed = 1 - percentile / 100
    return "missed" if low > allowed else "met" if high <= allowed else "undecided"


def faults(shown: Shown, situation: Situation) -> list[str]:
    """Return a sentence for each difference between what a reader shows and the truth."""
    requests = situation.requests
    found: list[str] = []
    for (metric, percentile), value in shown.percentiles.items():
        truth = bounds_of(requests, metric, percentile)
        is_known = truth[0] == truth[1] and math.isfinite(truth[0])
        if value is None:
            if is_known:
                found.append(f"p{percentile:g} {metric} is unknown, but is {truth[0]:g} ms")
            continue
        pair = value if isinstance(value, tuple) else (value, value)
        if pair != pytest.approx(truth, rel=shown.tolerance):
            found.append(f"p{percentile:g} {metric} is {value}, truth {truth} ms")
    truth_counts = _counts(requests)
    for name, value in shown.counts.items():
        if value != pytest.approx(truth_counts[name], rel=1e-6):
            found.append(f"{value:g} {name}, truth {truth_counts[name]:g}")
    for (metric, limit_ms), value in shown.shares.items():
        truth = share_above(requests, metric, limit_ms)
        pair = value if isinstance(value, tuple) else (value, value)
        if pair != pytest.approx(truth, abs=1e-3):
            found.append(f"share of {metric} above {limit_ms:g} ms is {value}, truth {truth}")
    for (metric, percentile, limit_ms), verdict in shown.verdicts.items():
        expected = _verdict(requests, metric, percentile, limit_ms)
        if verdict != expected:
            found.append(
                f"p{percentile:g} {metric} at most {limit_ms:g} ms is {verdict}, truth {expected}:"
                f" {share_above(requests, metric, limit_ms)} above"
            )
    if shown.judgement is not None and shown.judgement not in situation.judgements:
        found.append(f"judged {shown.judgement}, truth {sorted(situation.judgements)}")
    return found


# Readers.


def _document(*arguments: object) -> dict[str, Any]:
    """Return the JSON document that a command prints."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        main([str(each) for each in arguments])
    assert out.getvalue(), err.getvalue()
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def snapshot(situation: Situation, folder: Path) -> Shown:
    """Read the snapshot of a recording."""
    return _of_snapshot(open_recording(situation.write(folder)).snapshot())


def _of_snapshot(taken: Any) -> Shown:
    shown = Shown()
    for metric in ("duration", TTFT):
        for each in PERCENTILES:
            bounds = taken.percentile_bounds(metric, each, unit="ms", kind="call")
            known = taken.percentile(metric, each, unit="ms", kind="call", default=None)
            shown.percentiles[metric, each] = tuple(bounds)
            assert known == (bounds[0] if bounds[0] == bounds[1] < math.inf else None)
    distribution = taken.metric("duration", kind="call")
    shown.counts = {
        "requests": taken.count(kind="call"),
        "cut": distribution.cut(),
        "failed": distribution.failed(),
        "completed": taken.count(kind="call", outcome="completed"),
    }
    return shown


def _captured(recording: Path) -> LatspanCapture:
    """Return the fixture of pytest, with the requests of a recording."""
    return LatspanCapture(Captured(open_recording(recording).snapshot, tuple))


def assert_target(situation: Situation, folder: Path) -> Shown:
    """Assert targets in a test."""
    captured = _captured(situation.write(folder))
    shown = Shown()
    for limit_ms in LIMITS_MS:
        try:
            captured.assert_target("p95 ttft", limit_ms=limit_ms, kind="call", undecided="fail")
            verdict = "met"
        except AssertionError as error:
            verdict = "undecided" if " is undecided" in str(error) else "missed"
        shown.verdicts[TTFT, 95, limit_ms] = verdict
    return shown


def _runs(situation: Situation, folder: Path) -> tuple[Path, Path]:
    """Write runs of both sides that alternate, and return the folders of the sides."""
    for run in range(RUNS):
        for side, requests in (("before", situation.before), ("after", situation.requests)):
            place = 2 * run + ((run + (side == "after")) % 2)
            situation.write(folder / side / f"run-{run}", _of_run(requests, run, 1_000 * place))
    return folder / "before", folder / "after"


def _of_run(requests: Sequence[Request], run: int, start_s: float) -> list[Request]:
    """Return the requests of one run; runs differ by 1 %, the same on both sides."""
    factor = 1 + 0.01 * (run % 3 - 1)
    return [
        replace(
            each,
            at_s=start_s + each.at_s,
            duration_ms=each.duration_ms * factor,
            ttft_ms=None if each.ttft_ms is None else each.ttft_ms * factor,
        )
        for each in requests
    ]


def assert_no_worse(situation: Situation, folder: Path) -> Shown:
    """Assert in a test that nothing became worse than a baseline of recordings."""
    before, after = _runs(situation, folder)
    baseline = folder / "latency.json"
    for run in sorted(before.iterdir()):
        saver = Captured(open_recording(run).snapshot, tuple)
        LatspanCapture(saver, saves_baselines=True).assert_no_worse(
            baseline, "p95 ttft", kind="call"
        )
    try:
        _captured(after / "run-1").assert_no_worse(
            baseline, "p95 ttft", kind="call", undecided="fail"
        )
    except AssertionError as error:
        text = str(error)
        worse = " is worse" in text or "more requests fail" in text or "more calls fail" in text
        return Shown(judgement="worse" if worse else "inconclusive")
    return Shown(judgement="no_worse")


def report(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan report --json``."""
    document = _document("report", situation.write(folder), "--json")
    return _of_rows(document["distributions"])


def _of_rows(rows: Sequence[Mapping[str, Any]]) -> Shown:
    raise NotImplementedError(str(rows[:2]))


def diagnose(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan diagnose --json`` of a recording."""
    return _diagnosed(situation.write(folder))


def diagnose_log(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan diagnose --json`` of histogram logs."""
    write_log(folder / "a.hlog", situation.requests)
    return _diagnosed(folder)


def _diagnosed(source: Path) -> Shown:
    shown = Shown()
    for metric, percentile in ((TTFT, 95), ("duration", 75)):
        for limit_ms in LIMITS_MS:
            goal = f"p{percentile} {metric}"
            found = _document(
                "diagnose", source, "--goal", goal, "--limit-ms", limit_ms, "--json"
            )
            shown.verdicts[metric, percentile, limit_ms] = found["goal"]["verdict"]
            value_s = found["goal"]["value_s"]
            shown.percentiles[metric, percentile] = None if value_s is None else 1e3 * value_s
            shown.counts["requests"] = found["units"]
            shown.counts["failed"] = found["failed"]
            is_met = found["goal"]["verdict"] == "met"
            assert (found["conclusion"] == "nothing_to_fix") == is_met, found["sentence"]
    return shown


def compare(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan compare --json`` of recordings."""
    return _compared(*_runs(situation, folder))


def _compared(before: Path, after: Path, *options: str) -> Shown:
    found = _document("compare", before, after, "--goal", "p95 ttft", "--json", *options)
    shown = Shown(judgement=found["judgement"])
    shown.counts["requests"] = found["after"]["units"] / RUNS
    return shown


def compare_baselines(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan compare --json`` of baseline files."""
    before, after = _runs(situation, folder)
    for side in (before, after):
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            assert main(["compare", "--save-baseline", f"{side}.json", str(side)]) == 0
    return _compared(Path(f"{before}.json"), Path(f"{after}.json"))


def compare_logs(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan compare --json`` of histogram logs."""
    for run in range(RUNS):
        for side, requests in (("before", situation.before), ("after", situation.requests)):
            write_log(folder / side / f"run-{run}" / "a.hlog", _of_run(requests, run, 0))
    return _compared(folder / "before", folder / "after")


Reader = Callable[[Situation, Path], Shown]

READERS: Final[Mapping[str, Reader]] = {
    "snapshot": snapshot,
    "assert_target": assert_target,
    "assert_no_worse": assert_no_worse,
    "report": report,
    "diagnose": diagnose,
    "diagnose_log": diagnose_log,
    "compare": compare,
    "compare_baselines": compare_baselines,
    "compare_logs": compare_logs,
}

_LOGS_COUNT_ALL: Final = "a histogram log counts each request and is never a sample"
_LOGS_HAVE_NO_PHASES: Final = "a load test logs its measured phase only"
_TESTS_COUNT_ALL: Final = "a test keeps each record and is never a sample"
_TESTS_HAVE_NO_PHASES: Final = "a test is not a load test"

NOT_APPLICABLE: Final[Mapping[tuple[str, str], str]] = {
    ("assert_target", "weighted"): _TESTS_COUNT_ALL,
    ("assert_no_worse", "weighted"): _TESTS_COUNT_ALL,
    ("assert_target", "phase"): _TESTS_HAVE_NO_PHASES,
    ("assert_no_worse", "phase"): _TESTS_HAVE_NO_PHASES,
    **{(each, "weighted"): _LOGS_COUNT_ALL for each in READERS if each.endswith("_log")},
    **{(each, "weighted"): _LOGS_COUNT_ALL for each in READERS if each.endswith("_logs")},
    **{(each, "phase"): _LOGS_HAVE_NO_PHASES for each in READERS if each.endswith("_log")},
    **{(each, "phase"): _LOGS_HAVE_NO_PHASES for each in READERS if each.endswith("_logs")},
}
"""Pairs without a meaning, and why."""

_PAIRS: Final = [(reader, situation) for reader in READERS for situation in SITUATIONS]


@pytest.mark.parametrize(
    ("reader", "situation"),
    [pair for pair in _PAIRS if pair not in NOT_APPLICABLE],
    ids=["-".join(pair) for pair in _PAIRS if pair not in NOT_APPLICABLE],
)
def test_what_a_reader_shows_is_the_truth(reader: str, situation: str, tmp_path: Path) -> None:
    """No request is forgotten, counted twice, or replaced by the time until it was left."""
    chosen = SITUATIONS[situation]
    shown = READERS[reader](chosen, tmp_path / "recording")
    assert "\n".join(faults(shown, chosen)) == ""


def test_the_table_is_complete() -> None:
    """Each exception is a pair of the table and has a reason."""
    assert set(NOT_APPLICABLE) <= set(_PAIRS)
    for (reader, situation), reason in NOT_APPLICABLE.items():
        print(f"not applicable: {reader}-{situation}: {reason}")
        assert reason
