"""Division of requests by the values of one attribute, as the option ``--by`` asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from latspan._base.shown import printable
from latspan._model.segments import KIND_NOUNS
from latspan._model.text import count, listed
from latspan._study.table._table import Table
from latspan.errors import ConfigError

MAX_VALUES: Final = 10
"""Number of values that ``--by`` shows, those with the most requests."""


class Division(NamedTuple):
    """
    Values of an attribute.

    Args:
        values: The values that are shown, the one with the most requests first.
        notes: What is in none of them, one sentence each.
    """

    values: tuple[str, ...]
    notes: tuple[str, ...]


def wanted_attributes(where: Mapping[str, str] | None, by: str | None) -> dict[str, str | None]:
    """
    Return the attributes that a table must keep: with a value, or ``None`` for any value.

    Args:
        where: Value of each attribute that the requests must have.
        by: Attribute by whose values the requests are divided, if they are.
    """
    return {**({} if by is None else {by: None}), **(where or {})}


def divide(tables: Sequence[Table], name: str) -> Division:
    """
    Return the values of an attribute that are shown, and what is in none of them.

    Args:
        tables: Tables of different kinds.
        name: The attribute.

    Raises:
        ConfigError: No row has the attribute.
    """
    counts: Counter[str] = Counter()
    without: list[tuple[str, int]] = []
    refused: list[ConfigError] = []
    for table in tables:
        try:
            codes, values = table.codes_of(name)
        except ConfigError as error:
            refused.append(error)
            without.append((KIND_NOUNS[table.kind][0], round(table.requests)))
            continue
        known = codes >= 0
        numbers = np.bincount(codes[known], table.weight[known], len(values)).tolist()
        counts.update({value: round(n) for value, n in zip(values, numbers, strict=True) if n})
        without.append((KIND_NOUNS[table.kind][0], round(float(table.weight[~known].sum()))))
    if refused and len(refused) == len(tables):
        raise refused[0]
    ranked = counts.most_common()
    noun = KIND_NOUNS[tables[0].kind][0] if tables else "request"
    notes = [_left_out(name, ranked[MAX_VALUES:], noun)] if len(ranked) > MAX_VALUES else []
    if lacking := [count(number, noun) for noun, number in without if number]:
        verb = "has" if sum(number for _, number in without) == 1 else "have"
        notes.append(f"{listed(lacking)} {verb} no {printable(name)}.")
    return Division(tuple(value for value, _ in ranked[:MAX_VALUES]), tuple(notes))


def _left_out(name: str, ranked: Sequence[tuple[str, int]], noun: str) -> str:
    """Return the sentence on the values that are not shown, at least one."""
    values = f"{len(ranked):,} more value{'' if len(ranked) == 1 else 's'}"
    requests = count(sum(number for _, number in ranked), noun)
    return (
        f"Not shown: {values} of {printable(name)}, with {requests};"
        f" --where {printable(name)}=VALUE selects one."
    )
