"""
Runs of load tools against one scripted server, whose own records are the truth.

Each run has a new server in a process of its own, which writes down when it accepted each request
and when it wrote each part. The error of a figure is the tool's value minus the server's value for
the same requests. The tools take turns, and each round begins with another tool.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from _bench import Scale
from latspan.testing import Script, ScriptedServer, ServedRequest
from rivals._environments import NotInstalledError, environment_for, version_in
from rivals._load_tools import METRICS, PERCENTILES, TOOLS, Load, LoadTool, Order

CHUNKS: Final = 64
"""Chunks of a response, of one token each."""

_SCRIPT: Final = Script.chat(tokens=CHUNKS, prefill_ms=200, gap_ms=10, flavor="plain")
_LOADS: Final = (
    Load(name="1 in flight", in_flight=1, requests=50, few=5),
    Load(name="10 in flight", in_flight=10, requests=100, few=10),
    Load(name="50 in flight", in_flight=50, requests=500, few=50),
    Load(name="20 requests per second", rate=20, requests=200, few=20),
)
_ROUNDS: Final = 3
_TIMEOUT_S: Final = 300
_SETTINGS: Final = ("OTEL_", "LATSPAN_", "GUIDELLM_", "AIPERF_", "HF_", "PYTHONPATH")
"""Prefixes of environment variables that would change the tools' settings."""

_TREE: Final = str(Path(__file__).with_name("_process_tree.py"))


