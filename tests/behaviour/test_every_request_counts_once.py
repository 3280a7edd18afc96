"""
Each reader gives each request its weight, in each situation in which a request could be forgotten.

The table of the tests is readers by situations: ``[diagnose-weighted]``, ``[report-cut]``. A reader
is a function that returns what a command or a public function shows of a recording or of a
histogram log. A situation is traffic for which a careless count gives another number. The truth is
computed in ``support/traffic.py`` by sorting, counting and dividing. A pair without a meaning is in
``NOT_APPLICABLE`` with its reason.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, Final, cast

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import ExponentialHistogramDataPoint
from opentelemetry.sdk.metrics.export import AggregationTemporality
from opentelemetry.sdk.resources import Resource

from latspan import open_recording
from latspan._live.otel.export import ConsoleLines, metrics_parts
from latspan._model.recording import Recorder
from latspan._study.compare import run_of
from latspan._study.measurement import summarize
from latspan._study.render.measurement_json import measurement_document
from latspan._study.sweep import judge
from latspan.cli import main
from latspan.integrations import Outcome, open_call, track_response
from latspan.integrations.formats import ApiFormat, ChunkKind
from latspan.testing import Captured, LatspanCapture, ManualClock, capture
from support.otlp import attributes_of
from support.traffic import (
    CUT,
    FAILED,
    Request,
    bounds_of,
    count_of,
    prometheus_histograms,
    prometheus_server,
    share_above,
    write_log,
    write_recording,
    write_traces,
)

pytestmark = pytest.mark.repetitive

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
    slow = [Request(1_000 + 405 + 5 * index, 405 + 5 * index, ratio=0.1) for index in range(200)]
    return _mixed(_fast(200), slow)


def unsampled(requests: Sequence[Request]) -> list[Request]:
    """Return the traffic with a line for each request."""
    return [replace(each, ratio=1.0) for each in requests for _ in range(round(1 / each.ratio))]


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
    """Return 200 whole streams, 60 streams without a token, and 40 responses in one piece."""
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


def _cut_at_end() -> list[Request]:
    """Return a load test that ended while a fifth of its requests waited for a token."""
    return _mixed(
        _fast(240, phase="measured"),
        [Request(5_000, None, "cancelled", phase="measured") for _ in range(60)],
    )


def _cut_indexes(requests: Sequence[Request]) -> list[int]:
    """Return the indexes of the requests that the end of a load test cancelled."""
    return [
        index
        for index, each in enumerate(requests)
        if each.phase == "measured" and each.outcome == "cancelled"
    ]


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
                    "cut": _cut_indexes(requests),
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

    def write(
        self, folder: Path, requests: Sequence[Request] | None = None, *, with_log: bool = True
    ) -> Path:
        """
        Write a recording, and return its folder.

        Args:
            folder: Its folder.
            requests: Its requests; the traffic of the situation if not given.
            with_log: Whether a sample has the histograms of all requests, as processes write them.
        """
        chosen = self.requests if requests is None else requests
        write_recording(folder, chosen, measurement=self.account(chosen))
        if with_log and any(each.ratio < 1 for each in chosen):
            write_log(folder / "a-1-20251124T000000Z-000000.hlog", unsampled(chosen))
        return folder


_SAME: Final = frozenset({"no_worse", "inconclusive"})
_WORSE: Final = frozenset({"worse", "inconclusive", "not_interpretable"})

SITUATIONS: Final[Mapping[str, Situation]] = {
    "weighted": Situation(_weighted(), unsampled(_weighted()), _SAME),
    "cut": Situation(_cut(), _waited(), frozenset({"inconclusive", "worse"})),
    "failed": Situation(_failed(), _mixed(_fast(300)), frozenset({"worse"})),
    "phase": Situation(_phase(), _measured_only(), frozenset({"no_worse"}), is_load_test=True),
    "cut_at_end": Situation(
        _cut_at_end(),
        [replace(each, phase="measured") for each in _waited()],
        frozenset({"inconclusive", "worse"}),
        is_load_test=True,
    ),
    "no_token": Situation(_no_token(), _with_tokens(), frozenset({"worse", "inconclusive"})),
}


# Truth.


@dataclass(slots=True)
class Shown:
    """
    What a reader shows.

    Args:
        percentiles: Bounds in milliseconds by metric and percentile: a pair, whose second number is
            ``None`` if only the lower bound is shown, or one number for a known value, or ``None``
            for a value that is stated to be unknown.
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


