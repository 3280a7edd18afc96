"""Markdown of a run: its tables and its conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from _bench import added
from _table import markdown
from rivals._libraries import LIBRARIES
from rivals._parts import Part
from rivals._situation_result import SituationResult
from rivals._situations import SITUATIONS, Question
from rivals._subjects import BASELINE, CONTROL, SUBJECTS
from rivals._turns import Values

_RIGHT = {True: "right", False: "wrong", None: "not reported"}


def numbers_table(part: Part, results: Mapping[str, Values]) -> str:
    """Return the table of a part: medians of the client alone, and added costs of each subject."""
    heading = ["added by", *(f"{column.title}, {column.unit}" for column in part.columns)]
    bare = results[BASELINE.name]
    lines = [
        heading,
        ["the client alone", *(_number(median(bare[c.key])) for c in part.columns)],
    ]
    for subject in (CONTROL, *SUBJECTS):
        if values := results.get(subject.name):
            cells = [_added(bare[column.key], values[column.key]) for column in part.columns]
            lines.append([subject.title, *cells])
    rounds = len(bare[part.columns[0].key])
    title = f"**{part.title}**: least; median (middle half) of {rounds} rounds"
    return f"{title}\n\n{markdown(lines)}"


def situations_table(results: Mapping[str, Mapping[str, SituationResult]]) -> str:
    """
    Return the table of situations: their questions, the correct values, and each library's values.
    """
    libraries = [library for library in LIBRARIES if library.name in results]
    lines = [["situation", "question", "correct value", *(library.title for library in libraries)]]
    tally = {library.name: dict.fromkeys(_RIGHT, 0) for library in libraries}
    for situation in SITUATIONS:
        for question in situation.questions:
            cells: list[str] = []
            for library in libraries:
                result = results[library.name][situation.name]
                tally[library.name][result.is_right(question)] += 1
                cells.append(_value(result, question))
            title = f"{situation.name}: {situation.title}"
            lines.append([title, question.fact, str(question.correct), *cells])
    for verdict, word in _RIGHT.items():
        counts = [str(tally[library.name][verdict]) for library in libraries]
        lines.append(["all", word, "", *counts])
    same = [
        sum(
            results[library.name][each.name].got == results["bare"][each.name].got
            for each in SITUATIONS
        )
        for library in libraries
    ]
    total = len(SITUATIONS)
    lines.append(["all", "caller receives the same", str(total), *map(str, same)])
    return f"**Thirteen situations**, times in seconds; ✗ marks a wrong value\n\n{markdown(lines)}"


def notes(run: dict[str, Any]) -> str:
    """Return the conditions of a run as Markdown."""
    stick = run["yardstick_us"]
    shared = ", ".join(f"{name} {' and '.join(v)}" for name, v in run["shared_versions"].items())
    took = f"{run['took_s']:.0f} s{', quick' if run['quick'] else ''}"
    yardsticks = f"minimum {stick['least']:.3f} µs, median {stick['median']:.3f} µs"
    load = "load {:.1f} at the start, {:.1f} at the end".format(*run["load"])
    lines = [
        f"{run['machine']}, {run['cores']} cores, {load}; yardstick {yardsticks}; {took}",
        "",
    ]
    if shared:
        lines += [f"In every environment: {shared}.", ""]
    if any(len(versions) > 1 for versions in run["shared_versions"].values()):
        lines += [
            "**The environments differ in these packages, so the costs are not comparable.**",
            "",
        ]
    lines += [
        f"- {title} {library['version']}: {library['setting']}"
        for title, library in run["libraries"].items()
    ]
    lines += [f"- skipped: {title}: {reason}" for title, reason in run["skipped"].items()]
    return "\n".join(lines)


def _added(bare: Sequence[float], more: Sequence[float]) -> str:
    cost = added(bare, more, turns=1)
    text = _number(cost.least)
    if cost.middle is not None:
        text += f"; {_number(cost.middle)}"
    if cost.half is not None:
        text += f" ({' … '.join(map(_number, cost.half))})"
    return text


def _value(result: SituationResult, question: Question) -> str:
    answer = result.answers.get(question.fact)
    if answer is None:
        return "—"
    text = f"{answer:.2f}" if isinstance(answer, float) else str(answer)
    return text if result.is_right(question) else f"✗ {text}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
