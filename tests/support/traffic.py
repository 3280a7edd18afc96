"""
Traffic with a known truth: requests, what is known of each, and the files that hold them.

The lines, manifests and histogram logs are written here by hand, from
``docs/reference/recording-1.schema.json`` and ``docs/guides/histogram-files.md``, and the truth is
computed by sorting, counting and dividing. So neither depends on the code that reads them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qs, quote

from hdrh.histogram import HdrHistogram

START_NS: Final = 1_763_942_400 * 10**9
"""Monday 2025-11-24, 0:00 UTC."""

CUT: Final = frozenset({"cancelled", "closed_early", "abandoned"})
"""Outcomes of requests that their callers gave up."""

FAILED: Final = frozenset({"error", "timeout", "rejected", "truncated"})
"""Outcomes of requests that never gave their callers a whole response."""

_MS: Final = 1_000_000
_QUEUE_MS: Final = 2.0
_DAY_NS: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class Request:
    """
    One call of a model.

    Args:
        duration_ms: Time until it ended, in milliseconds.
        ttft_ms: Time to the first token in milliseconds; ``None`` if there was none.
        outcome: How it ended.
        ratio: Fraction of such requests that was recorded.
        streamed: Whether the response was requested as a stream.
        route: Route of the application.
        output: Output tokens; ``None`` if unknown.
        chunks: Number of chunks with a token whose gaps are recorded; 0 for none.
        calls: Number of calls one after another inside it, if it is a request of an application; 0
            if it is a call.
        at_s: Start in seconds since the start of the recording.
        phase: Phase of a load test; ``None`` outside of one.
        step: Step of a load test.
    """

    duration_ms: float
    ttft_ms: float | None = None
    outcome: str = "completed"
    ratio: float = 1.0
    streamed: bool = True
    route: str = "/chat"
    output: int | None = 100
    chunks: int = 0
    calls: int = 0
    at_s: float = 0.0
    phase: str | None = None
    step: int | None = None


def known(request: Request, metric: str) -> tuple[float, float] | None:
    """Return the interval in milliseconds that contains a value; ``None`` without such a value."""
    if metric == "time_to_first_token" and not request.streamed:
        return None
    if request.outcome in FAILED:
        return math.inf, math.inf
    value = request.duration_ms if metric == "duration" else request.ttft_ms
    if value is not None and (metric != "duration" or request.outcome not in CUT):
        return value, value
    return (request.duration_ms if request.outcome in CUT else math.inf), math.inf


def _population(
    requests: Iterable[Request], metric: str
) -> Iterator[tuple[tuple[float, float], float]]:
    for each in requests:
        interval = known(each, metric)
        if interval is not None and each.phase in (None, "measured"):
            yield interval, 1 / each.ratio


def bounds_of(requests: Sequence[Request], metric: str, percentile: float) -> tuple[float, float]:
    """Return the interval in milliseconds that contains a percentile of all traffic."""
    population = list(_population(requests, metric))

    def quantile(values: Sequence[float]) -> float:
        ranked = sorted(zip(values, (weight for _, weight in population), strict=True))
        needed = percentile / 100 * sum(weight for _, weight in ranked) * (1 - 1e-12)
        reached = 0.0
        for value, weight in ranked:
            reached += weight
            if reached >= needed:
                return value
        return ranked[-1][0]

    return (
        quantile([low for (low, _), _ in population]),
        quantile([high for (_, high), _ in population]),
    )


def share_above(requests: Sequence[Request], metric: str, limit_ms: float) -> tuple[float, float]:
    """Return the smallest and the largest possible share of the traffic above a limit."""
    population = list(_population(requests, metric))
    total = sum(weight for _, weight in population)
    return (
        sum(weight for (low, _), weight in population if low > limit_ms) / total,
        sum(weight for (_, high), weight in population if high > limit_ms) / total,
    )


def count_of(
    requests: Sequence[Request], outcomes: Iterable[str] | None = None, metric: str = "duration"
) -> float:
    """Return the number of requests of the traffic that have a metric, by outcome if given."""
    chosen = None if outcomes is None else frozenset(outcomes)
    return sum(
        weight
        for each in requests
        if chosen is None or each.outcome in chosen
        for _, weight in _population([each], metric)
    )


def _segments(request: Request) -> list[tuple[str, int, int, str]]:
    end = round(request.duration_ms * _MS)
    queue = min(round(_QUEUE_MS * _MS), end)
    first = end if request.ttft_ms is None else round(request.ttft_ms * _MS)
    parts = [("queue", 0, queue), ("prefill", queue, first), ("decode", first, end)]
    return [(name, begin, stop, "measured") for name, begin, stop in parts if begin < stop]


def _line(request: Request, index: int) -> dict[str, Any]:
    duration_ns = round(request.duration_ms * _MS)
    metrics = {"duration": duration_ns}
    if request.ttft_ms is not None:
        first_ns = round(request.ttft_ms * _MS)
        metrics |= dict.fromkeys(
            ("time_to_first_chunk", "time_to_first_token", "time_to_first_visible_token"), first_ns
        )
        if request.outcome == "completed" and request.output:
            metrics["time_per_output_token"] = (duration_ns - first_ns) // request.output
    details: dict[str, Any] = {
        "gen_ai.request.stream": request.streamed,
        "gen_ai.response.model": "m-1",
    }
    if request.phase is not None:
        details |= {
            "latspan.load.index": index,
            "latspan.load.phase": request.phase,
            "latspan.load.dispatch_lag": 0.0,
        }
        if request.step is not None:
            details["latspan.load.step"] = request.step
    line: dict[str, Any] = {
        "kind": "call",
        "name": "chat m",
        "outcome": request.outcome,
        "start_epoch_ns": START_NS + round(request.at_s * 1e9),
        "duration_ns": duration_ns,
        "segments": _segments(request),
        "streamed": request.streamed,
        "metrics": metrics,
        "attributes": {"model": "m", "route": request.route, "inference_path": "chat"},
        "details": details,
    }
    if request.output is not None:
        given = request.output if request.outcome == "completed" else 0
        line["tokens"] = {"input": 100, "output": given, "source": "provider"}
    if request.ratio < 1:
        line["ratio"] = request.ratio
    if request.chunks > 1 and request.ttft_ms is not None:
        gap_ns = round((request.duration_ms - request.ttft_ms) * _MS) // (request.chunks - 1)
        line["chunk_gaps_ns"] = [gap_ns] * (request.chunks - 1)
    return line


def _inside(request: Request) -> list[Request]:
    """Return the calls inside a request, which follow each other and take all of its time."""
    length_ms = request.duration_ms / max(1, request.calls)
    return [
        replace(
            request, calls=0, duration_ms=length_ms, at_s=request.at_s + number * length_ms / 1e3
        )
        for number in range(request.calls)
    ]


def _lines(request: Request, index: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a request: those of its calls, and its own."""
    if not request.calls:
        yield _line(request, index)
        return
    calls = [_line(each, index) for each in _inside(request)]
    segments: list[tuple[str, int, int, str]] = []
    for number, call in enumerate(calls):
        at = number * call["duration_ns"]
        yield {**call, "parent": index + 1}
        segments += [(name, at + begin, at + end, by) for name, begin, end, by in call["segments"]]
    first_ns = calls[0]["metrics"]["time_to_first_token"]
    yield {
        "kind": "request",
        "name": "answer",
        "outcome": request.outcome,
        "start_epoch_ns": calls[0]["start_epoch_ns"],
        "duration_ns": sum(call["duration_ns"] for call in calls),
        "id": index + 1,
        "segments": segments,
        "own_segments": [],
        "streamed": request.streamed,
        "metrics": {"time_to_first_visible_token": first_ns},
        "attributes": {"route": request.route, "inference_path": "chat"},
        "ratio": request.ratio,
    }


