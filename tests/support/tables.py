"""Tables of requests with exact times, for tests of diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from latspan._model.segments import Kind
from latspan._study.diagnose import (
    Facts,
    Goal,
    RequestTable,
    attribute,
    diagnose_table,
    parse_goal,
)

SIZE: Final = 400
"""Number of requests of the columns."""


def in_tail(usual: float, slow: float) -> list[float]:
    """Return a column whose value is larger in every tenth request."""
    return [slow if number % 10 == 0 else usual for number in range(SIZE)]


def poisson(seed: int = 1, mean_ms: float = 1_000.0) -> list[float]:
    """Return starts of independent arrivals in ms."""
    return np.cumsum(np.random.default_rng(seed).exponential(mean_ms, SIZE)).tolist()


def table_in_ms(
    segments: Mapping[str, Sequence[float]],
    *,
    numbers: Mapping[str, Sequence[float]] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    starts: Sequence[float] | None = None,
    kinds: Mapping[str, str] | None = None,
    failed: Sequence[bool] | None = None,
    uncertain: Mapping[str, float] | None = None,
    earlier: Mapping[str, Sequence[float]] | None = None,
    goal: str | Goal = "p95 duration",
) -> RequestTable:
    """
    Return a table whose goal metric is the sum of the segments.

    Args:
        segments: Time of each segment in ms, one value per request.
        numbers: Facts in their own units.
        groups: Attributes.
        starts: Starts in ms; one request per second by default.
        kinds: Kind of each stage.
        failed: Whether each request failed.
        uncertain: Estimated fraction of segments.
        earlier: Time of earlier calls in ms.
        goal: The goal.
    """
    names = tuple(segments)
    columns = np.array([segments[name] for name in names], dtype=np.float64).T * 1e6
    size = len(columns)
    total = columns.sum(axis=1)
    fails = np.zeros(size, dtype=bool) if failed is None else np.array(failed)
    codes: dict[str, tuple[np.ndarray[tuple[int], np.dtype[np.int64]], tuple[str, ...]]] = {}
    for name, column in (groups or {}).items():
        values = tuple(dict.fromkeys(column))
        codes[name] = (np.array([values.index(each) for each in column]), values)
    start = np.arange(size) * 1e3 if starts is None else np.array(starts)
    return RequestTable(
        goal=parse_goal(goal) if isinstance(goal, str) else goal,
        kind=Kind.CALL,
        low_ns=np.where(fails, np.inf, total),
        high_ns=np.where(fails, np.inf, total),
        value_ns=np.where(fails, np.nan, total),
        weight=np.ones(size),
        start_ns=(start * 1e6).astype(np.int64),
        duration_ns=total,
        names=names,
        segments_ns=columns,
        uncertain=np.array([(uncertain or {}).get(name, 0.0) for name in names]),
        sources={},
        kinds=kinds or {},
        numbers={
            name: np.array(column, dtype=np.float64) for name, column in (numbers or {}).items()
        },
        groups=codes,
        chains=np.ones(size, dtype=np.int64),
        earlier={name: np.array(column) * 1e6 for name, column in (earlier or {}).items()},
    )


def facts_of(table: RequestTable, stable_tokens: float | None = None) -> Facts:
    """Return the facts of a table that has enough requests."""
    attribution = attribute(table)
    assert attribution is not None
    return Facts(table, attribution, None, stable_tokens)


def cause_of(segments: Mapping[str, Sequence[float]], **facts: Any) -> str | None:
    """Return the cause of the table that :func:`table_in_ms` makes; ``None`` if none is named."""
    finding = diagnose_table(table_in_ms(segments, **facts)).finding
    return None if finding is None else finding.cause
