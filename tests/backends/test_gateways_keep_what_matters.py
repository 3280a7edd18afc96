"""An agent, two gateways behind it, and Jaeger: what failed or was slow is kept, and no more."""

from __future__ import annotations

from collections import defaultdict
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import Popen

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from latspan.testing import Script, ScriptedServer
from support.backends import CONFIGS, Backends
from support.collector import collector
from support.otlp import attributes_of, free_ports
from support.programs import run_program, traffic_plan

SLOW_MS = 2_500
"""In place of the configuration's 20 s, which would take as long."""

SLOW_TO_BEGIN = 3
SLOW = 5
"""Which chats are so, counted from 0."""


def by_trace(traces: TracesData) -> dict[str, list[Span]]:
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for resource in traces.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                found[span.trace_id.hex()].append(span)
    return dict(found)


def reasons(spans: list[Span]) -> set[str]:
    """Return why a trace is to be kept."""
    found: set[str] = set()
    if any(span.status.code == Status.STATUS_CODE_ERROR for span in spans):
        found.add("failed")
    for span in spans:
        first_token = attributes_of(span.attributes).get("latspan.time_to_first_token", 0.0)
        assert isinstance(first_token, float)
        if first_token > 2:
            found.add("slow to begin")
    began = min(span.start_time_unix_nano for span in spans)
    if max(span.end_time_unix_nano for span in spans) - began > SLOW_MS * 1_000_000:
        found.add("slow")
    return found


def test_each_reason_keeps_a_trace_whole(backends: Backends, otelcol: Path, tmp_path: Path) -> None:
    """Without the random share; when all have ended, all is decided and sent."""
    scripts = list(traffic_plan())
    scripts[SLOW_TO_BEGIN] = Script.chat(tokens=2, prefill_ms=2_100, gap_ms=1)
    scripts[SLOW] = Script.chat(tokens=20, prefill_ms=1, gap_ms=140)
    copy = tmp_path / "spans.pb"

    addresses = [f"127.0.0.1:{port}" for port in free_ports(7)]
    gateways, health = addresses[:2], addresses[2:4]
    behind = {
        "LATSPAN_JAEGER_OTLP": backends.addresses["LATSPAN_JAEGER_OTLP"],
        "LATSPAN_DECISION_WAIT": "1s",
        "LATSPAN_SLOW_MS": str(SLOW_MS),
        "LATSPAN_SHARE_PERCENT": "0",
    }
    before = {
        "LATSPAN_COLLECTOR_GRPC": addresses[4],
        "LATSPAN_COLLECTOR_HTTP": addresses[5],
        "LATSPAN_COLLECTOR_HEALTH": addresses[6],
        "LATSPAN_GATEWAY_1": gateways[0],
        "LATSPAN_GATEWAY_2": gateways[1],
        "LATSPAN_PROMETHEUS": backends.addresses["LATSPAN_PROMETHEUS"],
    }

    def gateway(number: int) -> AbstractContextManager[Popen[bytes]]:
        return collector(
            otelcol,
            CONFIGS / "gateway.yaml",
            tmp_path / f"gateway-{number}.log",
            health[number],
            LATSPAN_GATEWAY=gateways[number],
            LATSPAN_GATEWAY_HEALTH=health[number],
            **behind,
        )

    with (
        ScriptedServer(scripts) as model,
        gateway(0),
        gateway(1),
        collector(otelcol, CONFIGS / "agent.yaml", tmp_path / "agent.log", addresses[6], **before),
    ):
        run_program(
            "keeps_a_copy",
            model.base_url,
            str(copy),
            "1",
            LATSPAN_ENDPOINT=f"http://{before['LATSPAN_COLLECTOR_HTTP']}",
        )

    sent = by_trace(TracesData.FromString(copy.read_bytes()))
    wanted = {trace_id: len(spans) for trace_id, spans in sent.items() if reasons(spans)}
    kept = {
        trace_id: len(by_trace(backends.trace(trace_id)).get(trace_id, ())) for trace_id in sent
    }
    assert {trace_id: count for trace_id, count in kept.items() if count} == wanted
    # Each reason alone keeps one at least, and most traces have none.
    why = [reasons(spans) for spans in sent.values()]
    assert all({reason} in why for reason in ("failed", "slow to begin", "slow"))
    assert len(wanted) < len(sent) / 2
