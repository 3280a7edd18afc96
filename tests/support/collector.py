"""A Collector with one configuration, run inside a block, and the files that it writes."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Final

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from support.backends import answers
from support.daemons import running
from support.otlp import attributes_of, free_ports
from support.readback import from_otlp_json, spans_in

FILES: Final = Path(__file__).parents[1] / "faults" / "files.yaml"
"""Configuration of a Collector that writes what it receives into files."""


@dataclass(frozen=True, slots=True)
class CollectorAddresses:
    """
    Addresses of a Collector, so that the next one can use the same ones.

    Args:
        grpc: Host and port for OTLP over gRPC.
        http: Host and port for OTLP over HTTP.
        health: Host and port of its health check.
    """

    grpc: str
    http: str
    health: str

    @classmethod
    def free(cls, host: str = "127.0.0.1") -> CollectorAddresses:
        """Return three free addresses."""
        return cls(*(f"{host}:{port}" for port in free_ports(3)))

    def url(self, protocol: str) -> str:
        """Return the URL for one protocol, without a path."""
        return f"http://{self.grpc if protocol == 'grpc' else self.http}"

    @property
    def variables(self) -> dict[str, str]:
        """Variables that set these addresses in the configurations."""
        return {
            "LATSPAN_COLLECTOR_GRPC": self.grpc,
            "LATSPAN_COLLECTOR_HTTP": self.http,
            "LATSPAN_COLLECTOR_HEALTH": self.health,
        }


@contextmanager
def collector(
    program: Path, config: Path, log: Path, health: str, *beside: Path, **variables: str
) -> Generator[Popen[bytes]]:
    """Run a Collector inside the block, once its health check at ``health`` succeeds."""
    with running(
        [program, *(f"--config={each}" for each in (config, *beside))],
        log=log,
        ready=lambda: answers(health),
        variables=variables,
    ) as process:
        yield process


class Written:
    """
    The files of one Collector with :data:`FILES`, and of its successors.

    Each Collector writes its own files: a Collector that is killed may leave its last line
    incomplete.

    Args:
        folder: Folder of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    @contextmanager
    def by_next(
        self, program: Path, addresses: CollectorAddresses, folder: Path | None = None
    ) -> Generator[Popen[bytes]]:
        """Run the next Collector inside the block; ``folder`` overrides the folder of its spans."""
        self._count += 1
        held = self._folder if folder is None else folder
        with collector(
            program,
            FILES,
            self._folder / f"collector-{self._count}.log",
            addresses.health,
            LATSPAN_SPANS_FILE=str(held / f"spans-{self._count}.jsonl"),
            LATSPAN_METRICS_FILE=str(self._folder / f"metrics-{self._count}.jsonl"),
            **addresses.variables,
        ) as process:
            yield process

    @property
    def spans(self) -> list[Span]:
        """All spans; a span that was received twice appears twice."""
        return spans_of(self._folder.glob("spans-*.jsonl"))

    @property
    def metrics(self) -> list[Metric]:
        """All metrics, in order."""
        files = [self._folder / f"metrics-{number + 1}.jsonl" for number in range(self._count)]
        return [
            metric
            for line in _whole_lines(files)
            for resource in from_otlp_json(json.loads(line), MetricsData()).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    @property
    def dropped(self) -> dict[str, int]:
        """Number of dropped spans by reason, from the last metrics that their process sent."""
        return dropped_spans(self.metrics)


def spans_of(files: Iterable[Path]) -> list[Span]:
    """Return the spans of a Collector's files."""
    return [
        span
        for line in _whole_lines(files)
        for span in spans_in(from_otlp_json(json.loads(line), TracesData()))
    ]


def dropped_spans(metrics: Iterable[Metric]) -> dict[str, int]:
    """Return the last number of dropped spans that one process sent, by reason."""
    counts: dict[str, int] = {}
    for metric in metrics:
        if metric.name == "latspan.dropped":
            for point in metric.sum.data_points:
                said = attributes_of(point.attributes)
                if said["latspan.signal"] == "spans":
                    counts[str(said["latspan.reason"])] = point.as_int
    return counts


def calls_counted(metrics: Iterable[Metric]) -> int:
    """Return the number of calls in the duration histograms that one process sent last."""
    counts: dict[tuple[tuple[str, object], ...], int] = {}
    for metric in metrics:
        if metric.name == "gen_ai.client.operation.duration":
            for point in metric.histogram.data_points:
                counts[tuple(sorted(attributes_of(point.attributes).items()))] = point.count
    return sum(counts.values())


def _whole_lines(files: Iterable[Path]) -> list[str]:
    """Return the complete lines of the files."""
    return [
        line
        for file in files
        if file.exists()
        for line in file.read_text("utf-8").split("\n")[:-1]
        if line
    ]
