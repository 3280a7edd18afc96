"""
Joining of calls to the requests that they are inside of.

The facts of a request are those of its last call, and its tokens are those of all its calls. What
a request states itself comes first. A call is inside a request if its parents lead to it: stages
and inner requests may lie in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan._model.metrics import OF_REQUESTS
from latspan._study.table._columns import Columns, Groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_DEPTH: Final = 64
"""Number of scopes between a call and its request above which the call counts as not inside it."""

_TOKENS: Final = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "chunks")
_OWN: Final = frozenset(
    {
        *("start_ns", "duration_ns", "lag_ns", "outcome", "streamed", "is_server", "weight"),
        *(
            "phase",
            "step",
            "scope_id",
            "parent_id",
            "is_reported",
            "open_gap_ns",
            "waited_ns",
            "dispatch_lag_s",
            "application_before_s",
            "application_between_s",
            "application_after_s",
        ),
        *OF_REQUESTS,
        *_TOKENS,
    }
)
"""Columns of a request that its calls do not change."""


@dataclass(slots=True)
class Inside:
    """
    Calls inside requests.

    Args:
        chains: Largest number of calls of each request of which each began after the previous one
            had ended; 0 without a call; shape ``(n,)``.
        earlier: Time of each call but the last, by name; shape ``(n,)`` each.
        first: Position of the first call of each request among all calls inside requests, in the
            order of requests and of starts; shape ``(n,)``.
        facts: Facts on these calls, by name; shape ``(calls,)`` each. Empty if no request has
            several.
    """

    chains: NDArray[np.int32]
    first: NDArray[np.int64]
    earlier: dict[str, NDArray[np.float64]] = field(default_factory=dict[str, Any])
    facts: dict[str, NDArray[np.float64]] = field(default_factory=dict[str, Any])


def join_calls(
    requests: Columns, calls: Columns, scopes: NDArray[np.int64], names: Sequence[str]
) -> Inside:
    """
    Add the facts of calls to their requests.

    Args:
        requests: Columns of the requests; they are changed.
        calls: Columns of the calls.
        scopes: Number, parent, and whether it is a request, of each request, inner request and
            stage; shape ``(scopes, 3)``.
        names: Name of each call.
    """
    row = _request_of(calls.column("parent_id"), requests.column("scope_id"), scopes)
    inside = np.flatnonzero(row >= 0)
    start_ns = calls.column("start_ns")
    inside = inside[np.lexsort((start_ns[inside], row[inside]))]
    owner = row[inside]
    size = requests.size
    is_last = np.append(owner[1:] != owner[:-1], True) if len(owner) else np.empty(0, np.bool_)
    last = np.full(size, -1)
    last[owner[is_last]] = inside[is_last]
    has_call = last >= 0
    _add_numbers(requests, calls, last, has_call)
    for name in _TOKENS:
        if name in calls.names:
            requests.set(name, _summed(calls.column(name)[inside], owner, size, has_call))
    _add_groups(requests, calls, last, has_call)
    streams = np.bincount(owner, calls.column("streamed")[inside] == 1, size) > 0
    streamed = requests.column("streamed").copy()
    streamed[(streamed < 0) & streams] = 1
    requests.set("streamed", streamed)
    chains = np.bincount(owner, minlength=size).astype(np.int32)
    result = Inside(chains, np.cumsum(chains) - chains)
    if size and chains.max() > 1:
        result.facts.update(
            (name, calls.column(name)[inside].astype(np.float64))
            for name in calls.names
            if name not in _OWN or name in _TOKENS
        )
    duration_ns = calls.column("duration_ns")
    begins = np.append(True, owner[1:] != owner[:-1]) if len(owner) else np.empty(0, np.bool_)
    for begin in np.flatnonzero(begins).tolist():
        request = int(owner[begin])
        if chains[request] > 1:
            children = inside[begin : begin + chains[request]]
            chains[request] = _sequential(start_ns[children], duration_ns[children])
            earlier: list[int] = children[:-1].tolist()
            for child in earlier:
                times = result.earlier.setdefault(names[child], np.zeros(size))
                times[request] += duration_ns[child]
    return result


def by_number(scopes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return scopes in the order of their numbers."""
    return scopes[np.argsort(scopes[:, 0], kind="stable")]


def outermost(scope: NDArray[np.int64], scopes: NDArray[np.int64]) -> NDArray[np.int64]:
    """
    Return the number of the request that each scope is inside of, its own number if it is one.

    Args:
        scope: Number of each scope.
        scopes: Number, parent, and whether it is a request, of all scopes, in the order of their
            numbers.

    Returns:
        Another number, or 0, for a scope that is inside of no request.
    """
    numbers = scopes[:, 0]
    current = scope.copy()
    if len(numbers):
        for _ in range(MAX_DEPTH):
            place = np.minimum(np.searchsorted(numbers, current), len(numbers) - 1)
            goes_on = (numbers[place] == current) & (scopes[place, 2] == 0) & (current > 0)
            if not goes_on.any():
                break
            current[goes_on] = scopes[place[goes_on], 1]
    return current


def _request_of(
    parent: NDArray[np.int64], requests: NDArray[np.int64], scopes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the row of the request that each call is inside of; -1 if it is inside of none."""
    current = outermost(parent, by_number(scopes))
    order = np.argsort(requests, kind="stable")
    place = np.minimum(np.searchsorted(requests, current, sorter=order), len(requests) - 1)
    found = order[place]
    return np.where((requests[found] == current) & (current > 0), found, -1)


def _add_numbers(
    requests: Columns, calls: Columns, last: NDArray[np.int64], has_call: NDArray[np.bool_]
) -> None:
    for name in [each for each in calls.names if each not in _OWN]:
        own = requests.column(name).astype(np.float64)
        found = np.full(requests.size, nan)
        found[has_call] = calls.column(name)[last[has_call]]
        requests.set(name, np.where(np.isnan(found), own, found))


def _summed(
    values: NDArray[np.float64],
    owner: NDArray[np.int64],
    size: int,
    has_call: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return the sum of the known values of each request; NaN if none is known."""
    known = ~np.isnan(values)
    summed = np.bincount(owner[known], values[known], size)
    counted = np.bincount(owner[known], minlength=size)
    return np.where(has_call & (counted > 0), summed, nan)


def _add_groups(
    requests: Columns, calls: Columns, last: NDArray[np.int64], has_call: NDArray[np.bool_]
) -> None:
    for name, groups in calls.groups.items():
        if groups.is_given_up:
            continue
        codes = groups.column(calls.size)
        values: list[str | None] = [None] * requests.size
        for at in np.flatnonzero(has_call).tolist():
            code = codes[last[at]]
            if code >= 0:
                values[at] = groups.values[code]
        known = requests.groups.get(name)
        if known is not None:
            if known.is_given_up:
                continue
            for at, code in enumerate(known.column(requests.size).tolist()):
                if code >= 0:
                    values[at] = known.values[code]
        joined = Groups(groups.max_values)
        joined.add(0, values)
        requests.groups[name] = joined


def _sequential(start_ns: NDArray[np.int64], duration_ns: NDArray[np.int64]) -> int:
    """Return the largest number of calls of which each began after the previous one had ended."""
    end_ns = start_ns + duration_ns
    count, free_at = 0, 0
    for at in np.argsort(end_ns, kind="stable").tolist():
        if start_ns[at] >= free_at:
            count += 1
            free_at = int(end_ns[at])
    return count
