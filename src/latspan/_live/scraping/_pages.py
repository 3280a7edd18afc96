"""
Pages of model servers: metrics in Prometheus' text format, and llama.cpp's slots.

Each server has names of its own for the metrics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import isnan, nan
from typing import Any, Final

from latspan import semconv
from latspan._live.scraping._sample_buffer import Sample
from latspan.errors import MissingExtraError

_MAX_LINES: Final = 5_000
"""Maximum number of known series on one page: 100 engines of a large server have about 1,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """
    Names of one server's metrics, by the attribute that they are recorded as.

    Args:
        gauges: Numbers of requests; series of several engines or data-parallel ranks are added up.
        ratios: Values between 0 and 1; of several series the greatest is used.
        shares: Counters: the name of the part, and the names that add up to the whole.
        source: Document that defines the metrics.
    """

    gauges: Mapping[str, str]
    ratios: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    shares: Mapping[str, tuple[str, tuple[str, ...]]] = field(
        default_factory=dict[str, tuple[str, tuple[str, ...]]]
    )
    source: str


_SERVERS: Final = (
    _Server(
        source="llama.cpp, tools/server/README.md, GET /metrics",
        gauges={
            semconv.LATSPAN_REQUESTS_RUNNING: "llamacpp:requests_processing",
            semconv.LATSPAN_REQUESTS_WAITING: "llamacpp:requests_deferred",
        },
        ratios={semconv.LATSPAN_KV_USAGE: ("llamacpp:kv_cache_usage_ratio",)},
        shares={
            # llama.cpp's count of prompt tokens does not include cached tokens.
            semconv.LATSPAN_CACHE_HIT_RATIO: (
                "llamacpp:prompt_tokens_cached_total",
                ("llamacpp:prompt_tokens_cached_total", "llamacpp:prompt_tokens_total"),
            ),
            semconv.LATSPAN_SPECULATIVE_ACCEPTANCE: (
                "llamacpp:spec_decode_num_accepted_tokens_total",
                ("llamacpp:spec_decode_num_draft_tokens_total",),
            ),
        },
    ),
    _Server(
        source="vLLM, docs/design/metrics.md",
        gauges={
            semconv.LATSPAN_REQUESTS_RUNNING: "vllm:num_requests_running",
            semconv.LATSPAN_REQUESTS_WAITING: "vllm:num_requests_waiting",
        },
        ratios={
            semconv.LATSPAN_KV_USAGE: ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
        },
        shares={
            semconv.LATSPAN_CACHE_HIT_RATIO: (
                "vllm:prefix_cache_hits_total",
                ("vllm:prefix_cache_queries_total",),
            ),
            semconv.LATSPAN_SPECULATIVE_ACCEPTANCE: (
                "vllm:spec_decode_num_accepted_tokens_total",
                ("vllm:spec_decode_num_draft_tokens_total",),
            ),
        },
    ),
    _Server(
        source="SGLang, references/production_metrics",
        gauges={
            semconv.LATSPAN_REQUESTS_RUNNING: "sglang:num_running_reqs",
            semconv.LATSPAN_REQUESTS_WAITING: "sglang:num_queue_reqs",
        },
        ratios={
            semconv.LATSPAN_KV_USAGE: ("sglang:token_usage",),
            semconv.LATSPAN_CACHE_HIT_RATIO: ("sglang:cache_hit_rate",),
            semconv.LATSPAN_SPECULATIVE_ACCEPTANCE: ("sglang:spec_accept_rate",),
        },
    ),
    _Server(
        source="Text Generation Inference, reference/metrics",
        gauges={
            semconv.LATSPAN_REQUESTS_RUNNING: "tgi_batch_current_size",
            semconv.LATSPAN_REQUESTS_WAITING: "tgi_queue_size",
        },
    ),
)

