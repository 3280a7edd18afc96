"""
Load tools that are compared: how each is installed, started and read.

The figures are those that the tool itself shows to its user: percentiles from its own summary, not
recomputed from its requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

METRICS: Final = ("TTFT", "TPOT", "duration")
"""Metrics that every tool reports, by their titles."""

PERCENTILES: Final = ("p50", "p95")
"""Percentiles that are compared."""

_TOKENIZER: Final[Mapping[str, Any]] = {
    "tokenizer.json": {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
    },
    "tokenizer_config.json": {"tokenizer_class": "TokenizersBackend", "unk_token": "[UNK]"},
}
"""Files of a tokenizer that splits at spaces, for a tool that does not start without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """
    One load: its pattern and the number of requests.

    Args:
        name: Name in the tables.
        requests: Number of requests of a run.
        few: Number of requests of the run whose CPU time is subtracted.
        in_flight: Requests in flight, for a closed loop.
        rate: Requests per second at constant intervals, for an open loop.
    """

    name: str
    requests: int
    few: int
    in_flight: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """
    One run of a tool.

    Args:
        load: Load to generate.
        requests: Number of requests.
        url: Address of the server, without ``/v1``.
        prompts: File with more prompts than requests, one JSON object per line.
        folder: Empty folder for the tool's files; its working directory.
    """

    load: Load
    requests: int
    url: str
    prompts: Path
    folder: Path


@dataclass(frozen=True, slots=True)
class Report:
    """
    Figures of one run, as the tool reports them.

    Args:
        figures: Values in milliseconds by metric and percentile.
        counted: Numbers of the counted requests in order of acceptance by the server; ``None`` if
            the tool counts all of them.
        reasons: Why the tool considers the run invalid; empty if it is valid.
    """

    figures: Mapping[tuple[str, str], float]
    counted: frozenset[int] | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTool:
    """
    One load tool.

    Args:
        name: Name of its environment.
        title: Name in tables.
        distribution: Distribution whose version is shown.
        requirements: Requirements of its environment, as pip accepts them.
        prompt_field: Field of the prompt in the tool's file of prompts.
        statuses: Exit statuses of a run with results.
        setting: Description of how it is used.
        arguments: Function that returns the arguments of the interpreter.
        read: Function that reads the results in the folder of a run.
    """

    name: str
    title: str
    distribution: str
    requirements: tuple[str, ...]
    prompt_field: str = "prompt"
    statuses: tuple[int, ...] = (0,)
    setting: str
    arguments: Callable[[Order], Sequence[str]]
    read: Callable[[Path], Report]


def _latspan_arguments(order: Order) -> Sequence[str]:
    load = order.load
    shape = (
        ("--concurrency", str(load.in_flight))
        if load.rate is None
        else ("--rate", f"{load.rate:g}", "--arrivals", "constant")
    )
    return (
        *("-m", "latspan", "measure", f"{order.url}/v1", "--model", "m", *shape),
        *("--requests", str(order.requests), "--warmup", "0", "--prompts", str(order.prompts)),
        *("--output", "recording", "--json"),
    )


def _read_latspan(folder: Path) -> Report:
    import latspan

    [step] = json.loads((folder / "output").read_text("utf-8"))["steps"]
    titles = {
        "time_to_first_token": "TTFT",
        "time_per_output_token": "TPOT",
        "duration": "duration",
    }
    figures = {
        (titles[each["metric"]], percentile): each["all"][percentile] * 1e3
        for each in step["latencies"]
        if each["from"] == "start" and each["metric"] in titles
        for percentile in PERCENTILES
    }
    # The trial request, and those that keep the load up at the end, are not counted. The server's
    # response ids end with the number of the request.
    counted = frozenset(
        int(str(record.details["gen_ai.response.id"]).rpartition("-")[2])
        for record in latspan.open_recording(folder / "recording").records("call")
        if record.details.get("latspan.load.phase") == "measured"
    )
    reasons = tuple(each["name"] for each in step["caveats"] if each["invalidates"])
    return Report(figures, counted, reasons)


