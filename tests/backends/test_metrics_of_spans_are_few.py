"""The Collector's own metrics of spans: a series a name, and what latspan's own know better."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from latspan.testing import ScriptedServer
from support.backends import CONFIGS, Backends, answers, eventually
from support.daemons import running
from support.otlp import free_ports
from support.programs import run_program, traffic_plan
from support.readback import spans_in

SERVICE: Final = "counted"
TIMES: Final = 4
CALLS: Final = "traces_span_metrics_calls_total"
DURATION: Final = "traces_span_metrics_duration_seconds"

BUCKETS: Final = 160
"""As the configuration has it."""

Counted = dict[tuple[str, str, str], float]


@pytest.fixture(scope="module")
def sent(backends: Backends, otelcol: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Span]:
    """An application that has sent everything through a Collector that counts spans."""
    folder = tmp_path_factory.mktemp("span-metrics")
    copy = folder / "spans.pb"
    grpc, http, health = (f"127.0.0.1:{port}" for port in free_ports(3))
    variables = {
        **backends.addresses,
        "LATSPAN_COLLECTOR_GRPC": grpc,
        "LATSPAN_COLLECTOR_HTTP": http,
        "LATSPAN_COLLECTOR_HEALTH": health,
        "LATSPAN_SPAN_METRICS_INTERVAL": "200ms",
    }
    configs = [f"--config={CONFIGS / name}" for name in ("local.yaml", "span-metrics.yaml")]
    with (
        running(
            [otelcol, *configs],
            log=folder / "otelcol.log",
            ready=lambda: answers(health),
            variables=variables,
        ),
        ScriptedServer(traffic_plan()) as model,
    ):
        run_program(
            "keeps_a_copy",
            model.base_url,
            str(copy),
            str(TIMES),
            LATSPAN_ENDPOINT=f"http://{http}",
            LATSPAN_SERVICE_NAME=SERVICE,
        )
        spans = list(spans_in(TracesData.FromString(copy.read_bytes())))
        eventually(lambda: counted(backends), lambda it: sum(it.values()) >= len(spans))
        # A histogram whose latest sample is the first one with its buckets counts as reset, and
        # Prometheus warns of a sum of it and of one that is not.
        known = samples(backends)
        eventually(lambda: samples(backends), lambda number: number >= known + 2)
    return spans


def samples(backends: Backends) -> float:
    """Return the smallest number of samples that a series has."""
    found = backends.query(f'count_over_time({CALLS}{{service_name="{SERVICE}"}}[10m])')
    return min(value for _, value in found)


def counted(backends: Backends) -> Counted:
    """Return how many spans there were, by name, kind and status."""
    return {
        (said["span_name"], said["span_kind"], said["status_code"]): value
        for said, value in backends.query(f'{CALLS}{{service_name="{SERVICE}"}}')
    }


def test_a_series_a_name_kind_and_status(backends: Backends, sent: list[Span]) -> None:
    """However many requests there were, and each span counted once."""
    expected = Counter(
        (
            span.name,
            f"SPAN_KIND_{Span.SpanKind.Name(span.kind).removeprefix('SPAN_KIND_')}",
            Status.StatusCode.Name(span.status.code),
        )
        for span in sent
    )
    assert counted(backends) == expected
    found = backends.query(f'count({{__name__=~"{CALLS}|{DURATION}",service_name="{SERVICE}"}})')
    assert found == [({}, 2 * len(expected))]


@pytest.mark.parametrize("name", ["send", "queue", "prefill", "chat small"])
def test_the_p95_of_a_name(backends: Backends, sent: list[Span], name: str) -> None:
    """That of the application's spans, as near as the buckets are narrow."""
    durations = sorted(
        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
        for span in sent
        if span.name == name
    )
    p95 = durations[math.ceil(len(durations) * 0.95) - 1]
    series = f'sum({DURATION}{{service_name="{SERVICE}",span_name="{name}"}})'

    assert backends.query(f"histogram_count({series})") == [({}, len(durations))]
    assert backends.query(f"histogram_quantile(0.95, {series})") == [
        ({}, pytest.approx(p95, rel=bucket_width(durations[0], durations[-1])))
    ]


def bucket_width(least: float, most: float) -> float:
    """Return by how much the ends of a bucket differ where 160 reach from one to the other."""
    scale = 20
    while (math.log2(most) - math.log2(least)) * 2**scale > BUCKETS - 2:
        scale -= 1
    return 2 ** (2**-scale) - 1
