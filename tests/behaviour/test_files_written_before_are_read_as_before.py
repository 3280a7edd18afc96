"""
Traces, logs, recordings and a baseline of an older latspan are read with the same numbers.

The numbers to compare with come from :mod:`json`, sorting, and the package ``hdrhistogram``. Only
what is compared comes from latspan.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import pytest
from hdrh.histogram import HdrHistogram

from latspan import open_recording
from latspan._study.compare import runs_in
from latspan._study.traces import read_otlp
from latspan.histogram import LogTotals, read_log

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "before_38"
RECORDINGS: Final = ("recording", "sampled", "load_test")
PERCENTILES: Final = (50.0, 90.0, 100.0)
OUTCOMES: Final = {
    "abandoned": 1,
    "cancelled": 1,
    "closed_early": 1,
    "completed": 7,
    "error": 2,
    "rejected": 1,
    "timeout": 1,
    "truncated": 1,
}
"""Outcomes of the calls of the program in README.md, in its traces and in its recording."""


def rows_of(folder: str) -> list[dict[str, Any]]:
    """Return the lines of a recording as JSON."""
    return [
        json.loads(line)
        for path in sorted((GOLDEN / folder).glob("requests-*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def ranked(values: Iterable[int], percentile: float) -> int:
    """Return a percentile by rank, from sorted values."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percentile / 100), 1) - 1]


def decoded(text: str) -> Any:
    """Return a histogram as the reference implementation reads it."""
    return cast("Any", HdrHistogram).decode(text)


def logged(folder: str) -> dict[str, list[Any]]:
    """Return the histograms of a recording's logs by tag, one per interval."""
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for path in (GOLDEN / folder).glob("*.hlog"):
        for line in path.read_text().splitlines():
            if line.startswith("Tag="):
                tag, _, _, _, text = line.split(",")
                found[tag.removeprefix("Tag=")].append(decoded(text))
    return dict(found)


def counted(folder: str, metric: str) -> Counter[tuple[str, str]]:
    """Return the number of values of a metric in the logs of a recording, by kind and outcome."""
    counts: Counter[tuple[str, str]] = Counter()
    for tag, histograms in logged(folder).items():
        name, _, query = tag.partition("?")
        if name == metric:
            labels = dict(parse_qsl(query))
            counts[labels["kind"], labels["outcome"]] += sum(
                each.get_total_count() for each in histograms
            )
    return counts


def spans() -> Iterator[dict[str, Any]]:
    """Yield the spans with a kind of the trace file, their attributes as a mapping."""
    for line in (GOLDEN / "traces.jsonl").read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    span["attributes"] = {
                        each["key"]: next(iter(each["value"].values()))
                        for each in span["attributes"]
                    }
                    if "latspan.kind" in span["attributes"]:
                        yield span


def test_the_spans_of_a_trace_file_are_the_same_requests() -> None:
    """Kind, outcome, times and first token of each span; a parent for each call in a request."""
    written = {int(span["spanId"], 16): span for span in spans()}
    read = {record.span_id: record for record in read_otlp(GOLDEN / "traces.jsonl").records}
    by_scope = {record.scope_id: record for record in read.values() if record.scope_id}

    assert read.keys() == written.keys()
    for span_id, span in written.items():
        record, attributes = read[span_id], span["attributes"]
        start_ns, end_ns = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        first_s = attributes.get("latspan.time_to_first_token")
        first = record.metrics.get("time_to_first_token")
        assert (record.kind, record.outcome, record.name) == (
            attributes["latspan.kind"],
            attributes["latspan.outcome"],
            span["name"],
        )
        assert (record.start_epoch_ns, record.duration_ns) == (start_ns, end_ns - start_ns)
        assert (first and first.value) == (first_s and round(first_s * 1e9))
        parent = int(span.get("parentSpanId") or "0", 16)
        above = by_scope.get(record.parent_id)
        assert (above.span_id if above else 0) == (parent if parent in written else 0)
    calls = [each for each in read.values() if each.kind == "call"]
    assert Counter(map(str, (each.outcome for each in calls))) == OUTCOMES


def test_a_segment_of_a_trace_keeps_its_length() -> None:
    """The lengths of the segments with a span, and the time of the stage."""
    stages = [each for each in spans() if each["attributes"]["latspan.kind"] == "stage"]
    read = {record.span_id: record for record in read_otlp(GOLDEN / "traces.jsonl").records}

    assert len(stages) == 3
    for span in stages:
        record = read[int(span["spanId"], 16)]
        length_ns = int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])
        assert [(each.name, each.duration_ns) for each in record.segments] == [
            ("rerank", length_ns)
        ]


@pytest.mark.parametrize("folder", RECORDINGS)
def test_the_lines_of_a_recording_are_the_same_records(folder: str) -> None:
    """Everything that a line has, in the order of the lines."""
    rows = rows_of(folder)
    records = list(open_recording(GOLDEN / folder).records())

    assert len(records) == len(rows) > 20
    for row, record in zip(rows, records, strict=True):
        assert (record.kind, record.name, record.outcome) == (
            row["kind"],
            row["name"],
            row["outcome"],
        )
        assert record.start_epoch_ns == row["start_epoch_ns"]
        assert record.duration_ns == row["duration_ns"]
        assert record.ratio == row.get("ratio", 1)
        assert [
            [each.name, each.start_ns, each.end_ns, str(each.source)] for each in record.segments
        ] == row["segments"]
        for name, value in row["metrics"].items():
            wanted = cast("list[int]", value)[0] if isinstance(value, list) else value
            assert record.metrics[name].value == wanted
        assert record.attributes == row.get("attributes", {})
        assert record.marks_ns == row.get("marks_ns", {})
        # A later release may add details of its own.
        assert row.get("details", {}).items() <= record.details.items()


