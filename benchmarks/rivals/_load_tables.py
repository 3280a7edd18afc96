"""Markdown and JSON of the comparison of load tools."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from _table import markdown
from rivals._load_runs import LoadResults, Run
from rivals._load_tools import METRICS, PERCENTILES, TOOLS, Load

_LATSPAN: Final = TOOLS[0]
_TARGET: Final = 0.5
"""Greatest CPU time of latspan, as a multiple of the best rival's."""

_KEYS: Final = [(metric, percentile) for metric in METRICS for percentile in PERCENTILES]


def load_table(results: LoadResults) -> str:
    """Return the table of errors, rates and CPU times, and a line per load about the targets."""
    lines = [
        [
            "load",
            "tool",
            *(f"{metric} {percentile}, ms" for metric, percentile in _KEYS),
            "rate reached, 1/s",
            "CPU ms per 1,000 tokens",
            "CPU s of the start",
            "valid runs",
        ]
    ]
    for load in results.loads:
        found = results.runs[load.name]
        everything = [run for runs in found.values() for run in runs]
        if not everything:
            continue
        true = [f"{median(run.true[key] for run in everything):.2f}" for key in _KEYS]
        offered = "" if load.rate is None else f"{load.rate:.2f}"
        lines.append([load.name, "the server's own times", *true, offered, "", "", ""])
        measured = [(tool.title, found[tool.name]) for tool in TOOLS if found[tool.name]]
        lines += [[load.name, title, *_cells(runs)] for title, runs in measured]
    rounds = max((len(runs) for each in results.runs.values() for runs in each.values()), default=0)
    title = (
        f"**Load tools**: least; median of {rounds} {'run' if rounds == 1 else 'runs'};"
        " times of tools are errors"
    )
    verdicts = "\n".join(
        f"- {load.name}: {verdict}"
        for load in results.loads
        if (verdict := _verdict(results, load))
    )
    return f"{title}\n\n{markdown(lines)}\n\n{verdicts}"


def load_notes(results: LoadResults) -> str:
    """Return the versions and settings of the tools as Markdown."""
    lines = [
        f"- {tool.title} {results.versions[tool.title]}: {tool.setting}"
        for tool in TOOLS
        if tool.title in results.versions
    ]
    lines += [f"- skipped: {title}: {reason}" for title, reason in results.skipped.items()]
    return "\n".join(lines)


def load_document(results: LoadResults) -> dict[str, Any]:
    """Return the results as values that ``json.dumps`` accepts; errors are in milliseconds."""
    return {
        "versions": dict(results.versions),
        "skipped": dict(results.skipped),
        "loads": {
            load.name: {
                "in_flight": load.in_flight,
                "rate": load.rate,
                "requests": load.requests,
                "tools": {
                    tool.title: [_as_data(run) for run in results.runs[load.name][tool.name]]
                    for tool in TOOLS
                },
                "verdict": _verdict(results, load) or None,
            }
            for load in results.loads
        },
    }


def _as_data(run: Run) -> dict[str, Any]:
    return {
        "cpu_ms_per_1000_tokens": run.cpu_ms,
        "start_cpu_s": run.start_cpu_s,
        "rate": run.rate,
        "invalid_because": run.reasons,
        "server_ms": {" ".join(key): value for key, value in run.true.items()},
        "error_ms": {" ".join(key): value for key, value in run.errors.items()},
    }


def _cells(runs: Sequence[Run]) -> list[str]:
    cells: list[str] = []
    for key in _KEYS:
        errors = [run.errors[key] for run in runs]
        cells.append(f"{min(errors, key=abs):+.2f}; {median(errors):+.2f}")
    rates = [run.rate for run in runs if run.rate is not None]
    cells.append(f"{median(rates):.2f}" if rates else "")
    costs = [run.cpu_ms for run in runs]
    cells.append(f"{min(costs):.0f}; {median(costs):.0f}")
    starts = [run.start_cpu_s for run in runs]
    cells.append(f"{min(starts):.1f}; {median(starts):.1f}")
    reasons = sorted({reason for run in runs for reason in run.reasons})
    valid = f"{sum(not run.reasons for run in runs)} of {len(runs)}"
    cells.append(f"{valid} ({', '.join(reasons)})" if reasons else valid)
    return cells


def _verdict(results: LoadResults, load: Load) -> str:
    """
    Return how latspan compares with the best rival; the empty string without one.

    The target holds for the medians and for the least values of the CPU time. The median error of
    each figure is compared with the smallest median error of a rival. Errors that differ by less
    than 0.01 ms are equal, because the table shows no more digits.
    """
    found = results.runs[load.name]
    ours = found[_LATSPAN.name]
    rivals = {tool.title: found[tool.name] for tool in TOOLS[1:] if found[tool.name]}
    if not ours or not rivals:
        return ""
    best = min(rivals, key=lambda title: median(run.cpu_ms for run in rivals[title]))
    middle = median(run.cpu_ms for run in ours) / median(run.cpu_ms for run in rivals[best])
    least = min(run.cpu_ms for run in ours) / min(
        run.cpu_ms for runs in rivals.values() for run in runs
    )
    met = "met" if max(middle, least) <= _TARGET else "not met"
    worse: list[str] = []
    for key in _KEYS:
        error = _error(ours, key)
        title = min(rivals, key=lambda title: _error(rivals[title], key))
        if round(error, 2) > round(_error(rivals[title], key), 2):
            worse.append(
                f"{' '.join(key)} ({error:.2f} ms; {title} {_error(rivals[title], key):.2f} ms)"
            )
    words = (
        f"larger at {', '.join(worse)}" if worse else "not larger than the best rival's anywhere"
    )
    return (
        f"latspan's median CPU time is {middle:.2f} x {best}'s, its least {least:.2f} x the least"
        f" of a rival (target ≤ {_TARGET:g} x: {met});"
        f" its median error is {words}"
    )


def _error(runs: Sequence[Run], key: tuple[str, str]) -> float:
    return abs(median(run.errors[key] for run in runs))