class ToolFailedError(Exception):
    """A run of a tool has no usable result; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Run:
    """
    One run of a tool under one load.

    Args:
        cpu_ms: CPU time of the tool's process tree per 1,000 tokens in milliseconds, without the
            CPU time of its start.
        start_cpu_s: CPU seconds of the start: those of the run with few requests, less their
            share of the work.
        true: The server's value in milliseconds, by metric and percentile.
        errors: The tool's value minus the server's value in milliseconds.
        rate: Rate that the server saw, in requests per second; ``None`` in a closed loop.
        reasons: Why the tool considers the run invalid; empty if it is valid.
    """

    cpu_ms: float
    start_cpu_s: float
    true: Mapping[tuple[str, str], float]
    errors: Mapping[tuple[str, str], float]
    rate: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadResults:
    """
    Results of all tools under all loads.

    Args:
        loads: Loads, in order.
        runs: Runs by load and tool, one per round.
        versions: Version of each tool that took part, by title.
        skipped: Reasons why tools do not take part, by title.
    """

    loads: Sequence[Load]
    runs: Mapping[str, Mapping[str, Sequence[Run]]]
    versions: Mapping[str, str]
    skipped: Mapping[str, str]


def run_loads(scale: Scale) -> LoadResults:
    """Measure every tool that can be installed under every load."""
    pythons: dict[str, Path] = {}
    versions: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for tool in TOOLS:
        try:
            pythons[tool.name] = environment_for(tool.name, tool.title, tool.requirements)
            versions[tool.title] = version_in(pythons[tool.name], tool.distribution)
        except NotInstalledError as error:
            skipped[tool.title] = str(error)
    # The load with one request in flight takes longest, and its result is the least surprising.
    loads = _LOADS[1:] if scale.quick else _LOADS
    runs: dict[str, dict[str, list[Run]]] = {
        load.name: {tool.name: [] for tool in TOOLS} for load in loads
    }
    order = [tool for tool in TOOLS if tool.title in versions]
    with tempfile.TemporaryDirectory() as home:
        for load in loads:
            for _ in range(1 if scale.quick else _ROUNDS):
                for tool in list(order):
                    sys.stderr.write(f"  {load.name}: {tool.title}\n")
                    try:
                        run = _measure(tool, pythons[tool.name], load, Path(home))
                    except ToolFailedError as error:
                        skipped[tool.title] = str(error)
                        order.remove(tool)
                        continue
                    runs[load.name][tool.name].append(run)
                order = order[1:] + order[:1]
    return LoadResults(loads, runs, versions, skipped)


def _measure(tool: LoadTool, python: Path, load: Load, home: Path) -> Run:
    started = _Run(tool, python, load, load.few, home)
    full = _Run(tool, python, load, load.requests, home)
    cpu_s, tokens = full.cpu_s - started.cpu_s, full.tokens - started.tokens
    counted = full.counted()
    true = _true_values(counted)
    accepted = sorted(each.accepted_ns for each in counted)
    return Run(
        cpu_ms=cpu_s / tokens * 1e6,
        start_cpu_s=started.cpu_s - cpu_s / tokens * started.tokens,
        true=true,
        errors={key: full.report.figures[key] - value for key, value in true.items()},
        rate=None
        if load.rate is None
        else (len(accepted) - 1) * 1e9 / (accepted[-1] - accepted[0]),
        reasons=full.report.reasons,
    )


class _Run:
    """
    One run of a tool against a server of its own.

    Args:
        tool: Tool.
        python: Interpreter of its environment.
        load: Load to generate.
        requests: Number of requests.
        home: Folder for files that a tool keeps between runs.

    Raises:
        ToolFailedError: The tool failed, or its results cannot be read.
    """

    def __init__(self, tool: LoadTool, python: Path, load: Load, requests: int, home: Path) -> None:
        self._requests = requests
        with tempfile.TemporaryDirectory() as name, ScriptedServer(_SCRIPT) as server:
            folder = Path(name)
            prompts = folder / "prompts.jsonl"
            # More prompts than requests: latspan sends further requests until the last has ended.
            prompts.write_text(
                "".join(
                    json.dumps({tool.prompt_field: f"Request {n}: what is the tide today?"}) + "\n"
                    for n in range(requests + 100)
                ),
                "utf-8",
            )
            order = Order(load, requests, server.url, prompts, folder)
            figures = _run_tree([str(python), "-P", *tool.arguments(order)], folder, home)
            if figures["status"] not in tool.statuses:
                raise ToolFailedError(_last_line(folder, figures["status"]))
            self.cpu_s: float = figures["cpu_s"]
            self.served = [each for each in server.served_requests() if each.token_ns]
            self.tokens = sum(len(each.token_ns) for each in self.served)
            if requests > load.few:
                try:
                    self.report = tool.read(folder)
                except (KeyError, TypeError, ValueError, OSError) as error:
                    raise ToolFailedError(f"its report cannot be read: {error!r}") from error

    def counted(self) -> Sequence[ServedRequest]:
        """
        Return the requests that the tool counts.

        Raises:
            ToolFailedError: They are not the requests that were ordered.
        """
        numbers = self.report.counted
        found = [each for each in self.served if numbers is None or each.index in numbers]
        complete = sum(len(each.token_ns) == CHUNKS for each in found)
        if not len(found) == complete == self._requests:
            raise ToolFailedError(
                f"it counts {len(found)} requests, {complete} of them complete,"
                f" instead of {self._requests}"
            )
        return found


def _run_tree(command: Sequence[str], folder: Path, home: Path) -> Mapping[str, Any]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    process = subprocess.Popen(
        [sys.executable, "-P", _TREE, *command],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=kept | {"HF_HOME": str(home), "PYTHONHASHSEED": "0"},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=_TIMEOUT_S)
    except BaseException as error:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise ToolFailedError(f"it did not end within {_TIMEOUT_S} s") from error
        raise
    return json.loads(output)


def _last_line(folder: Path, status: int) -> str:
    for name in ("errors", "output"):
        lines = (folder / name).read_text("utf-8", errors="replace").strip().splitlines()
        if lines:
            return f"exit status {status}: {lines[-1].strip()}"
    return f"exit status {status}"


def _true_values(served: Iterable[ServedRequest]) -> Mapping[tuple[str, str], float]:
    """Return the server's percentiles in milliseconds, from the acceptance of each request."""
    rows: list[tuple[float, float, float]] = []
    for each in served:
        first_ns, last_ns = each.token_ns[0], each.token_ns[-1]
        rows.append(
            (
                (first_ns - each.accepted_ns) / 1e6,
                (last_ns - first_ns) / (len(each.token_ns) - 1) / 1e6,
                (each.writes[-1].instant_ns - each.accepted_ns) / 1e6,
            )
        )
    columns = dict(zip(METRICS, map(sorted, zip(*rows, strict=True)), strict=True))
    return {
        (metric, percentile): values[math.ceil(int(percentile[1:]) / 100 * len(values)) - 1]
        for metric, values in columns.items()
        for percentile in PERCENTILES
    }