def test_the_recording_has_every_outcome() -> None:
    """The program in README.md ended one call in each way."""
    records = open_recording(GOLDEN / "recording").records("call")

    assert Counter(str(record.outcome) for record in records) == OUTCOMES


@pytest.mark.parametrize("folder", RECORDINGS)
def test_a_log_has_the_same_series(folder: str) -> None:
    """Number of values, maximum and percentiles by tag, as the reference implementation reads."""
    wanted = logged(folder)
    totals = LogTotals()
    for path in (GOLDEN / folder).glob("*.hlog"):
        for interval in read_log(path):
            totals.add(interval)

    assert totals.series.keys() == wanted.keys()
    assert len(wanted) > 20
    for tag, (first, *others) in wanted.items():
        for other in others:
            first.add(other)
        histogram = totals.series[tag].histogram
        assert histogram.count == first.get_total_count()
        top = first.get_highest_equivalent_value(first.get_max_value())
        assert first.get_lowest_equivalent_value(top) <= histogram.max_ns <= top
        # Its own percentiles are approximate, and its iterator is slow.
        if not tag.startswith("duration?"):
            continue
        seen = 0
        for each in first.get_recorded_iterator():
            before, seen = seen, seen + each.count_added_in_this_iter_step
            lowest = first.get_lowest_equivalent_value(each.value_iterated_to)
            highest = first.get_highest_equivalent_value(each.value_iterated_to)
            for percentile in PERCENTILES:
                if before < max(math.ceil(histogram.count * percentile / 100), 1) <= seen:
                    assert lowest <= histogram.value_at_percentile(percentile) <= highest
        assert seen == histogram.count


@pytest.mark.parametrize("folder", ["recording", "sampled"])
def test_a_snapshot_counts_what_the_log_counts(folder: str) -> None:
    """Also where the lines are only a sample: the histograms count every request."""
    counts = counted(folder, "duration")
    snapshot = open_recording(GOLDEN / folder).snapshot()

    assert sum(counts.values()) > 20
    for (kind, outcome), number in counts.items():
        assert snapshot.count(kind=kind, outcome=outcome) == number


def test_a_sampled_recording_states_its_ratios() -> None:
    """It has fewer lines than requests, each with the fraction that it was chosen with."""
    rows = rows_of("sampled")
    ratios = {record.ratio for record in open_recording(GOLDEN / "sampled").records()}

    assert {row.get("ratio", 1) for row in rows} == ratios
    assert min(ratios) < 1
    assert len(rows) < sum(counted("sampled", "duration").values())


def test_a_percentile_of_a_recording_is_that_of_its_lines() -> None:
    """Of the completed requests: exact to the width of a bucket."""
    values = [
        row["duration_ns"]
        for row in rows_of("recording")
        if (row["kind"], row["outcome"]) == ("call", "completed")
    ]
    snapshot = open_recording(GOLDEN / "recording").snapshot()
    read = snapshot.percentile("duration", 50, unit="ns", kind="call", outcome="completed")

    assert read == pytest.approx(ranked(values, 50), rel=1 / 1024)


def test_a_load_test_is_its_measured_phase() -> None:
    """Number and outcomes of the measured calls, and the percentiles of those that completed."""
    measured = [
        row
        for row in rows_of("load_test")
        if row["details"]["latspan.load.phase"] == "measured" and row["kind"] == "call"
    ]
    recording = open_recording(GOLDEN / "load_test")
    snapshot = recording.snapshot()
    completed = [row for row in measured if row["outcome"] == "completed"]

    assert recording.manifest["measurement"]["steps"][0]["intended"] == len(measured) == 20
    for outcome, number in Counter(row["outcome"] for row in measured).items():
        assert snapshot.count(kind="call", outcome=outcome) == number
    for metric in ("duration", "time_to_first_token"):
        values = [row["metrics"][metric] for row in completed]
        read = snapshot.percentile(metric, 90, unit="ns", kind="call", outcome="completed")
        assert read == pytest.approx(ranked(values, 90), rel=1 / 1024)
    lags = recording.columns("dispatch_lag", kind="call")["dispatch_lag"].tolist()
    assert lags == [row["details"]["latspan.load.dispatch_lag"] for row in rows_of("load_test")]


def test_the_runs_of_a_baseline_are_the_same() -> None:
    """Units, conditions, the values of each histogram and the times near each percentile."""
    document: Mapping[str, Any] = json.loads((GOLDEN / "baseline.json").read_text())
    runs = runs_in(GOLDEN / "baseline.json")

    assert len(runs) == len(document["runs"]) == 3
    for run, row in zip(runs, document["runs"], strict=True):
        assert (str(run.kind), run.units, run.failed) == (row["kind"], row["units"], row["failed"])
        assert run.conditions == row["conditions"]
        for name, held in row["histograms"].items():
            histogram, sample = decoded(held["counts"]), run.samples[name]
            assert int(sample.counts.sum()) == histogram.get_total_count()
            assert sample.failed == held["failed"]
            assert float(sample.values.max()) == pytest.approx(
                histogram.get_max_value(), rel=1 / 1024, abs=1
            )
        assert row["bands"]
        for name, band in row["bands"].items():
            metric, percentile = name.partition(" ")[2], float(name[1:].partition(" ")[0])
            found = run.band(metric, percentile)
            assert found is not None
            assert (found.value_ns, found.size) == (band["mean_ns"], band["requests"])
            assert found.segments_ns == band["segments_ns"]