_CONDITIONS: Final[dict[str, Any]] = {
    "host": "a",
    "processors": 4,
    "platform": "Linux",
    "python": "3.11.7",
    "model": "m",
}


def write_recording(
    folder: Path,
    requests: Sequence[Request],
    *,
    measurement: Mapping[str, Any] | None = None,
    killed: bool = False,
) -> Path:
    """
    Write a recording, and return its folder.

    Args:
        folder: Folder to create.
        requests: Its requests.
        measurement: Account of the load test; ``None`` for the recording of a program.
        killed: Whether the process was killed, so that its file did not get its last name.
    """
    folder.mkdir(parents=True)
    manifest: dict[str, Any] = {
        "schema": "latspan.recording/1",
        "id": hashlib.sha256(str(folder).encode()).hexdigest()[:16],
        "created": "2025-11-24T00:00:00.000Z",
        "source": "run" if measurement is None else "measure",
        "latspan": "0.1.0",
        "conditions": _CONDITIONS,
    }
    if measurement is not None:
        manifest["conditions"] = {
            **_CONDITIONS,
            "measured": "http://localhost:8000/v1",
            "prompts": {"fingerprint": "sha256:0123456789abcdef", "order": "sha256:1"},
            "cache": "cold",
        }
        manifest["measurement"] = measurement
    (folder / "recording.json").write_text(json.dumps(manifest))
    lines = [
        json.dumps(line, separators=(",", ":"))
        for index, each in enumerate(requests)
        for line in _lines(each, index)
    ]
    (folder / "requests.lost").write_text("0" * 20)
    ended = "" if killed else ".ended"
    (folder / f"requests-1-00000000{ended}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def write_log(file: Path, requests: Sequence[Request]) -> Path:
    """Write the histograms of requests as one interval of a log, and return its path."""
    values: defaultdict[str, list[int]] = defaultdict(list)
    for each in requests:
        for name, more, value in chain(_logged(each), *map(_logged, _inside(each))):
            labels = {
                "inference_path": "chat",
                "kind": "call",
                "model": "m",
                "outcome": each.outcome,
                "route": each.route,
                "side": "client",
                "source": "measured",
                **more,
            }
            query = "&".join(f"{key}={quote(labels[key], safe=':/')}" for key in sorted(labels))
            values[f"{name}?{query}"].append(value)
    begin_s = START_NS / 1e9
    length_s = max(each.at_s + each.duration_ms / 1e3 for each in requests)
    lines = [f"#[StartTime: {begin_s:.3f} (seconds since epoch)]"]
    for tag, many in values.items():
        histogram: Any = HdrHistogram(1, _DAY_NS, 3)
        for value in many:
            histogram.record_value(value)
        text = histogram.encode().decode()
        lines.append(f"Tag={tag},{begin_s:.3f},{length_s:.3f},{max(many) / 1e6:.3f},{text}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    return file


def _logged(request: Request) -> Iterator[tuple[str, dict[str, str], int]]:
    """Yield each value of a request with the name of its series and further labels."""
    duration_ns = round(request.duration_ms * _MS)
    if request.calls:
        # Its calls have its segments and its first token.
        kind = {"kind": "request"}
        yield "duration", kind, duration_ns
        yield "time_to_first_visible_token", kind, round((request.ttft_ms or 0) * _MS)
        return
    yield "duration", {}, duration_ns
    is_whole = request.outcome == "completed"
    segments = _segments(request)
    for at, (name, begin, end, _) in enumerate(segments):
        ended = is_whole or at < len(segments) - 1
        yield "segment" if ended else "segment.at_least", {"segment": name}, end - begin
    if not request.streamed:
        return
    for name in ("time_to_first_chunk", "time_to_first_token", "time_to_first_visible_token"):
        if request.ttft_ms is not None:
            yield name, {}, round(request.ttft_ms * _MS)
        else:
            yield f"{name}.at_least", {}, duration_ns


def write_traces(file: Path, requests: Sequence[Request]) -> Path:
    """Write a span for each request, as the Collector's file exporter does, and return its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    spans = [_span(each, index) for index, each in enumerate(requests)]
    scope = {"scope": {"name": "latspan"}, "spans": spans}
    file.write_text(json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}) + "\n")
    return file


def _span(request: Request, index: int) -> dict[str, Any]:
    begin_ns = START_NS + round(request.at_s * 1e9)
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": request.streamed,
        "latspan.kind": "call",
        "latspan.outcome": request.outcome,
        "latspan.route": request.route,
        "latspan.inference_path": "chat",
    }
    if request.ttft_ms is not None:
        for name in ("time_to_first_token", "time_to_first_visible_token"):
            attributes[f"latspan.{name}"] = request.ttft_ms / 1e3
    if request.phase is not None:
        attributes |= {"latspan.load.index": index, "latspan.load.phase": request.phase}
    return {
        "traceId": f"{index + 1:032x}",
        "spanId": f"{index + 1:016x}",
        "name": "chat m",
        "kind": 3,
        "startTimeUnixNano": str(begin_ns),
        "endTimeUnixNano": str(begin_ns + round(request.duration_ms * _MS)),
        "attributes": [{"key": name, "value": _value(each)} for name, each in attributes.items()],
        "status": {},
    }


def _value(value: object) -> dict[str, object]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def prometheus_histograms(
    requests: Sequence[Request], name: str
) -> dict[frozenset[tuple[str, str]], list[list[Any]]]:
    """Return the native histograms that Prometheus has of a metric: buckets by labels."""
    values: defaultdict[frozenset[tuple[str, str]], Counter[int]] = defaultdict(Counter)
    for each in requests:
        for metric, more, value_ns in _logged(each):
            if _PROMETHEUS.get(metric) != name:
                continue
            labels = {
                "latspan_kind": "call",
                "latspan_side": "client",
                "latspan_outcome": each.outcome,
                "latspan_inference_path": "chat",
                **{f"latspan_{key}": label for key, label in more.items()},
            }
            # Scale 8, as latspan exports.
            values[frozenset(labels.items())][math.ceil(math.log2(value_ns / 1e9) * 256) - 1] += 1
    return {
        labels: [
            [0, repr(2 ** (index / 256)), repr(2 ** ((index + 1) / 256)), str(count)]
            for index, count in sorted(buckets.items())
        ]
        for labels, buckets in values.items()
    }


_PROMETHEUS: Final = {
    "segment": "latspan_segment_duration_seconds",
    "segment.at_least": "latspan_segment_duration_at_least_seconds",
    **{
        f"time_to_first_{what}{end}": f"latspan_time_to_first_{what}{end.replace('.', '_')}_seconds"
        for what in ("token", "visible_token")
        for end in ("", ".at_least")
    },
}
"""Names of the exported metrics in Prometheus, which appends the unit."""


@contextmanager
def prometheus_server(
    answer: Callable[[str, float], list[dict[str, Any]]],
) -> Generator[str]:
    """Run a server that answers each query like Prometheus, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            asked = parse_qs(self.rfile.read(length).decode())
            found = answer(asked["query"][0], float(asked["time"][0]))
            body = json.dumps({"data": {"result": found}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
