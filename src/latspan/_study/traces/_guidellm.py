"""
Records from guidellm's benchmark report in JSON, version 0.4 to 0.8.

guidellm measures with the wall clock, and records of a request when it was started, when its first
and last token came and when it ended. Prompts and responses are in the report and are not read.

A request that the end of the benchmark cut off is in the group ``incomplete``. It is a cancelled
call whose duration is the time that it had waited. guidellm ignores requests that it had not begun.

Source: guidellm 0.8.1, ``guidellm/schemas``: ``GenerativeRequestStats``, ``RequestTimings``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._base.shown import address
from latspan._model.metrics import (
    DURATION,
    TIME_PER_OUTPUT_TOKEN,
    TIME_TO_FIRST_CHUNK,
    TIME_TO_FIRST_TOKEN,
    TIME_TO_FIRST_VISIBLE_TOKEN,
    MetricValue,
    time_per_output_token,
)
from latspan._model.recording import RequestRecord
from latspan._model.recording.folder import LoadTest, StepAccount
from latspan._model.segments import Kind, Mark, Outcome, Phase, Segment, SegmentName, Source
from latspan._model.text import count
from latspan._model.tokens import UNKNOWN_TOKENS, TokenCounts, TokenSource
from latspan._study.traces._imported import Imported
from latspan._study.traces._spans import (
    EXCESS_NS,
    EXCESS_SHARE,
    UNREADABLE,
    SpanFault,
    checked_ns,
    fault_of,
)
from latspan.errors import RecordingError

_TOO_MANY: Final = "429 Too Many Requests"
_HEAD_BYTES: Final = 4096
_MARKS_IN_HEAD: Final = (b'"guidellm_version"', b'"generative_benchmark"', b'"benchmarks"')
_HINT: Final = "use the JSON report of guidellm 0.4 or newer: --output kind=json,path=out.json"

_OUTCOMES: Final = {
    "successful": Outcome.COMPLETED,
    "errored": Outcome.ERROR,
    "incomplete": Outcome.CANCELLED,
}
_MARKS: Final = {
    Mark.FIRST_CHUNK: "first_request_iteration",
    Mark.FIRST_TOKEN: "first_token_iteration",
    Mark.FIRST_VISIBLE: "first_output_token_iteration",
    Mark.LAST_TOKEN: "last_token_iteration",
}
_WITH_SCHEDULE: Final = frozenset({"async", "constant", "poisson", "trace", "replay"})
"""Strategies in which each request is due at an instant of its own."""

_EARLIEST_S: Final = 3600.0
"""Time before the first request, in seconds, up to which a scheduled instant is possible."""

_LACKS: Final = (
    "times are of the wall clock, which can be adjusted during a request",
    "connecting, sending and the server's work before the first token are one unattributed segment",
    "chunk gaps are missing",
)


def is_guidellm(path: str | os.PathLike[str]) -> bool:
    """
    Return whether a file looks like a report of guidellm, judged by its beginning.

    Raises:
        OSError: The file cannot be read.
    """
    with Path(path).open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return b'"resourceSpans"' not in head and any(each in head for each in _MARKS_IN_HEAD)


def read_guidellm(path: str | os.PathLike[str]) -> Imported:
    """
    Return the requests of all benchmarks in a report.

    Args:
        path: The report.

    Raises:
        OSError: The file cannot be read.
        RecordingError: The file is not a report that this release can read.
    """
    text = Path(path).read_bytes()
    try:
        report = json.loads(text)
        benchmarks: Sequence[Mapping[str, Any]] = report["benchmarks"]
        model = _model_of(report)
        several = len(benchmarks) > 1
        read = [
            _Benchmark(each, model, number if several else None)
            for number, each in enumerate(benchmarks)
        ]
        records = tuple(record for each in read for record in each.records())
        misdated = sum(each.misdated for each in read)
        left_out = (sentence for each in read for sentence in each.left_out())
        return Imported(
            "guidellm",
            tuple(sorted(records, key=lambda each: each.start_epoch_ns + each.duration_ns)),
            _LACKS,
            (f"scheduled instants of {misdated:,} requests, which are impossible",)
            if misdated
            else (),
            conditions=_conditions(report, model),
            load_test=LoadTest(kind=Kind.CALL, steps=tuple(each.account() for each in read)),
            left_out=tuple(left_out),
        )
    except UNREADABLE as error:
        raise RecordingError(
            f"{os.fspath(path)} is not a report of guidellm that this release can read:"
            f" {type(error).__name__}",
            hint=_HINT,
        ) from error


class _Benchmark:
    """
    One benchmark of a report: a load at one level.

    Args:
        benchmark: The benchmark.
        model: The requested model, if the report has it.
        number: Its number, from 0, if the report has several.
    """

    def __init__(
        self, benchmark: Mapping[str, Any], model: str | None, number: int | None = None
    ) -> None:
        self._number = number
        self._requests: Mapping[str, Any] = benchmark["requests"]
        config: Mapping[str, Any] = benchmark.get("config", {})
        self._strategy: Mapping[str, Any] = config.get("strategy", {})
        self._sample_size: object = config.get("sample_size")
        self._attributes = {} if model is None else {"model": model}
        metrics = benchmark.get("scheduler_metrics", {})
        self._from: float = metrics.get("measure_start_time") or float("-inf")
        self._made: Mapping[str, int] = metrics.get("requests_made") or {}
        self._until: float = metrics.get("measure_end_time") or float("inf")
        self._begun: float = benchmark.get("start_time") or float("-inf")
        self._unsent = 0
        self._read = 0
        self._faults: Counter[SpanFault] = Counter()
        self._outside = 0
        self.misdated = 0

    def records(self) -> Iterator[RequestRecord]:
        for state, outcome in _OUTCOMES.items():
            for request in self._requests.get(state) or ():
                timings = request["info"]["timings"]
                if timings["request_start"] is None:
                    self._unsent += 1
                    continue
                self._read += 1
                start, end = _instant(timings["request_start"]), _instant(_end_of(timings))
                fault = fault_of(start, end)
                if fault is not None:
                    self._faults[fault] += 1
                    continue
                yield self._record(request, timings, outcome)

    def left_out(self) -> Iterator[str]:
        """Yield which requests and values are missing, after the records were read."""
        for fault in SpanFault:
            if self._faults[fault]:
                yield fault.sentence(self._faults[fault], "request")
        if self._outside:
            yield (
                f"instants of {count(self._outside, 'request')} were left out: they are outside"
                " the request"
            )
        kept = {state: len(self._requests.get(state) or ()) for state in _OUTCOMES}
        made = {state: self._made.get(state, number) for state, number in kept.items()}
        if self._sample_size is not None and any(kept[state] < made[state] for state in kept):
            listed = ", ".join(f"{kept[state]:,} of {made[state]:,} {state}" for state in kept)
            yield (
                f"guidellm kept a sample of each group of requests ({listed}), so the shares of"
                " the outcomes are not those of the load test"
            )

    def account(self) -> StepAccount:
        """Return the account of the benchmark, after its records were read."""
        return StepAccount(
            load={
                name: value
                for name, value in self._strategy.items()
                if isinstance(value, str | int | float)
            },
            intended=self._read + self._unsent,
            unsent=self._unsent,
        )

    def _record(
        self, request: Mapping[str, Any], timings: Mapping[str, Any], outcome: Outcome
    ) -> RequestRecord:
        start: float = timings["request_start"]
        start_ns, end_ns = (checked_ns(_instant(each)) for each in (start, _end_of(timings)))
        duration_ns = end_ns - start_ns
        known = {
            mark: round((at - start) * NS_PER_S)
            for mark, name in _MARKS.items()
            if (at := timings.get(name)) is not None
        }
        # guidellm's clock can be adjusted in the middle of a request.
        excess_ns = max(EXCESS_NS, duration_ns // EXCESS_SHARE)
        if any(not -excess_ns <= at_ns <= duration_ns + excess_ns for at_ns in known.values()):
            self._outside += 1
            known = {}
        marks = {mark: min(max(0, at_ns), duration_ns) for mark, at_ns in known.items()}
        tokens = _tokens(request)
        details: dict[str, object] = {
            semconv.LATSPAN_LOAD_PHASE: Phase.WARMUP.value
            if start < self._from
            else Phase.MEASURED.value
            if start <= self._until
            else Phase.DRAIN.value
        }
        if self._number is not None:
            details[semconv.LATSPAN_LOAD_STEP] = self._number
        targeted = timings.get("targeted_start")
        if targeted is not None and self._strategy.get("type_") in _WITH_SCHEDULE:
            if targeted < self._begun - _EARLIEST_S:
                # Release 0.8.1 writes some of these instants relative to the start.
                self.misdated += 1
            else:
                details[semconv.LATSPAN_LOAD_DISPATCH_LAG] = max(0.0, start - targeted)
        if request.get("response_id"):
            details[semconv.GEN_AI_RESPONSE_ID] = request["response_id"]
        error = str(request["info"].get("error") or "")
        if outcome is Outcome.ERROR and "timeout" in error.lower():
            outcome = Outcome.TIMEOUT
        elif outcome is Outcome.ERROR and _TOO_MANY in error:
            outcome = Outcome.REJECTED
        return RequestRecord(
            name=" ".join(("chat", *self._attributes.values())),
            kind=Kind.CALL,
            outcome=outcome,
            start_epoch_ns=start_ns,
            duration_ns=duration_ns,
            segments=tuple(_segments(marks, duration_ns, outcome)),
            metrics=_metrics(marks, duration_ns, tokens, outcome),
            tokens=tokens,
            attributes=self._attributes,
            marks_ns={Mark.START.value: 0, **marks, Mark.DONE.value: duration_ns},
            details=details,
        )


def _end_of(timings: Mapping[str, Any]) -> object:
    return timings.get("request_end") or timings.get("resolve_end")


def _instant(seconds: object) -> int:
    """Return a Unix time in nanoseconds; 0 if there is none."""
    return round(cast("float", seconds or 0) * NS_PER_S)


def _segments(marks: Mapping[Mark, int], duration_ns: int, outcome: Outcome) -> Iterator[Segment]:
    first = marks.get(Mark.FIRST_TOKEN, duration_ns)
    last = max(first, marks.get(Mark.LAST_TOKEN, duration_ns))
    if outcome is not Outcome.COMPLETED:
        # It still waited for the next token, and never came to closing the stream.
        last = duration_ns
    for name, start_ns, end_ns, source in (
        (SegmentName.UNATTRIBUTED, 0, first, Source.UNKNOWN),
        (SegmentName.DECODE, first, last, Source.MEASURED),
        (SegmentName.STREAM_CLOSE, last, duration_ns, Source.MEASURED),
    ):
        if start_ns < end_ns:
            yield Segment(name, start_ns, end_ns, source)


def _metrics(
    marks: Mapping[Mark, int], duration_ns: int, tokens: TokenCounts, outcome: Outcome
) -> dict[str, MetricValue]:
    metrics = {DURATION: MetricValue(duration_ns)}
    for name, mark in (
        (TIME_TO_FIRST_CHUNK, Mark.FIRST_CHUNK),
        (TIME_TO_FIRST_TOKEN, Mark.FIRST_TOKEN),
        (TIME_TO_FIRST_VISIBLE_TOKEN, Mark.FIRST_VISIBLE),
    ):
        if mark in marks:
            metrics[name] = MetricValue(marks[mark])
    whole = outcome is Outcome.COMPLETED and {Mark.FIRST_TOKEN, Mark.LAST_TOKEN} <= marks.keys()
    if whole and tokens.output is not None:
        generation_ns = marks[Mark.LAST_TOKEN] - marks[Mark.FIRST_TOKEN]
        each_ns = time_per_output_token(generation_ns, tokens.output)
        if each_ns is not None and generation_ns > 0:
            metrics[TIME_PER_OUTPUT_TOKEN] = MetricValue(each_ns)
    return metrics


def _tokens(request: Mapping[str, Any]) -> TokenCounts:
    counted = {
        "input": request.get("input_metrics", {}).get("total_tokens"),
        "cached": request.get("input_metrics", {}).get("cached_tokens"),
        "output": request.get("output_metrics", {}).get("total_tokens"),
    }
    known = {
        name: int(value) for name, value in counted.items() if value is not None and value >= 0
    }
    return TokenCounts(**known, source=TokenSource.PROVIDER) if known else UNKNOWN_TOKENS


def _model_of(report: Mapping[str, Any]) -> str | None:
    model = _backend_of(report).get("model")
    return model if isinstance(model, str) and model else None


def _backend_of(report: Mapping[str, Any]) -> Mapping[str, Any]:
    backend: object = report.get("config", {}).get("spec", {}).get("backend", {})
    return cast("Mapping[str, Any]", backend) if isinstance(backend, dict) else {}


def _conditions(report: Mapping[str, Any], model: str | None) -> dict[str, object]:
    metadata: Mapping[str, Any] = report.get("metadata", {})
    target: object = _backend_of(report).get("target")
    known = {
        "guidellm": metadata.get("guidellm_version"),
        "python": metadata.get("python_version"),
        "platform": metadata.get("platform"),
        "model": model,
        "measured": target if target is None else address(str(target)),
    }
    return {name: value for name, value in known.items() if isinstance(value, str)}
