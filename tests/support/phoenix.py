"""Phoenix, with a trace exported by separate processes: a client, a server and a model."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from latspan.testing import LlamaServer
from support.backends import answers, eventually
from support.daemons import listens, running
from support.otlp import free_port, free_ports
from support.programs import run_program

_HERE: Final = Path(__file__).resolve().parents[1]
_SERVES: Final = _HERE / "pages" / "serves_phoenix.py"
_REFERENCE: Final = _HERE.parent / "docs" / "guides" / "reference_server.py"

_START_S: Final = 120.0
"""On its first start Phoenix creates its database."""
_REQUEST_S: Final = 30.0
_MAX_SPANS: Final = 1000
_KEY: Final = "key"
_TOKENS: Final = "rootSpan{cumulativeTokenCountTotal}"


@dataclass(frozen=True, slots=True)
class Phoenix:
    """
    A running Phoenix.

    Args:
        url: URL of its page, its API and its OTLP receiver over HTTP.
    """

    url: str

    def spans(self, trace_id: str) -> list[dict[str, Any]]:
        """Return the spans of a trace, in order of time."""
        path = f"/v1/projects/default/spans?trace_id={trace_id}&limit={_MAX_SPANS}"
        return sorted(self._get(path)["data"], key=lambda span: (span["start_time"], span["id"]))

    def tokens(self, trace_id: str) -> float:
        """Return the number of tokens that Phoenix shows for the whole trace."""
        asked = f'{{projects{{edges{{node{{trace(traceId:"{trace_id}"){{{_TOKENS}}}}}}}}}}}'
        found = self._get("/graphql", {"query": asked})
        (project,) = found["data"]["projects"]["edges"]
        return project["node"]["trace"]["rootSpan"]["cumulativeTokenCountTotal"]

    def page(self, trace_id: str) -> str:
        """Return the URL of a trace's page."""
        (project,) = [
            each for each in self._get("/v1/projects")["data"] if each["name"] == "default"
        ]
        return f"{self.url}/projects/{project['id']}/traces/{trace_id}"

    def _get(self, path: str, asked: dict[str, str] | None = None) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.url}{path}",
            None if asked is None else json.dumps(asked).encode(),
            {"content-type": "application/json"},
        )
        with opener.open(request, timeout=_REQUEST_S) as answer:
            return json.load(answer)


@dataclass(frozen=True, slots=True)
class Told:
    """
    A request that waited in a queue, as its client recorded it, and its trace in Phoenix.

    Args:
        phoenix: The Phoenix that has the trace.
        records: The client's own records of the request and its call.
    """

    phoenix: Phoenix
    records: list[dict[str, Any]]

    @property
    def trace_id(self) -> str:
        """Id of the request's trace."""
        return self.records[0]["trace_id"]


@contextmanager
def phoenix_serving(folder: Path) -> Generator[Phoenix]:
    """
    Run Phoenix inside the block, on the loopback interface only.

    Args:
        folder: Folder for its database and its log.
    """
    http, grpc = free_ports(2)
    variables = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(http),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_WORKING_DIR": str(folder),
        # No usage statistics and no external assets: nothing leaves the machine.
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    }
    with running(
        [sys.executable, _SERVES],
        log=folder / "phoenix.log",
        ready=lambda: answers(f"127.0.0.1:{http}/healthz"),
        variables=variables,
        start_s=_START_S,
    ):
        yield Phoenix(f"http://127.0.0.1:{http}")


@contextmanager
def told(folder: Path) -> Generator[Told]:
    """
    Send five requests to the documentation's reference server; yield the one that waited longest.

    Args:
        folder: Folder for the logs of all processes.
    """
    with phoenix_serving(folder) as phoenix:
        exports = {"LATSPAN_ENDPOINT": phoenix.url, "OTEL_METRICS_EXPORTER": "none"}
        port = free_port()
        with (
            LlamaServer() as llama,
            running(
                [
                    *(sys.executable, _REFERENCE),
                    *(f"--model={llama.url}", f"--port={port}", f"--key={_KEY}"),
                ],
                log=folder / "reference.log",
                ready=lambda: listens(port),
                variables=exports,
            ),
        ):
            printed = run_program(
                "asks_several_at_once",
                f"http://127.0.0.1:{port}/v1",
                _KEY,
                LATSPAN_SERVICE_NAME="shop",
                **exports,
            )
        # The servers have ended too, so all spans are sent.
        records = json.loads(printed)
        longest = max(records, key=_queue_ns)["trace_id"]
        eventually(lambda: phoenix.spans(longest), _whole)
        yield Told(phoenix, [each for each in records if each["trace_id"] == longest])


def _queue_ns(record: dict[str, Any]) -> int:
    return sum(end - start for name, start, end, _ in record["segments"] if name == "queue")


def _whole(spans: list[dict[str, Any]]) -> bool:
    """Return whether every process has exported its part of the trace."""
    held = {span["context"]["span_id"] for span in spans}
    orphans = [span for span in spans if span["parent_id"] and span["parent_id"] not in held]
    names = [span["name"] for span in spans]
    return not orphans and "answer" in names and names.count("chat smollm2") == 2