def _pair(value: Any) -> tuple[Any, ...]:
    return tuple(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else (value, value)


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
        pair: tuple[Any, ...] = _pair(value)
        if pair[1] is None and not is_known:
            pair = pair[0], truth[1]
        if pair != pytest.approx(truth, rel=shown.tolerance):
            found.append(f"p{percentile:g} {metric} is {value}, truth {truth} ms")
    truth_counts = _counts(requests)
    for name, value in shown.counts.items():
        if value != pytest.approx(truth_counts[name], rel=1e-6):
            found.append(f"{value:g} {name}, truth {truth_counts[name]:g}")
    for (metric, limit_ms), value in shown.shares.items():
        truth = share_above(requests, metric, limit_ms)
        if _pair(value) != pytest.approx(truth, abs=1e-3):
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


def snapshot_lines(situation: Situation, folder: Path) -> Shown:
    """Read the snapshot of a recording whose histogram logs are gone."""
    return _of_snapshot(open_recording(situation.write(folder, with_log=False)).snapshot())


def _of_snapshot(taken: Any) -> Shown:
    shown = Shown()
    for metric in ("duration", TTFT):
        for each in PERCENTILES:
            bounds = taken.percentile_bounds(metric, each, unit="ms", kind="call")
            known = taken.percentile(metric, each, unit="ms", kind="call", default=None)
            shown.percentiles[metric, each] = tuple(bounds)
            assert known == (bounds[0] if bounds[0] == bounds[1] < math.inf else None)
        distribution = taken.metric(metric, kind="call")
        for limit_ms in LIMITS_MS:
            shown.shares[metric, limit_ms] = distribution.fraction_above_bounds(limit_ms)
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
    return _reported(situation.write(folder))


def report_lines(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan report --json`` of a recording whose histogram logs are gone."""
    return _reported(situation.write(folder, with_log=False))


def _reported(folder: Path) -> Shown:
    summary = _document("report", folder, "--json")["summary"]["metrics"]
    shown = Shown()
    for metric in ("duration", TTFT):
        for percentile in (50, 95):
            value_s = summary[metric][f"p{percentile}"]
            shown.percentiles[metric, percentile] = None if value_s is None else 1e3 * value_s
    shown.counts["requests"] = summary["duration"]["n"]
    return shown


def report_text(situation: Situation, folder: Path) -> Shown:
    """Read the table of ``latspan report``, in which a bound is ``≥`` and an infinite one ``—``."""
    out = StringIO()
    with redirect_stdout(out):
        assert main(["report", str(situation.write(folder))]) == 0
    shown = Shown(tolerance=0.003)
    cell = r"(?:(?:≥ |— |)[\d,.]* ?(?:ms)?(?: to [\d,.]+ ms)?(?: ?\([^)]*\))?)"
    for metric, title in (("duration", "duration"), (TTFT, "TTFT, first token")):
        found = re.search(
            rf"^  {title} +([\d,]+)  +({cell})  +({cell})  +({cell})  ",
            out.getvalue(),
            re.MULTILINE,
        )
        assert found, out.getvalue()
        for percentile, text in ((50, found[2]), (95, found[3])):
            numbers = re.findall(r"[\d,]+\.?\d*(?= ms)", text)
            ends = [float(number.replace(",", "")) for number in numbers] or [math.inf]
            is_bound = text.startswith("≥")
            shown.percentiles[metric, percentile] = ends[0], None if is_bound else ends[-1]
    outcomes = re.search(r"outcomes: (.*)", out.getvalue())
    if outcomes is not None:
        by_outcome = {
            name: float(number.replace(",", ""))
            for number, name in re.findall(r"([\d,]+) ([a-z_ ]+)", outcomes[1])
        }
        shown.counts["completed"] = by_outcome.get("completed", 0.0)
        shown.counts["failed"] = sum(by_outcome.get(each, 0.0) for each in FAILED)
        shown.counts["cut"] = sum(
            number for name, number in by_outcome.items() if name.replace(" ", "_") in CUT
        )
    return shown


def histogram_show(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan histogram show --json`` of a histogram log."""
    file = write_log(folder / "a.hlog", situation.requests)
    shown = Shown()
    for row in _document("histogram", "show", file, "--json")["rows"]:
        if row["metric"] not in ("duration", TTFT):
            continue
        for percentile in (50, 95):
            value_ns = row[f"p{percentile}"]
            shown.percentiles[row["metric"], percentile] = (
                None if value_ns is None else value_ns / 1e6
            )
        if row["metric"] == "duration":
            shown.counts["requests"] = row["count"]
    return shown


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
            found = _document("diagnose", source, "--goal", goal, "--limit-ms", limit_ms, "--json")
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
    return _of_comparison(found)


def _of_comparison(found: Mapping[str, Any]) -> Shown:
    # Runs differ by 1 %, and the quantiles of Harrell and Davis are means of near values.
    shown = Shown(judgement=found["judgement"], tolerance=0.025)
    shown.counts["requests"] = found["after"]["units"] / RUNS
    for row in found["rows"]:
        if row["metric"] in ("duration", TTFT) and row["percentile"] in PERCENTILES:
            value_s = row["after_s"]
            shown.percentiles[row["metric"], row["percentile"]] = (
                None if value_s is None else 1e3 * value_s
            )
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


def verify(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan verify --json`` of recordings that exist."""
    sides = _runs(situation, folder)
    found = _document(
        "verify", "--lever", "prefix-cache", "--recorded", *sides, "--goal", "p95 ttft", "--json"
    )
    return replace(_of_comparison(found["comparison"]), judgement=found["judgement"])


_PATH: Final = """\
name = "chat"
[traffic]
arrivals = "poisson"
rate_per_s = 5
[[target]]
metric = "{metric}"
percentile = {percentile}
limit_ms = {limit_ms:g}
"""


def scorecard(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan scorecard --json`` of a recording."""
    return _scored(situation.write(folder))


def scorecard_lines(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan scorecard --json`` of a recording whose histogram logs are gone."""
    return _scored(situation.write(folder, with_log=False))


def scorecard_log(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan scorecard --json`` of a histogram log."""
    return _scored(write_log(folder / "a.hlog", situation.requests))


def _scored(source: Path) -> Shown:
    shown = Shown()
    for metric, percentile in ((TTFT, 95), ("duration", 75)):
        for limit_ms in LIMITS_MS:
            (source.parent / "chat.toml").write_text(
                _PATH.format(metric=metric, percentile=percentile, limit_ms=limit_ms)
            )
            with contextlib.chdir(source.parent):
                document = _document(
                    "scorecard", source, "--target", "chat", "--period", "month", "--json"
                )
            ((card,),) = [document["cards"]]
            (period,) = card["periods"]
            shown = replace(_of_period(period), verdicts=shown.verdicts)
            shown.verdicts[metric, percentile, limit_ms] = period["verdicts"][0]["verdict"]
    return shown


def _of_period(period: Mapping[str, Any]) -> Shown:
    shown = Shown()
    for metric in ("duration", TTFT):
        values = period["metrics"].get(metric)
        if values is None:
            continue
        for each in (50, 95):
            name = f"p{each}"
            value_ns = values[name]
            at_least = values.get("at_least", {})
            if name in values["unbounded"]:
                shown.percentiles[metric, each] = math.inf, math.inf
            elif name in at_least:
                shown.percentiles[metric, each] = at_least[name] / 1e6, None
            else:
                shown.percentiles[metric, each] = None if value_ns is None else value_ns / 1e6
    outcomes = period["outcomes"]
    shown.counts = {
        "requests": period["requests"],
        "completed": outcomes.get("completed", 0),
        "cut": sum(outcomes.get(each, 0) for each in CUT),
        "failed": sum(outcomes.get(each, 0) for each in FAILED),
    }
    return shown


def _load_test(situation: Situation) -> Situation:
    """Return the situation as a load test."""
    if situation.is_load_test:
        return situation
    return replace(
        situation,
        requests=[replace(each, phase="measured") for each in situation.requests],
        before=[replace(each, phase="measured") for each in situation.before],
        is_load_test=True,
    )


def measure(situation: Situation, folder: Path) -> Shown:
    """Read the document of ``latspan measure`` that belongs to the recording of a load test."""
    recording = _load_test(situation).write(folder)
    document = measurement_document(summarize(open_recording(recording)), recording="chat")
    (step,) = json.loads(json.dumps(document))["steps"]
    shown = Shown()
    for latency in step["latencies"]:
        if latency["metric"] not in ("duration", TTFT) or latency["from"] != "schedule":
            continue
        values = latency["all"]
        for percentile in (50, 95):
            name = f"p{percentile}"
            high = math.inf if values[name] is None else 1e3 * values[name]
            low = 1e3 * values["at_least"][name] if name in values["at_least"] else high
            shown.percentiles[latency["metric"], percentile] = (low, high)
        if latency["metric"] == TTFT:
            shown.counts["first tokens"] = latency["n"]
        else:
            shown.counts["cut"] = latency["cut"]
            shown.counts["failed"] = latency["failed"]
    shown.counts["requests"] = sum(step["outcomes"].values())
    for target in step["targets"]:
        limit_ms = 1e3 * target["limit_s"]
        shown.verdicts[target["metric"], target["percentile"], limit_ms] = target["verdict"]
    return shown


def sweep(situation: Situation, folder: Path) -> Shown:
    """Judge the runs of an inference path as ``latspan sweep`` does."""
    load_test = _load_test(situation)
    before, after = (sorted(side.iterdir()) for side in _runs(load_test, folder))
    found = judge("chat", after, pinned=[run_of(open_recording(each)) for each in before])
    assert not found.invalid
    shown = Shown(judgement=found.baseline.judgement.name.lower() if found.baseline else None)
    shown.counts["requests"] = sum(run.units for run in found.runs) / RUNS
    shown.counts["cut"] = sum(run.cut for run in found.runs) / RUNS
    for each in found.targets:
        verdict = None if each.verdict is None else str(each.verdict.verdict)
        limit_ms = each.target.limit_ns / 1e6
        shown.verdicts[each.target.metric, each.target.percentile, limit_ms] = verdict
    # Runs differ by 1 %.
    shown.tolerance = 0.02
    shown.percentiles[TTFT, 95] = None if found.value_ns is None else found.value_ns / 1e6
    return shown


def capacity(situation: Situation, folder: Path) -> Shown:
    """Read the rungs of ``latspan capacity --json``; each has the requests of the situation."""
    load_test = _load_test(situation)
    requests: list[Request] = []
    for number, speed in enumerate((1, 2, 4, 8)):
        requests += [
            replace(each, at_s=1_000 * number + each.at_s / speed, step=number)
            for each in load_test.requests
        ]
    account = load_test.account(load_test.requests)
    assert account is not None
    (step_account,) = account["steps"]
    account["steps"] = [
        {
            **step_account,
            "load": {"pattern": "poisson", "rate_per_s": 5 * speed},
            "offered_per_s": 5.0 * speed,
            "reached_per_s": 5.0 * speed,
            "cut": [index for index in _cut_indexes(requests) if requests[index].step == number],
        }
        for number, speed in enumerate((1, 2, 4, 8))
    ]
    write_recording(folder, requests, measurement=account)
    shown = Shown()
    for metric in ("duration", TTFT):
        for percentile in (50, 95):
            out, err = StringIO(), StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                goal = f"p{percentile} {metric}"
                main(["capacity", str(folder), "--goal", goal, "--json"])
            left_out = re.search(rf"its p{percentile} is at least ([\d.]+) s", err.getvalue())
            if left_out is not None:
                shown.percentiles[metric, percentile] = 1e3 * float(left_out[1]), None
                continue
            assert out.getvalue(), err.getvalue()
            for rung in json.loads(out.getvalue())["rungs"]:
                value_s = rung["value_s"]
                shown.percentiles[metric, percentile] = None if value_s is None else 1e3 * value_s
                if metric == TTFT:
                    shown.counts["first tokens"] = rung["requests"]
                else:
                    shown.counts["requests"] = rung["requests"]
                    shown.counts["failed"] = rung["failed"]
    return shown


def columns(situation: Situation, folder: Path) -> Shown:
    """Compute shares from ``Recording.columns()``, as a notebook does."""
    return _of_columns(
        open_recording(situation.write(folder)).columns(
            "duration", "ttft", "outcome", "ratio", "streamed", "latspan.load.phase"
        )
    )


def _of_columns(found: Mapping[str, Any]) -> Shown:
    """Return the traffic of a table, from its columns alone."""
    requests = [
        Request(
            1e3 * float(found["duration"][row]),
            None if math.isnan(ttft := float(found["ttft"][row])) else 1e3 * ttft,
            found["outcome"][row],
            float(found["ratio"][row]),
            streamed=found["streamed"][row] is not False if "streamed" in found else True,
            phase=phase if isinstance(phase := found["latspan.load.phase"][row], str) else None,
        )
        for row in range(len(found["duration"]))
    ]
    return _of_requests(requests)


def _of_requests(requests: Sequence[Request]) -> Shown:
    shown = Shown(counts=_counts(requests))
    for metric in ("duration", TTFT):
        for each in PERCENTILES:
            shown.percentiles[metric, each] = bounds_of(requests, metric, each)
    return shown


def convert_to_parquet(situation: Situation, folder: Path) -> Shown:
    """Read the table of ``latspan convert --to parquet``."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    recording = situation.write(folder)
    table = folder.with_suffix(".parquet")
    with redirect_stdout(StringIO()):
        assert main(["convert", str(recording), str(table), "--to", "parquet"]) == 0
    found = parquet.read_table(table).to_pydict()
    size = len(found["duration"])
    phases = found.get("latspan.load.phase", [None] * size)
    ttft = [math.nan if each is None else each for each in found["time_to_first_token"]]
    return _of_columns({**found, "ttft": ttft, "latspan.load.phase": phases})


def convert_traces(situation: Situation, folder: Path) -> Shown:
    """Read the recording that ``latspan convert`` makes of OTLP traces."""
    file = write_traces(folder.with_suffix(".jsonl"), situation.requests)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        assert main(["convert", str(file), str(folder)]) == 0
    return _of_requests(
        [
            Request(
                record.duration_ns / 1e6,
                None if (ttft := record.metrics.get(TTFT)) is None else ttft.value / 1e6,
                record.outcome,
                record.ratio,
                streamed=record.streamed is not False,
                phase=str(phase) if (phase := record.details.get("latspan.load.phase")) else None,
            )
            for record in open_recording(folder).records("call")
        ]
    )


def otlp_metrics(situation: Situation, folder: Path) -> Shown:
    """Read the message with the metrics that are exported over OTLP."""
    recorder = Recorder(ManualClock(), keep=0)
    for record in open_recording(situation.write(folder)).records("call"):
        recorder.record(record)
    exact: Counter[float] = Counter()
    bounds: Counter[float] = Counter()
    never = 0
    for name, outcome, point in _exported(recorder):
        if name not in ("latspan.time_to_first_token", "latspan.time_to_first_token.at_least"):
            continue
        if name.endswith(".at_least") and outcome in CUT:
            bounds.update(_values_of(point))
        elif name.endswith(".at_least") or outcome in FAILED:
            never += point.count
        else:
            exact.update(_values_of(point))
    total = exact.total() + bounds.total() + never
    shown = Shown(counts={"first tokens": total}, tolerance=0.005)
    for percentile in PERCENTILES:
        shown.percentiles[TTFT, percentile] = (
            _rank(exact + bounds, total, percentile), _rank(exact, total, percentile)
        )  # fmt: skip
    return shown


def _exported(recorder: Recorder) -> Iterator[tuple[str, str, ExponentialHistogramDataPoint]]:
    parts = metrics_parts(
        recorder.snapshot(),
        resource=Resource({}),
        temporality=AggregationTemporality.CUMULATIVE,
    )
    for part in parts:
        message = ExportMetricsServiceRequest.FromString(
            encode_metrics(part.data).SerializeToString()
        )
        for metric in message.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.exponential_histogram.data_points:
                outcome = str(attributes_of(point.attributes).get("latspan.outcome"))
                yield metric.name, outcome, point


def _values_of(point: ExponentialHistogramDataPoint) -> Counter[float]:
    """Return the middle of each bucket in milliseconds, with its count."""
    base = 2 ** (2**-point.scale)
    return Counter(
        {
            1e3 * base ** (point.positive.offset + index + 0.5): count
            for index, count in enumerate(point.positive.bucket_counts)
            if count
        }
    )


def _rank(values: Counter[float], total: float, percentile: float) -> float:
    needed = percentile / 100 * total - 1e-6
    reached = 0
    for value in sorted(values):
        reached += values[value]
        if reached >= needed:
            return value
    return math.inf


def live(situation: Situation, folder: Path) -> Shown:
    """Read the snapshot of a process while it records."""
    del folder
    clock = ManualClock()
    with capture(clock=clock) as captured:
        for request in situation.requests:
            _make(request, clock)
        return _of_snapshot(captured.snapshot())


def _no_chunks() -> Generator[str]:
    yield from ()


def _make(request: Request, clock: ManualClock) -> None:
    """Make the call of a request."""
    call = open_call(
        operation="chat",
        provider="p",
        model="m",
        api_format=_FORMAT,
        streamed=request.streamed,
    )
    assert call is not None
    duration_ns = round(1e6 * request.duration_ms)
    if request.ttft_ms is None:
        clock.advance(duration_ns)
        if request.outcome == "completed":
            if request.streamed:
                list(track_response(call, _no_chunks()))
            else:
                track_response(call, dict[str, Any]())
        else:
            call.end(Outcome(request.outcome))
        return
    first_ns = round(1e6 * request.ttft_ms)

    def chunks_of() -> Generator[str]:
        clock.advance(first_ns)
        yield "token"
        clock.advance(duration_ns - first_ns)
        yield "token"
        if request.outcome == "error":
            raise ConnectionResetError

    stream = track_response(call, chunks_of())
    next(stream)
    if request.outcome == "closed_early":
        next(stream)
        stream.close()
        return
    if request.outcome == "truncated":
        next(stream)
        call.end(Outcome.TRUNCATED)
        return
    try:
        for _ in stream:
            pass
    except ConnectionResetError:
        pass


_FORMAT: Final = ApiFormat(
    name="test.chat", operation="chat", classify_chunk=lambda _: ChunkKind.VISIBLE
)


def prometheus(situation: Situation, folder: Path) -> Shown:
    """Read ``latspan scorecard --json`` of a Prometheus server."""
    del folder
    end_s = time.time()

    def answer(query: str, at_s: float) -> list[dict[str, Any]]:
        if at_s < end_s - 1:
            return []
        (name,) = set(re.findall(r"latspan_[a-z_]+_seconds|latspan_[a-z_]+_at_least\w*", query))
        found = prometheus_histograms(situation.requests, name)
        if "histogram_count" not in query:
            return [
                {"metric": dict(labels), "histogram": [at_s, {"buckets": buckets}]}
                for labels, buckets in found.items()
            ]
        counts: dict[frozenset[tuple[str, str]], int] = {}
        for labels, buckets in found.items():
            own = frozenset(each for each in labels if each[0] != "latspan_segment")
            count = sum(int(bucket[3]) for bucket in buckets)
            counts[own] = max(counts.get(own, 0), count)
        return [
            {"metric": dict(labels), "value": [at_s, str(count)]}
            for labels, count in counts.items()
        ]

    with prometheus_server(answer) as url:
        document = _document("scorecard", url, "--period", "month", "--json")
    ((card,),) = [document["cards"]]
    return replace(_of_period(card["periods"][-1]), tolerance=0.005)


def console(situation: Situation, folder: Path) -> Shown:
    """Read the line that a process prints for each request."""
    err = StringIO()
    printer = ConsoleLines(lambda run: run(), lambda: 0, waterfalls=False)
    with redirect_stderr(err):
        for record in open_recording(situation.write(folder)).records("call"):
            printer.write(record)
    requests: list[Request] = []
    for line in err.getvalue().splitlines():
        _, duration, *_, outcome = line.split(" · ")
        first = re.search(r"TTFT (≥ )?([\d,.]+) ms", line)
        requests.append(
            Request(
                float(duration.removesuffix(" ms").replace(",", "")),
                None if first is None or first[1] else float(first[2].replace(",", "")),
                outcome,
            )
        )
        assert (first is not None and first[1] is not None) == (
            requests[-1].ttft_ms is None and outcome in CUT
        ), line
    shown = replace(_of_requests(requests), tolerance=0.002)
    if any(each.ttft_ms is None and each.outcome == "completed" for each in requests):
        # A line does not show whether the response was requested as a stream.
        shown.percentiles = {
            key: each for key, each in shown.percentiles.items() if TTFT not in key
        }
        del shown.counts["first tokens"]
    return shown


Reader = Callable[[Situation, Path], Shown]

READERS: Final[Mapping[str, Reader]] = {
    "snapshot": snapshot,
    "snapshot_lines": snapshot_lines,
    "live": live,
    "assert_target": assert_target,
    "assert_no_worse": assert_no_worse,
    "histogram_show_log": histogram_show,
    "report": report,
    "report_lines": report_lines,
    "report_text": report_text,
    "diagnose": diagnose,
    "diagnose_log": diagnose_log,
    "compare": compare,
    "compare_baselines": compare_baselines,
    "compare_logs": compare_logs,
    "verify": verify,
    "scorecard": scorecard,
    "scorecard_lines": scorecard_lines,
    "scorecard_log": scorecard_log,
    "scorecard_prometheus": prometheus,
    "console": console,
    "sweep": sweep,
    "capacity": capacity,
    "measure": measure,
    "convert_to_parquet": convert_to_parquet,
    "convert_traces": convert_traces,
    "otlp_metrics": otlp_metrics,
    "columns": columns,
}

_LOGS_COUNT_ALL: Final = "a histogram log counts each request and is never a sample"
_LOGS_HAVE_NO_PHASES: Final = "a load test logs its measured phase only"
_TESTS_COUNT_ALL: Final = "a test keeps each record and is never a sample"
_TESTS_HAVE_NO_PHASES: Final = "a test is not a load test"
_LIVE_COUNTS_ALL: Final = "a process counts each request; only its recording is a sample"
_LIVE: Final = ("live", "otlp_metrics", "scorecard_prometheus", "console")
_LOAD_TESTS_COUNT_ALL: Final = "a load test records each request and is never a sample"


def _not_applicable() -> Iterator[tuple[tuple[str, str], str]]:
    for phase in ("phase", "cut_at_end"):
        for reader in READERS:
            if reader.endswith(("_log", "_logs")):
                yield (reader, phase), _LOGS_HAVE_NO_PHASES
        for reader in ("assert_target", "assert_no_worse"):
            yield (reader, phase), _TESTS_HAVE_NO_PHASES
        for reader in _LIVE:
            yield (reader, phase), "a process does not know which phase of a load test will count"
    for reader in READERS:
        if reader.endswith(("_log", "_logs")):
            yield (reader, "weighted"), _LOGS_COUNT_ALL
    for reader in ("assert_target", "assert_no_worse"):
        yield (reader, "weighted"), _TESTS_COUNT_ALL
    for reader in _LIVE:
        yield (reader, "weighted"), _LIVE_COUNTS_ALL
    for reader in ("sweep", "capacity", "measure"):
        yield (reader, "weighted"), _LOAD_TESTS_COUNT_ALL
    yield ("convert_traces", "weighted"), "spans do not have the ratio of a tail sample"


NOT_APPLICABLE: Final[Mapping[tuple[str, str], str]] = dict(_not_applicable())
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
        print(f"not applicable: {reader}-{situation}: {reason}")  # noqa: T201 - shown by -rP
        assert reason


# Single truths, each of which an older release got wrong.


def _written_sides(
    folder: Path,
    before: Callable[[int], Sequence[Request]],
    after: Callable[[int], Sequence[Request]],
    *,
    runs: int = 5,
    in_order: bool = False,
) -> tuple[Path, Path]:
    """
    Write recordings of both sides, and return the folders of the sides.

    Args:
        folder: Folder of both.
        before: Returns the requests of a run, which the number of the run may change.
        after: Likewise.
        runs: Number of runs per side.
        in_order: Whether all runs of one side are before those of the other; they alternate if not.
    """
    for run in range(runs):
        for side, requests_of in ((0, before), (1, after)):
            place = side * runs + run if in_order else 2 * run + (run + side) % 2
            requests = _of_run(requests_of(run), run, 1_000 * place)
            write_recording(folder / ("before", "after")[side] / f"run-{run}", requests)
    return folder / "before", folder / "after"


def _judged(sides: tuple[Path, Path], goal: str = "p95 ttft") -> dict[str, Any]:
    return _document("compare", *sides, "--goal", goal, "--json")


def _busy() -> list[Request]:
    """
    Return the lines that the default ``record_rate_limit`` keeps of a quiet and a busy time.

    They stand for 2,800 requests, of which 1,260 (45 %) took 401 ms; of the lines, 12.6 % did.
    """
    return _mixed(
        [Request(600, _varied(100, index)) for index in range(800)],
        [Request(600, _varied(100, index), ratio=0.1) for index in range(74)],
        [Request(900, 401, ratio=0.1) for _ in range(126)],
    )


def test_a_sample_of_busy_times_does_not_hide_that_they_are_slow(tmp_path: Path) -> None:
    """Of all requests, 45 % are above the limit, so the p75 is 401 ms."""
    folder = write_recording(tmp_path / "busy", _busy())
    write_log(folder / "a-1-20251124T000000Z-000000.hlog", unsampled(_busy()))
    assert bounds_of(_busy(), TTFT, 75) == (401, 401)
    found = _document("diagnose", folder, "--goal", "p75 ttft", "--limit-ms", "300", "--json")
    assert found["conclusion"] != "nothing_to_fix"
    assert found["goal"]["verdict"] == "missed"
    assert found["goal"]["value_s"] == pytest.approx(0.401, rel=0.002)


@pytest.mark.parametrize("sampled", ["before", "after"])
def test_one_program_with_and_without_sampling_is_the_same(tmp_path: Path, sampled: str) -> None:
    """Whichever side is a sample."""
    sides = _written_sides(tmp_path, lambda _: unsampled(_busy()), lambda _: _busy())
    before, after = sides if sampled == "after" else reversed(sides)
    found = _judged((before, after), "p75 ttft")
    assert found["judgement"] in _SAME, found["sentence"]
    row = found["rows"][0]
    assert (row["before_s"], row["after_s"]) == pytest.approx((0.401, 0.401), rel=0.02)


def test_a_sample_proves_no_more_than_its_lines_do(tmp_path: Path) -> None:
    """A p99 needs 299 requests without a miss; 100 lines remain 100 if each stands for 100."""
    requests = _mixed([Request(600, _varied(100, index), ratio=0.01) for index in range(100)])
    folder = write_recording(tmp_path / "sample", requests)
    found = _document("diagnose", folder, "--goal", "p99 ttft", "--limit-ms", "300", "--json")
    assert found["goal"]["verdict"] == "undecided"
    assert found["units"] == 10_000


def _counted_by(reader: str, folder: Path) -> float:
    """Return the number of requests that a reader shows."""
    if reader == "snapshot":
        return open_recording(folder).snapshot().count()
    if reader == "report":
        found: float = _document("report", folder, "--json")["summary"]["metrics"]["duration"]["n"]
        return found
    if reader == "diagnose":
        return _document("diagnose", folder, "--goal", "p75 duration", "--json")["units"]
    if reader == "compare":
        # With two runs per side, no bootstrap is needed.
        for run in range(4):
            side = folder.with_name(f"side-{run // 2}")
            copied = shutil.copytree(folder, side / f"run-{run}")
            manifest = json.loads((copied / "recording.json").read_text())
            (copied / "recording.json").write_text(json.dumps({**manifest, "id": f"{run:016x}"}))
        sides = folder.with_name("side-0"), folder.with_name("side-1")
        return _document("compare", *sides, "--json")["after"]["units"] / 2
    ((card,),) = [_document("scorecard", folder, "--period", "month", "--json")["cards"]]
    return card["periods"][0]["requests"]


_COUNTING: Final = ("snapshot", "report", "diagnose", "compare", "scorecard")


@pytest.mark.parametrize("reader", _COUNTING)
def test_a_line_of_a_killed_process_counts_its_fraction(tmp_path: Path, reader: str) -> None:
    """Not a rounded one: 300 lines of three in ten requests are 1,000 requests."""
    requests = _mixed(_fast(300, ratio=0.3), _fast(500))
    folder = write_recording(tmp_path / "killed", requests, killed=True)
    assert _counted_by(reader, folder) == pytest.approx(1_500, abs=1)


@pytest.mark.parametrize("ratio", [1, 0.5])
# The document of a report has the values of calls, and single requests.
@pytest.mark.parametrize("reader", [each for each in _COUNTING if each != "report"])
def test_a_request_with_two_calls_counts_once(tmp_path: Path, reader: str, ratio: float) -> None:
    """In a sample too, where each line has the fraction of its request."""
    requests = _mixed(_fast(200, calls=2, ratio=ratio))
    folder = write_recording(tmp_path / "nested", requests)
    if ratio < 1:
        write_log(folder / "a-1-20251124T000000Z-000000.hlog", unsampled(requests))
    assert _counted_by(reader, folder) == 200 / ratio


def _half_gone(count: int = 200) -> list[Request]:
    """Return calls of which every other one was cancelled after 5 s without a token."""
    return _mixed(_fast(count // 2), [Request(5_000, None, "cancelled") for _ in range(count // 2)])


def test_a_target_is_not_met_if_half_of_the_callers_left(tmp_path: Path) -> None:
    """They waited 25 times as long as the target allows."""
    captured = _captured(write_recording(tmp_path / "gone", _half_gone()))
    with pytest.raises(AssertionError):
        captured.assert_target("p95 ttft", limit_ms=200, kind="call", undecided="fail")


def test_a_diagnosis_has_something_to_fix_if_half_of_the_callers_left(tmp_path: Path) -> None:
    """The time that they waited is in the slow segment."""
    folder = write_recording(tmp_path / "gone", _half_gone())
    found = _document("diagnose", folder, "--goal", "p95 ttft", "--limit-ms", "200", "--json")
    assert found["conclusion"] not in ("nothing_to_fix", "unreliable"), found["sentence"]
    assert found["goal"]["verdict"] == "missed"
    assert found["shares"][0]["segment"] == "prefill"
    assert found["shares"][0]["slow_s"] == pytest.approx(5, rel=0.01)


@pytest.mark.parametrize("source", ["recording", "log"])
def test_a_scorecard_is_not_met_if_half_of_the_callers_left(tmp_path: Path, source: str) -> None:
    """Neither that of a recording nor that of a histogram log."""
    path = tmp_path / "gone"
    if source == "recording":
        write_recording(path, _half_gone())
    else:
        path = write_log(path / "a.hlog", _half_gone())
    shown = _scored(path)
    assert shown.verdicts[TTFT, 95, 200.0] == "missed"


def test_a_change_is_no_improvement_if_users_leave_the_slow_answers(tmp_path: Path) -> None:
    """A tenth of the responses took 8 s before; after, their users leave after 5 s."""

    def slow(_: int) -> list[Request]:
        return _mixed(_fast(180), [Request(9_000, _varied(8_000, index)) for index in range(20)])

    def left(_: int) -> list[Request]:
        return _mixed(_fast(180), [Request(5_000, None, "cancelled") for _ in range(20)])

    for goal in ("p95 ttft", "p95 duration"):
        found = _judged(_written_sides(tmp_path / goal, slow, left), goal)
        assert found["judgement"] != "improved", found["sentence"]


def test_requests_that_guidellm_cut_are_lower_bounds(tmp_path: Path) -> None:
    """Of 100 requests of 8 s and 100 that were cut after 2 s, the median is from 2 to 8 s."""
    report = json.loads((Path(__file__).parents[1] / "data" / "guidellm-0.8.1.json").read_text())
    benchmark = report["benchmarks"][0]
    whole = benchmark["requests"]["successful"][0]
    begin_s = whole["info"]["timings"]["request_start"]
    benchmark["requests"] = {
        "successful": [_guidellm(whole, begin_s + index, 8.0) for index in range(100)],
        "incomplete": [_guidellm(whole, begin_s + index, None) for index in range(100)],
        "errored": [],
    }
    file = tmp_path / "guidellm.json"
    file.write_text(json.dumps(report))
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        assert main(["convert", str(file), str(tmp_path / "rival")]) == 0
    taken = open_recording(tmp_path / "rival").snapshot()
    assert taken.percentile("duration", 50, default=None) is None
    assert tuple(taken.percentile_bounds("duration", 50, unit="s")) == pytest.approx(
        (2, 8), rel=0.002
    )


def _guidellm(whole: Mapping[str, Any], begin_s: float, length_s: float | None) -> dict[str, Any]:
    """Return a request of guidellm's report that took so long, or was cut after 2 s."""
    found = json.loads(json.dumps(whole))
    timings = found["info"]["timings"]
    end_s = begin_s + (2.0 if length_s is None else length_s)
    first_s = None if length_s is None else begin_s + 0.9 * length_s
    timings |= {
        "queued": begin_s - 0.01,
        "dequeued": begin_s - 0.005,
        "scheduled_at": begin_s - 0.005,
        "resolve_start": begin_s,
        "request_start": begin_s,
        "first_request_iteration": first_s,
        "first_token_iteration": first_s,
        "first_output_token_iteration": first_s,
        "last_token_iteration": None if first_s is None else end_s,
        "last_request_iteration": None if first_s is None else end_s,
        "request_iterations": 0 if first_s is None else timings["request_iterations"],
        "token_iterations": 0 if first_s is None else timings["token_iterations"],
        "request_end": end_s,
        "resolve_end": end_s,
        "finalized": end_s + 0.01,
    }
    found["info"] |= {"started_at": begin_s, "completed_at": end_s}
    found |= {
        "request_start_time": begin_s,
        "request_end_time": end_s,
        "request_latency": end_s - begin_s,
    }
    if length_s is None:
        found["info"]["status"] = "cancelled"
        found |= {"response_id": None, "output": None, "time_to_first_token_ms": None}
    else:
        found |= {"time_to_first_token_ms": 900 * length_s}
    return found


@pytest.mark.parametrize("logs", ["before", "after"])
def test_recordings_and_logs_of_the_same_runs_are_the_same(tmp_path: Path, logs: str) -> None:
    """Requests are not compared with the two calls inside each of them."""

    def requests(run: int) -> list[Request]:
        return _of_run(_mixed(_fast(200, calls=2)), run, 2_000 * run)

    for run in range(4):
        write_recording(tmp_path / "recordings" / f"run-{run}", requests(run))
        write_log(tmp_path / "logs" / f"run-{run}" / "a.hlog", requests(run))
    sides = tmp_path / "recordings", tmp_path / "logs"
    before, after = sides if logs == "after" else reversed(sides)
    found = _judged((before, after), "p95 duration")
    assert found["judgement"] not in ("improved", "worse"), found["sentence"]
    assert not [row for row in found["rows"] if row["change"] in ("improved", "worse")]
    row = found["rows"][0]
    if row["ratio"] is not None and found["judgement"] != "not_interpretable":
        assert row["ratio"] == pytest.approx(1, rel=0.01)


def test_another_mix_of_routes_is_no_improvement(tmp_path: Path) -> None:
    """From 80/20 to 97/3 of a fast and a slow route, of which neither changed."""

    def mix(fast: int, slow: int) -> Callable[[int], list[Request]]:
        return lambda _: _mixed(
            _fast(fast),
            [
                Request(_varied(3_000, index), _varied(1_000, index), route="/digest")
                for index in range(slow)
            ],
        )

    for goal in ("p95 ttft", "p95 duration"):
        sides = _written_sides(tmp_path / goal, mix(320, 80), mix(1_940, 60))
        found = _judged(sides, goal)
        assert found["judgement"] != "improved", found["sentence"]
        if found["judgement"] in _SAME:
            assert found["rows"][0]["ratio"] == pytest.approx(1, rel=0.05)


def test_half_of_the_traffic_is_not_interpretable(tmp_path: Path) -> None:
    """A system with half of the load is faster without a change."""

    def day(factor: float, seconds: float) -> Callable[[int], list[Request]]:
        return lambda _: [
            replace(
                each,
                at_s=each.at_s * seconds / 60,
                ttft_ms=factor * each.ttft_ms,
                duration_ms=factor * each.duration_ms,
            )
            for each in _mixed(_fast(300))
            if each.ttft_ms is not None
        ]

    found = _judged(_written_sides(tmp_path, day(1, 60), day(0.7, 120)))
    assert found["judgement"] == "not_interpretable", found["sentence"]
    assert "rate" in {each["name"] for each in found["differences"] if each["explains"]}


def test_shorter_answers_of_a_server_without_usage_are_no_improvement(tmp_path: Path) -> None:
    """The number of chunks shows that they have half of the length."""

    def answers(chunks: int) -> Callable[[int], list[Request]]:
        return lambda _: _mixed(
            [
                Request(100 + 10 * chunks, _varied(100, index), output=None, chunks=chunks)
                for index in range(300)
            ]
        )

    found = _judged(_written_sides(tmp_path, answers(100), answers(50)), "p95 duration")
    assert found["judgement"] != "improved", found["sentence"]


def test_answers_with_another_tail_of_lengths_are_no_improvement(tmp_path: Path) -> None:
    """Of 50 and 150 tokens before, and of 100 after: the mean is the same, the p95 is not."""

    def answers(*lengths: int) -> Callable[[int], list[Request]]:
        return lambda _: _mixed(
            *(
                [
                    Request(100 + 10 * tokens, _varied(100, index), output=tokens, chunks=tokens)
                    for index in range(300 // len(lengths))
                ]
                for tokens in lengths
            )
        )

    found = _judged(_written_sides(tmp_path, answers(50, 150), answers(100)), "p95 duration")
    assert found["judgement"] != "improved", found["sentence"]


def test_a_drift_is_no_improvement_if_one_side_was_measured_first(tmp_path: Path) -> None:
    """Each run is 4 % faster than the one before, whichever side it belongs to."""

    def drifted(first: int) -> Callable[[int], list[Request]]:
        def requests(run: int) -> list[Request]:
            factor = 0.96 ** (first + run)
            return _mixed(
                [
                    Request(factor * _varied(1_000, index), factor * _varied(100, index))
                    for index in range(300)
                ]
            )

        return requests

    found = _judged(_written_sides(tmp_path, drifted(0), drifted(5), in_order=True))
    assert found["judgement"] != "improved", found["sentence"]
