"""One run of an application before real backends, which several tests look at."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from latspan.testing import Script, ScriptedServer
from support.backends import Backends, backends_up, built, eventually
from support.grafana import said
from support.programs import driving, run_program, traffic_plan
from support.tempo import Tempo

pytest.importorskip("openai", reason="the openai client is not installed")

SERVICE: Final = "shop"
TIMES: Final = 12
"""How often the program of 24 calls does them."""

WATCHED: Final = "bakery"

_EXPORTS: Final = 8
"""
Rates have all but the first. With 7 times 25 calls no rank of p95 or p99 is a whole number, where
Prometheus and latspan may take the two sides of it.
"""

_VARIABLES: Final = {
    "service": WATCHED,
    "kind": "call",
    "path": "counter",
    "model": "small",
    "segment": "prefill",
    "first_token": "0.002",
    "token": "0.001",
    "long": "1ms",
    "__rate_interval": "4m",
    "__range": "1h",
}

_EVERY_CALL: Final = "gen_ai_client_operation_duration_seconds_count"
"""Named after latspan's own metrics in an export, and counts every call."""


@dataclass(frozen=True, slots=True)
class Run:
    """
    What an application did, by its own account.

    Args:
        backends: Where it sent it to.
        document: What latspan recorded in it.
        spans: Copies of its spans, made when they ended.
    """

    backends: Backends
    document: dict[str, Any]
    spans: TracesData


@pytest.fixture(scope="package")
def otelcol() -> Path:
    """Where the Collector's program is."""
    return built("otelcol")


@pytest.fixture(scope="package")
def jaeger() -> Path:
    """Where Jaeger's program is."""
    return built("jaeger")


@pytest.fixture(scope="package")
def tempo_program() -> Path:
    """Where Tempo's program is."""
    return built("tempo")


@pytest.fixture(scope="package")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    """All of them, with the configurations for one machine; without Tempo where there is none."""
    for name in ("otelcol", "jaeger", "prometheus"):
        built(name)
    with backends_up(tmp_path_factory.mktemp("backends")) as running:
        yield running


@pytest.fixture(scope="package")
def tempo(tempo_program: Path, backends: Backends) -> Tempo:
    """Tempo, beside the others."""
    return backends.tempo


@pytest.fixture(scope="package")
def run(backends: Backends, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An application that has sent everything."""
    copy = tmp_path_factory.mktemp("run") / "spans.pb"
    with ScriptedServer(traffic_plan()) as model:
        printed = run_program(
            "keeps_a_copy",
            model.base_url,
            str(copy),
            str(TIMES),
            LATSPAN_ENDPOINT=backends.otlp_url,
            LATSPAN_SERVICE_NAME=SERVICE,
        )
    return Run(backends, json.loads(printed), TracesData.FromString(copy.read_bytes()))


@dataclass(frozen=True, slots=True)
class Watched:
    """
    An application that went on long enough for rates, as dashboards show it.

    Args:
        backends: Where it sent to.
        calls: What it recorded of its calls that a rate has.
        variables: What the dashboards' variables are set to, and Grafana's own.
        at_s: Unix time as of which panels are shown, so that all have the same rates; now unless
            given.
    """

    backends: Backends
    calls: dict[str, Any]
    variables: Mapping[str, str]
    at_s: float | None = None

    def show(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """Ask Prometheus what a panel asks it."""
        return self.backends.query(said(promql, self.variables), at_s=self.at_s)


@pytest.fixture(scope="package")
def watched(backends: Backends) -> Iterator[Watched]:
    """An application that has exported eight times, and still runs."""

    def plan() -> Iterator[Script]:
        for _ in range(_EXPORTS):
            first, *others = traffic_plan()
            yield from others[:1]
            yield Script.chat(tokens=5, queue_ms=1, prefill_ms=4, gap_ms=2, stalls_ms={3: 100})
            yield from (first, *others[2:])
            yield Script.chat(tokens=5, queue_ms=1, prefill_ms=4, gap_ms=2)

    with (
        ScriptedServer(plan()) as model,
        driving(
            "works_until_told",
            model.base_url,
            LATSPAN_ENDPOINT=backends.otlp_url,
            LATSPAN_SERVICE_NAME=WATCHED,
            LATSPAN_INFERENCE_PATH=_VARIABLES["path"],
            LATSPAN_STALL_THRESHOLD_MS="50",
        ) as app,
    ):
        *_, calls = [app.do("more") for _ in range(_EXPORTS)]
        counted = f'sum({_EVERY_CALL}{{service_name="{WATCHED}"}})'

        def arrived() -> list[float]:
            return [value for _, value in backends.query(counted)]

        assert eventually(arrived, [calls["made"]].__eq__) == [calls["made"]]
        yield Watched(backends, calls, _VARIABLES, time.time())
