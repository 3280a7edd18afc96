#!/usr/bin/env python3
"""
Measure the cost of latspan, and print one table.

``run.py`` runs every benchmark, ``run.py NAME ...`` only the named ones. The docstring of each
benchmark describes what it measures, its method and its caveats. ``docs/benchmarks.md`` describes
how to read the table.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from _bench import REFERENCE_YARDSTICK_US, Figure, Row, Scale, Unit, figure, machine, yardstick
from _table import markdown

BENCHMARKS: Final = (
    "added_per_chunk",
    "added_per_call",
    "added_per_request",
    "recording",
    "record_one_value",
    "histogram_memory",
    "histogram_work",
    "quantile_error",
    "comparison_errors",
    "capacity_projection",
    "dead_collector",
    "event_loop_lag",
    "event_loop_watch",
    "load_client",
    "import_time",
    "switch_on",
)
HEADINGS: Final = (
    "what",
    "latspan",
    "median",
    "yardsticks",
    "compared with",
    "",
    "ratio",
    "target",
    "met",
)
PACKAGES: Final = ("latspan", "openai", "httpx2", "opentelemetry-sdk", "hdrhistogram", "numpy")


def shown(value: float, unit: Unit) -> str:
    """Return a figure with its unit; 1,000 µs or more are shown in ms."""
    if unit == "B":
        return f"{value:,.0f} B"
    if unit != "µs":
        return f"{value:,.0f} {unit}" if abs(value) >= 1000 else f"{value:.3g} {unit}"
    if abs(value) < 10:
        return f"{value:.2f} µs"
    return f"{value:.0f} µs" if abs(value) < 1000 else f"{value / 1000:.1f} ms"


def middle_of(row: Row) -> str:
    """Return the median; for elapsed times, with the range of the middle half of the repeats."""
    middle, half = row.latspan.middle, row.latspan.half
    if middle is None:
        return ""
    text = shown(middle, row.unit)
    if half is None or row.unit != "ms":
        return text
    low, high = (shown(each, row.unit) for each in half)
    return f"{text} ({low} … {high})"


def target_of(row: Row) -> str:
    """Return the row's target as text; the empty string without one."""
    if row.target is None:
        return ""
    if row.target.most is None:
        return f"≤ {row.target.ratio:g} x"
    words = f"≤ {row.target.most:g} {row.unit}"
    if row.unit == "µs":
        sticks = row.target.most / REFERENCE_YARDSTICK_US
        words += f" ({sticks:g} yardstick{'' if sticks == 1 else 's'})"
    return words


def cells(row: Row, stick: Figure) -> tuple[str, ...]:
    """Return the row as text, one cell per heading."""
    yardsticks = row.yardsticks(stick)
    return (
        row.what,
        shown(row.latspan.least, row.unit),
        middle_of(row),
        "" if yardsticks is None else f"{yardsticks:,.{1 if yardsticks < 10 else 0}f}",
        row.rival_name,
        "" if row.rival is None else shown(row.rival.least, row.unit),
        "" if row.ratio is None else f"{row.ratio:.2f} x",
        target_of(row),
        row.verdict(stick),
    )


def as_data(row: Row, stick: Figure) -> dict[str, Any]:
    """Return the row for ``--json``; every figure is in the row's unit."""
    return {
        "what": row.what,
        "unit": row.unit,
        "latspan": {
            "least": row.latspan.least,
            "median": row.latspan.middle,
            "middle_half": row.latspan.half,
        },
        "yardsticks": row.yardsticks(stick),
        "rival": row.rival_name or None,
        "compared_with": row.rival and {"least": row.rival.least, "median": row.rival.middle},
        "ratio": row.ratio,
        "target": target_of(row) or None,
        "met": row.verdict(stick) or None,
    }


def main() -> int:
    """Execute the command line, and return the exit status."""
    parser = argparse.ArgumentParser(description="Measure what latspan costs")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--json", action="store_true", help="print one document instead of a table")
    parser.add_argument("--quick", action="store_true", help="a fifth of the repeats")
    arguments = parser.parse_args()
    names: list[str] = arguments.names or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark '{name}'; there are {', '.join(BENCHMARKS)}")
    began = time.monotonic()
    sticks = yardstick()
    measured: list[tuple[str, Row]] = []
    for name in names:
        sys.stderr.write(f"measuring {name} ...\n")
        for row in import_module(name).measure(Scale(quick=arguments.quick)):
            measured.append((name, row))
            sticks += yardstick()
    stick = figure(sticks)
    versions = {package: version(package) for package in PACKAGES}
    if arguments.json:
        document = {
            "machine": machine(),
            "versions": versions,
            "yardstick_us": {"least": stick.least, "median": stick.middle},
            "rows": [{"benchmark": name, **as_data(row, stick)} for name, row in measured],
        }
        print(json.dumps(document, indent=2))
        return 0
    print(markdown([HEADINGS, *(cells(row, stick) for _, row in measured)]))
    print()
    print(
        f"yardstick, append(perf_counter_ns()): minimum {stick.least:.3f} µs,"
        f" median {stick.middle:.3f} µs; targets are for {REFERENCE_YARDSTICK_US} µs"
    )
    print(machine() + ", " + ", ".join(f"{name} {number}" for name, number in versions.items()))
    print(f"{time.monotonic() - began:.0f} s{', quick' if arguments.quick else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
