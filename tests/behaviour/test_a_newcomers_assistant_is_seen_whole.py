"""
A newcomer's FastAPI assistant under ``latspan run --report -- uvicorn``, from start to SIGTERM.

Its program names stages and tenants, and does nothing else for latspan.
"""

from __future__ import annotations

import http.client
import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from latspan.testing import Script, ScriptedServer
from support.otlp import attributes_of, await_listener, free_port, free_ports
from support.programs import serving
from support.receivers import Receiver, receiving

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

RUNS: Final = 10
AT_ONCE: Final = 2
DEADLINE_S: Final = 60.0

ASKED: Final = {
    ("/ask/{question}", "acme"): 9,
    ("/ask/{question}", "bolt"): 2,
    ("/support/{question}", "acme"): 4,
    ("/support/{question}", "bolt"): 5,
}
"""Requests by route and tenant."""

REQUESTS: Final = sum(ASKED.values())
BY_ROUTE: Final = {
    route: sum(number for (each, _), number in ASKED.items() if each == route) for route, _ in ASKED
}
"""Requests by route, a different number of each."""

CALLS: Final = 3
"""Calls per request: the question is rewritten, a tool is requested, the answer is written."""

STAGES: Final = ("retrieve", "rerank", "look up")
SCRIPTS: Final = {
    "rewrites": Script.chat(tokens=3, prefill_ms=4, gap_ms=1),
    "requests a tool": Script.chat(tokens=0, tool_call_tokens=3, prefill_ms=4, gap_ms=1),
    "answers": Script.chat(tokens=8, prefill_ms=6, gap_ms=2),
}


@dataclass(frozen=True)
class Run:
    """
    One run of the program.

    Args:
        status: Its exit status.
        report: What it printed.
        spans: The spans that the receiver got.
        receiver: The receiver.
    """

    status: int
    report: str
    spans: list[Span]
    receiver: Receiver

    def of_kind(self, kind: Span.SpanKind.ValueType) -> list[Span]:
        """Return the spans of a kind."""
        return [span for span in self.spans if span.kind == kind]

    def served(self) -> Counter[tuple[str, str]]:
        """Return the number of served requests by route and tenant."""
        found = (attributes_of(span.attributes) for span in self.of_kind(Span.SPAN_KIND_SERVER))
        return Counter((str(each["http.route"]), str(each["latspan.tenant"])) for each in found)


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer(named=SCRIPTS) as server:
        yield server


def run(model: ScriptedServer, port: int, log: Path) -> Run:
    """Start the program, send it the requests, end it by SIGTERM, and return what was seen."""
    with receiving() as receiver:
        command = ("latspan", "run", "--report", "--", sys.executable, "-m", "uvicorn")
        with serving(
            log,
            *command,
            "serves_an_assistant:app",
            f"--port={port}",
            OPENAI_BASE_URL=model.base_url,
            LATSPAN_ENDPOINT=receiver.url,
            COLUMNS="100",
        ) as process:
            await_listener(port)
            with ThreadPoolExecutor(4) as pool:
                sent = [
                    pool.submit(ask, port, route.replace("{question}", f"why-{number}"), tenant)
                    for (route, tenant), count in ASKED.items()
                    for number in range(count)
                ]
                answers = [each.result() for each in sent]
        assert set(answers) == {(200, "".join(f"text{number} " for number in range(8)))}
        return Run(process.returncode, log.read_text(), receiver.all_spans, receiver)


def ask(port: int, path: str, tenant: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request("GET", path, headers={"tenant": tenant})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def seen(model: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(model, free_port(), tmp_path_factory.mktemp("assistant") / "log")


def test_the_report_shows_requests_with_stages_and_calls(seen: Run) -> None:
    """Whole served requests first, then their calls; each number is that of the whole run."""
    served: Counter[str] = Counter()
    for number in BY_ROUTE.values():
        served.update(counts_in(seen.report, f"segments of {number} served requests"))
    calls = counts_in(seen.report, f"segments of {REQUESTS * CALLS} calls")

    assert re.search(
        rf"^slowest of {max(BY_ROUTE.values())} served requests", seen.report, re.MULTILINE
    )
    for name in (*STAGES, "application"):
        assert served[name] == REQUESTS, name
    # A segment that the server reports is left out of a stream whose reader came late.
    assert {"send", "prefill", "decode"} <= served.keys() & calls.keys()
    # If a request blocks the loop, all of this time of another one may be `event_loop`.
    for counts, name, number in (
        (served, "prepare", REQUESTS),
        (calls, "prepare", REQUESTS * CALLS),
    ):
        assert number - counts.get("event_loop", 0) <= counts[name] <= number, name
    assert "may be missing" not in seen.report
    assert "Missing:" not in seen.report


def counts_in(report: str, title: str) -> dict[str, int]:
    """Return the number of values of each segment in a table of the report."""
    _, _, table = report.partition(f"\n{title}")
    _, _, *rows = table.partition("\n\n")[0].splitlines()
    found = [re.match(r"  (\S.*?) +([\d,]+) ", row) for row in rows]
    return {row[1]: int(row[2]) for row in found if row is not None}


def test_requests_are_counted_by_route_and_tenant(seen: Run) -> None:
    """On spans and on histograms: the tenant is set in the handler, the route by the framework."""
    assert seen.served() == ASKED
    counted: Counter[tuple[str, str]] = Counter()
    for metric in seen.receiver.all_metrics:
        if metric.name == "latspan.segment.duration":
            for point in metric.exponential_histogram.data_points:
                labels = attributes_of(point.attributes)
                if (labels["latspan.segment"], labels["latspan.kind"]) == ("rerank", "stage"):
                    key = str(labels["latspan.route"]), str(labels["latspan.tenant"])
                    counted[key] += point.count
    assert counted == ASKED


def test_each_unit_is_counted_once(seen: Run) -> None:
    """A request is one span and one value, and each of its calls too."""
    calls = seen.of_kind(Span.SPAN_KIND_CLIENT)
    served = {span.span_id for span in seen.of_kind(Span.SPAN_KIND_SERVER)}

    assert len(served) == REQUESTS
    assert Counter(span.name for span in calls) == {
        "chat rewriter": REQUESTS,
        "chat writer": 2 * REQUESTS,
    }
    assert {span.parent_span_id for span in calls} == served
    assert Counter(span.name for span in seen.spans if span.name in STAGES) == dict.fromkeys(
        STAGES, REQUESTS
    )


@pytest.mark.repetitive
def test_sigterm_loses_nothing(model: ScriptedServer, tmp_path: Path) -> None:
    """Neither of the export nor of the report, ten times out of ten."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [
            each.result()
            for each in [
                pool.submit(run, model, port, tmp_path / str(port)) for port in free_ports(RUNS)
            ]
        ]

    assert [each.served() for each in runs] == [ASKED] * RUNS
    calls = [len(each.of_kind(Span.SPAN_KIND_CLIENT)) for each in runs]
    assert calls == [REQUESTS * CALLS] * RUNS
    tables = [f"segments of {number} served requests" for number in BY_ROUTE.values()]
    assert all(table in each.report for table in tables for each in runs)
    assert len({each.status for each in runs}) == 1
