"""One run of an application before real backends, which several tests look at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from latspan.testing import ScriptedServer
from support.backends import Backends, backends_up, built
from support.programs import run_program, traffic_plan
from support.tempo import Tempo

pytest.importorskip("openai", reason="the openai client is not installed")

SERVICE: Final = "shop"
TIMES: Final = 12
"""How often the program of 24 calls does them."""


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
