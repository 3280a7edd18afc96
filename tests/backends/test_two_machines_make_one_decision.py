"""Two applications on two networks, an agent each, two gateways: a trace of both is kept whole."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from subprocess import Popen
from typing import Final, TypeVar

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from latspan.testing import Script, ScriptedServer
from support.backends import CONFIGS, backends_up
from support.collector import collector
from support.namespaces import NO_PROXY, Namespace, namespaces
from support.otlp import attributes_of, await_listener
from support.programs import run_program, serving
from support.readback import by_trace
from support.sampled import gateways, reasons

REQUESTS: Final = 60
FAILED: Final = range(0, REQUESTS, 4)
SLOW_TO_BEGIN: Final = 6
SLOW: Final = 22
"""Which requests are so, counted from 0."""

PORT: Final = 8000
"""Nobody else is in that network."""

Started = TypeVar("Started")

DECISION_WAIT: Final = "4s"
"""Longer than the longest answer: FastAPI has spans of its own, and the first ends at once."""

SOON: Final = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
"""Spans leave within that time, whichever machine they are of."""


def plan() -> list[Script]:
    scripts = [Script.chat(tokens=5, prefill_ms=1 + number % 7) for number in range(REQUESTS)]
    for number in FAILED:
        scripts[number] = Script.refused(500)
    scripts[SLOW_TO_BEGIN] = Script.chat(tokens=2, prefill_ms=2_100, gap_ms=1)
    scripts[SLOW] = Script.chat(tokens=20, prefill_ms=1, gap_ms=140)
    return scripts


def read(file: Path) -> TracesData:
    return TracesData.FromString(file.read_bytes())


def ids(spans: list[Span]) -> set[str]:
    return {span.span_id.hex() for span in spans}


def said_by_resources(traces: TracesData, name: str) -> set[str]:
    return {str(attributes_of(held.resource.attributes)[name]) for held in traces.resource_spans}


def agent(program: Path, log: Path, **variables: str) -> AbstractContextManager[Popen[bytes]]:
    """Return one on a machine of its own: at the addresses that the configuration has."""
    return collector(
        program, CONFIGS / "agent.yaml", log, "127.0.0.1:13133", **variables, **NO_PROXY
    )


def started(where: Namespace, what: AbstractContextManager[Started], until: ExitStack) -> Started:
    with where.entered():
        return until.enter_context(what)


def test_both_halves_of_a_trace_share_their_fate(otelcol: Path, tmp_path: Path) -> None:
    """Who asks sees no failure: it is inside the other, and keeps the trace of both."""
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    asked, served = tmp_path / "asked.pb", tmp_path / "served.pb"
    with namespaces(2) as (hub, front, back), ExitStack() as running:
        backends = started(hub, backends_up(tmp_path / "state", hub.address), running)
        # What sends ends first, and has then sent all.
        with ExitStack() as sending:
            behind = started(
                hub,
                gateways(
                    otelcol,
                    tmp_path,
                    backends.addresses["LATSPAN_JAEGER_OTLP"],
                    host=hub.address,
                    decision_wait=DECISION_WAIT,
                    **NO_PROXY,
                ),
                sending,
            )
            behind["LATSPAN_PROMETHEUS"] = backends.addresses["LATSPAN_PROMETHEUS"]
            started(front, agent(otelcol, tmp_path / "front.log", **behind), sending)
            started(back, agent(otelcol, tmp_path / "back.log", **behind), sending)
            model = started(back, ScriptedServer(plan()), sending)
            server = serving(
                tmp_path / "served.log",
                "uvicorn",
                "serves_chats:application",
                f"--host={back.address}",
                f"--port={PORT}",
                MODEL_URL=model.base_url,
                COPY=str(served),
                LATSPAN_SERVICE_NAME="kitchen",
                **SOON,
                **NO_PROXY,
            )
            started(back, server, sending)
            with front.entered():
                await_listener(PORT, back.address)
                said = run_program(
                    "asks_an_application",
                    f"http://{back.address}:{PORT}/chat",
                    str(asked),
                    str(REQUESTS),
                    LATSPAN_SERVICE_NAME="counter",
                    **SOON,
                    **NO_PROXY,
                )
        halves = [by_trace(read(file)) for file in (asked, served)]
        with hub.entered():
            found = {trace_id: backends.trace(trace_id) for trace_id in halves[0]}

    assert [text == "Sorry." for text in json.loads(said)] == [
        number in FAILED for number in range(REQUESTS)
    ]
    assert halves[0].keys() == halves[1].keys()
    whole = {trace_id: [*spans, *halves[1][trace_id]] for trace_id, spans in halves[0].items()}
    why = {trace_id: reasons(spans) for trace_id, spans in whole.items()}
    assert len(why) == REQUESTS
    kept = {
        trace_id: ids(by_trace(held)[trace_id])
        for trace_id, held in found.items()
        if by_trace(held)
    }
    assert kept == {trace_id: ids(whole[trace_id]) for trace_id in whole if why[trace_id]}
    for trace_id in kept:
        assert said_by_resources(found[trace_id], "service.name") == {"counter", "kitchen"}
    # One of them has decided on each, and neither on all: for chance they are too many.
    deciders = [said_by_resources(found[trace_id], "gateway") for trace_id in kept]
    assert [len(of_one) for of_one in deciders] == [1] * len(kept)
    assert len({gateway for of_one in deciders for gateway in of_one}) == 2
    # Of the failures the half that asked knows nothing.
    failed = [trace_id for trace_id in whole if why[trace_id] == {"failed"}]
    assert len(failed) == len(FAILED)
    assert not any(reasons(halves[0][trace_id]) for trace_id in failed)
    assert len(kept) < REQUESTS / 3