def _guidellm_arguments(order: Order) -> Sequence[str]:
    load = order.load
    shape = (
        f"kind=concurrent,streams={load.in_flight}"
        if load.rate is None
        else f"kind=constant,rate={load.rate:g}"
    )
    return (
        *("-m", "guidellm", "run", "--backend", f"kind=openai_http,target={order.url},model=m"),
        *("--profile", shape, "--constraint", f"kind=max_requests,count={order.requests}"),
        *("--data", f"kind=json_file,path={order.prompts}"),
        *("--output", "kind=json,path=report.json", "--disable-console"),
    )


def _read_guidellm(folder: Path) -> Report:
    [benchmark] = json.loads((folder / "report.json").read_text("utf-8"))["benchmarks"]
    # guidellm's own "time per output token" includes the time to the first token.
    names = {
        "TTFT": ("time_to_first_token_ms", 1),
        "TPOT": ("inter_token_latency_ms", 1),
        "duration": ("request_latency", 1e3),
    }
    return Report(
        {
            (metric, percentile): found["successful"]["percentiles"][percentile] * scale
            for metric, (name, scale) in names.items()
            for found in [benchmark["metrics"][name]]
            for percentile in PERCENTILES
        }
    )


def _aiperf_arguments(order: Order) -> Sequence[str]:
    load = order.load
    shape = (
        ("--concurrency", str(load.in_flight))
        if load.rate is None
        else ("--request-rate", f"{load.rate:g}", "--arrival-pattern", "constant")
    )
    tokenizer = order.folder / "tokenizer"
    tokenizer.mkdir()
    for name, content in _TOKENIZER.items():
        (tokenizer / name).write_text(json.dumps(content), "utf-8")
    return (
        *("-m", "aiperf", "profile", "--model", "m", "--url", order.url, *shape),
        *("--endpoint-type", "chat", "--streaming", "--request-count", str(order.requests)),
        *("--input-file", str(order.prompts), "--custom-dataset-type", "single_turn"),
        *("--dataset-sampling-strategy", "sequential", "--tokenizer", str(tokenizer)),
        *("--use-server-token-count", "--no-server-metrics", "--no-gpu-telemetry"),
        *("--ui", "none", "--output-artifact-dir", "report"),
    )


def _read_aiperf(folder: Path) -> Report:
    report = json.loads((folder / "report" / "profile_export_aiperf.json").read_text("utf-8"))
    names = {
        "TTFT": "time_to_first_token",
        "TPOT": "inter_token_latency",
        "duration": "request_latency",
    }
    return Report(
        {
            (metric, percentile): report[name][percentile]
            for metric, name in names.items()
            for percentile in PERCENTILES
        }
    )


TOOLS: Final = (
    LoadTool(
        name="load-latspan",
        title="latspan",
        distribution="latspan",
        requirements=("--editable", ".[study,aiohttp]"),
        # 4: the measurement is invalid, which is counted.
        statuses=(0, 4),
        setting="`latspan measure`, this checkout; it records every request, `--warmup 0`",
        arguments=_latspan_arguments,
        read=_read_latspan,
    ),
    LoadTool(
        name="load-guidellm",
        title="guidellm",
        distribution="guidellm",
        requirements=("guidellm==0.8.1",),
        setting=(
            "`guidellm run --disable-console`, JSON report only; TPOT is its inter-token latency,"
            " because its own time per output token includes TTFT"
        ),
        arguments=_guidellm_arguments,
        read=_read_guidellm,
    ),
    LoadTool(
        name="load-aiperf",
        title="aiperf",
        distribution="aiperf",
        requirements=("aiperf==0.13.0",),
        prompt_field="text",
        setting=(
            "`aiperf profile --use-server-token-count --no-server-metrics --no-gpu-telemetry --ui"
            " none`, a tokenizer that splits at spaces; TPOT is its inter-token latency"
        ),
        arguments=_aiperf_arguments,
        read=_read_aiperf,
    ),
)
"""Load tools, latspan first."""
