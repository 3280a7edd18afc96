"""Collector, Jaeger, Prometheus and Tempo, run as ``make backends-up`` runs them, and queried."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from support.otlp import free_ports
from support.readback import from_otlp_json, get_json
from support.tempo import Tempo

_ROOT: Final = Path(__file__).resolve().parents[2]
_RUN: Final = _ROOT / "scripts" / "run_backends.py"

CONFIGS: Final = _ROOT / "collector-config"
"""Folder of the configurations."""

_PORTS: Final = (
    "LATSPAN_COLLECTOR_GRPC",
    "LATSPAN_COLLECTOR_HTTP",
    "LATSPAN_COLLECTOR_HEALTH",
    "LATSPAN_JAEGER",
    "LATSPAN_JAEGER_GRPC",
    "LATSPAN_JAEGER_OTLP",
    "LATSPAN_PROMETHEUS",
    "LATSPAN_TEMPO_GRPC_PORT",
    "LATSPAN_TEMPO_OTLP",
    "LATSPAN_TEMPO_PORT",
)
"""Variables that set the addresses, or only the ports, in the configurations."""

_MISSING: Final = {"tempo": "PATH has no tempo, and LATSPAN_TEMPO names none"}

Found = TypeVar("Found")

_DEADLINE_S: Final = 30.0
_POLL_S: Final = 0.05


def built(name: str) -> Path:
    """Return the path of a program of ``make backends-up``; skip the test if it is not built."""
    said = subprocess.run(
        [sys.executable, _RUN, "where"], capture_output=True, text=True, check=True
    )
    programs = dict(line.split(" ", 1) for line in said.stdout.splitlines())
    if name not in programs:
        pytest.skip(_MISSING.get(name, f"{name} is not built: make backends"))
    return Path(programs[name])


@dataclass(frozen=True, slots=True)
class Backends:
    """
    Running backends; without Tempo if it is not installed.

    Args:
        addresses: Host and port of each listener, by the variable that sets it.
    """

    addresses: dict[str, str]

    @property
    def tempo(self) -> Tempo:
        """Tempo, for a test that has checked that it is installed."""
        return Tempo(f"http://127.0.0.1:{self.addresses['LATSPAN_TEMPO_PORT']}")

    @property
    def otlp_url(self) -> str:
        """URL of the Collector for OTLP over HTTP, without a path."""
        return f"http://{self.addresses['LATSPAN_COLLECTOR_HTTP']}"

    def trace(self, trace_id: str) -> TracesData:
        """Return the spans that Jaeger has of a trace, possibly none."""
        try:
            found = self._get("LATSPAN_JAEGER", f"/api/v3/traces/{trace_id}")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            error.close()
            return TracesData()
        return from_otlp_json(found["result"], TracesData())

    def traces_with(
        self, service: str, operation: str, *, at_least_us: int, limit: int
    ) -> set[str]:
        """Search Jaeger as its web page does, and return the ids of the traces."""
        asked = urllib.parse.urlencode(
            {
                "service": service,
                "operation": operation,
                "minDuration": f"{at_least_us}us",
                "limit": limit,
            }
        )
        found = self._get("LATSPAN_JAEGER", f"/api/traces?{asked}")
        return {each["traceID"] for each in found["data"]}

    def query(
        self, promql: str, *, at_s: float | None = None
    ) -> list[tuple[dict[str, str], float]]:
        """
        Query Prometheus, and return the labels and the value of each series.

        Args:
            promql: The query.
            at_s: Unix time of the evaluation; now by default.
        """
        asked = urllib.parse.urlencode({"query": promql, "time": at_s or time.time()})
        found = self._get("LATSPAN_PROMETHEUS", f"/api/v1/query?{asked}")
        assert (found["status"], found.get("warnings")) == ("success", None)
        return [(each["metric"], float(each["value"][1])) for each in found["data"]["result"]]

    def labels(self) -> set[str]:
        """Return the names of all labels that Prometheus has."""
        return set(self._get("LATSPAN_PROMETHEUS", "/api/v1/labels")["data"])

    def exemplars(self, promql: str) -> set[str]:
        """Return the trace ids in the exemplars of the last hour."""
        now = time.time()
        asked = urllib.parse.urlencode({"query": promql, "start": now - 3600, "end": now + 60})
        found = self._get("LATSPAN_PROMETHEUS", f"/api/v1/query_exemplars?{asked}")
        return {
            exemplar["labels"]["trace_id"]
            for series in found["data"]
            for exemplar in series["exemplars"]
        }

    def _get(self, variable: str, path: str) -> Any:
        return get_json(f"http://{self.addresses[variable]}{path}")


@contextmanager
def backends_up(state: Path, host: str = "127.0.0.1") -> Generator[Backends]:
    """
    Run the backends inside the block, on free ports; skip the test if one is not built.

    Args:
        state: Folder for their data and logs.
        host: Address on which they listen.
    """
    for name in ("otelcol", "jaeger", "prometheus"):
        built(name)
    addresses = free_addresses(host)
    up = run_backends("up", state, **addresses)
    assert (up.returncode, up.stderr) == (0, "")
    try:
        yield Backends(addresses)
    finally:
        down = run_backends("down", state, **addresses)
        assert (down.returncode, down.stderr) == (0, "")


def free_addresses(host: str = "127.0.0.1") -> dict[str, str]:
    """
    Return a free address for every listener, by the variable that sets it.

    Args:
        host: Host of the addresses.
    """
    return {
        variable: f"{port}" if variable.endswith("_PORT") else f"{host}:{port}"
        for variable, port in zip(_PORTS, free_ports(len(_PORTS)), strict=True)
    }


def run_backends(do: str, state: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Start or stop the backends as ``make backends-up`` and ``make backends-down`` do."""
    return subprocess.run(
        [sys.executable, _RUN, do, "--state", state],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


def answers(address: str) -> bool:
    """Return whether HTTP at this address responds with success."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}", timeout=_DEADLINE_S):
            return True
    except OSError:
        return False


def eventually(look: Callable[[], Found], enough: Callable[[Found], bool]) -> Found:
    """Call ``look`` until ``enough`` accepts its result or time is up; return the last result."""
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        found = look()
        if enough(found) or time.monotonic() > deadline:
            return found
        time.sleep(_POLL_S)
