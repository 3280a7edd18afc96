"""An agent, two gateways behind it, and Jaeger: what failed or was slow is kept, and no more."""

from __future__ import annotations

from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from latspan.testing import Script, ScriptedServer
from support.backends import CONFIGS, Backends
from support.collector import CollectorAddresses, collector
from support.programs import run_program, traffic_plan
from support.readback import by_trace
from support.sampled import gateways, reasons

SLOW_TO_BEGIN = 3
SLOW = 5
"""Which chats are so, counted from 0."""


def test_each_reason_keeps_a_trace_whole(backends: Backends, otelcol: Path, tmp_path: Path) -> None:
    """Without the random share; when all have ended, all is decided and sent."""
    scripts = list(traffic_plan())
    scripts[SLOW_TO_BEGIN] = Script.chat(tokens=2, prefill_ms=2_100, gap_ms=1)
    scripts[SLOW] = Script.chat(tokens=20, prefill_ms=1, gap_ms=140)
    copy = tmp_path / "spans.pb"
    agent = CollectorAddresses.free()

    with (
        ScriptedServer(scripts) as model,
        gateways(otelcol, tmp_path, backends.addresses["LATSPAN_JAEGER_OTLP"]) as behind,
        collector(
            otelcol,
            CONFIGS / "agent.yaml",
            tmp_path / "agent.log",
            agent.health,
            LATSPAN_PROMETHEUS=backends.addresses["LATSPAN_PROMETHEUS"],
            **agent.variables,
            **behind,
        ),
    ):
        run_program(
            "keeps_a_copy", model.base_url, str(copy), "1", LATSPAN_ENDPOINT=f"http://{agent.http}"
        )

    sent = by_trace(TracesData.FromString(copy.read_bytes()))
    wanted = {trace_id: len(spans) for trace_id, spans in sent.items() if reasons(spans)}
    kept = {
        trace_id: len(by_trace(backends.trace(trace_id)).get(trace_id, ())) for trace_id in sent
    }
    assert {trace_id: count for trace_id, count in kept.items() if count} == wanted
    # Each reason alone keeps one at least, and most traces have none.
    why = [reasons(spans) for spans in sent.values()]
    assert all({reason} in why for reason in ("failed", "late first token", "slow"))
    assert len(wanted) < len(sent) / 2