_SAMPLE: Final = re.compile(
    r"""[^\s{]++\s*+(?:\{.*\})?\s*+
        (?:[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[-+]?[0-9]++)?|[-+]?inf|[-+]?nan)
        (?:\s++-?[0-9]++)?\s*+""",
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
"""
Line with a value that the format allows; the parser accepts any value that ``float`` accepts.

Source: Prometheus, "Exposition formats", text format details.
"""

_TOGETHER: Final = frozenset({"tp_rank", "pp_rank"})
"""Labels of ranks that process the same requests: tensor and pipeline parallelism."""

_TOTAL: Final = "_total"
_MAX_REQUESTS: Final = 1e9
_MAX_COUNT: Final = 1e18
"""Upper limit of a counter: above the count of any server, and small enough to be added up."""


def _names() -> Iterator[str]:
    for server in _SERVERS:
        yield from server.gauges.values()
        for names in server.ratios.values():
            yield from names
        for part, whole in server.shares.values():
            # Some exporters and older servers omit the suffix.
            yield from (name.removesuffix(_TOTAL) for name in (part, *whole))


_NAMES: Final = frozenset(_names())
_BEGINNINGS: Final = tuple(_NAMES)


def require_parser() -> None:
    """
    Import the parser of the text format.

    Raises:
        MissingExtraError: The parser is not installed.
    """
    try:
        import_module("prometheus_client.parser")
    except ImportError as error:
        raise MissingExtraError("prometheus_client", extra="scraping") from error


def read_metrics(text: str) -> Sample:
    """
    Return the readings on a page of a known server; other metrics are ignored.

    Args:
        text: Page in Prometheus' text format.

    Raises:
        ValueError: A line of a known metric cannot be read, or there are too many such lines.
    """
    # Most lines of a page belong to histograms; only known metrics are parsed. A last line without
    # a line end is skipped, because its number may be cut off.
    ours = [line for line in text.split("\n")[:-1] if line.startswith(_BEGINNINGS)]
    if len(ours) > _MAX_LINES:
        raise ValueError(f"{len(ours)} series")
    if not all(map(_SAMPLE.fullmatch, ours)):
        raise ValueError("a value that is not a number")
    series = _series_of(ours)
    gauges: dict[str, float] = {}
    shares: dict[str, tuple[float, float]] = {}
    for server in _SERVERS:
        for attribute, name in server.gauges.items():
            values = _possible(series.get(name, ()), maximum=_MAX_REQUESTS)
            if values:
                gauges[attribute] = round(sum(values))
        for attribute, names in server.ratios.items():
            values = [
                value for name in names for value in _possible(series.get(name, ()), maximum=1)
            ]
            if values:
                gauges[attribute] = float(max(values))
        for attribute, (part, whole) in server.shares.items():
            parts = [_counted(series, part)]
            wholes = [_counted(series, name) for name in whole]
            if None not in (*parts, *wholes):
                shares[attribute] = sum(filter(None, parts)), sum(filter(None, wholes))
    return Sample(gauges=gauges, shares=shares)


def _series_of(lines: Iterable[str]) -> dict[str, list[float]]:
    """
    Return the values of each known metric, one per series.

    Of the ranks that process a request together, the greatest value counts.
    """
    series: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for name, labels, value in _parsed(lines):
        known = name.removesuffix(_TOTAL)
        if known in _NAMES:
            others = tuple(sorted(each for each in labels.items() if each[0] not in _TOGETHER))
            of_name = series.setdefault(known, {})
            before = of_name.get(others, nan)
            if isnan(before) or value > before:
                of_name[others] = value
    return {name: list(values.values()) for name, values in series.items()}


def _parsed(lines: Iterable[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """
    Yield the name, the labels and the value of each sample.

    Raises:
        ValueError: A line is malformed.
    """
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value
    except Exception as error:
        # The parser raises IndexError for an empty label and OverflowError for a long timestamp.
        raise ValueError(f"a line is malformed: {error or type(error).__name__}") from error


def _possible(values: Iterable[float], *, maximum: float) -> list[float]:
    """Return the plausible values: those from 0 to ``maximum``, without NaN."""
    return [value for value in values if 0 <= value <= maximum]


def _counted(series: Mapping[str, list[float]], name: str) -> float | None:
    """Return the sum of a counter's series, ``None`` if one is implausible or there are none."""
    values = series.get(name.removesuffix(_TOTAL), [])
    possible = _possible(values, maximum=_MAX_COUNT)
    return sum(possible) if values and len(possible) == len(values) else None


def read_slots(text: str) -> Sample:
    """
    Return the number of busy slots; the page does not list requests that wait for a slot.

    Args:
        text: JSON, a list of slots.

    Raises:
        ValueError: The text is not a list of slots.

    Source: llama.cpp, ``tools/server/README.md``, ``GET /slots``.
    """
    try:
        slots: Any = json.loads(text)
        working = [slot["is_processing"] for slot in slots]
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError("not a list of slots") from error
    if not isinstance(slots, list) or not all(isinstance(each, bool) for each in working):
        raise ValueError("not a list of slots")
    return Sample(gauges={semconv.LATSPAN_REQUESTS_RUNNING: sum(working)})
