"""
The ``Server-Timing`` header: durations measured by a server, by name, in milliseconds.

Source: W3C Server Timing, "The Server-Timing Header Field".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from latspan._model.units import in_unit

HEADER: Final = "server-timing"

FIELD: Final = "server_timing"
"""
Field of a body that holds the header's text, for example in the last chunk of a stream.

latspan defines this field; it is not part of a standard.
"""

TOTAL: Final = "total"
"""
Name of the entry for the time from the arrival of the request, in named stages or not, to the last
token, if there are tokens.
"""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MAX_LENGTH: Final = 16_384
"""Maximum number of characters to read: a valid header is short, and its source is untrusted."""
# Possessive quantifiers prevent backtracking, which could take hours on a malformed header.
_ENTRY: Final = r"""\s*+(?P<name>[!#$%&'*+\-.^_`|~0-9A-Za-z]++)
    (?P<parameters>(?:\s*+;\s*+[^=;,\s]++(?:\s*+=\s*+(?:
        "(?:[^"\\]|\\.)*+"(?=\s*+(?:[;,]|$))|[^;,]*+
    ))?+)*+)\s*+(?:,|$)"""
_PARAMETER: Final = re.compile(
    r""";\s*(?P<name>[^=;,\s]+)\s*(?:=\s*(?P<value>"(?:[^"\\]|\\.)*"|[^;,]*))?"""
)


def written(durations_ns: Iterable[tuple[str, int]]) -> str:
    """
    Return the value of the header, with durations in milliseconds.

    Args:
        durations_ns: Names and nanoseconds; entries whose name is not an HTTP token are left out.
    """
    return ", ".join(
        f"{name};dur={in_unit(duration_ns, 'ms'):.3f}"
        for name, duration_ns in durations_ns
        if _TOKEN.fullmatch(name)
    )


def parsed(value: str) -> Iterator[tuple[str, float]]:
    """
    Yield each name that has a duration, with the milliseconds, in order.

    Parsing stops at the first malformed entry. Entries whose duration is not a decimal number are
    skipped.
    """
    value, pattern = value[:_MAX_LENGTH], _entry()
    at = 0
    while at < len(value):
        entry = pattern.match(value, at)
        if entry is None:
            return
        at = entry.end()
        duration_ms = _duration(entry["parameters"])
        if duration_ms is not None:
            yield entry["name"], duration_ms


@cache
def _entry() -> re.Pattern[str]:
    # Compiled on first use: that takes 1 ms, and most servers do not send the header.
    return re.compile(_ENTRY, re.VERBOSE)


def _duration(parameters: str) -> float | None:
    # If a parameter name occurs twice, the specification uses the first.
    for parameter in _PARAMETER.finditer(parameters):
        if parameter["name"].lower() == "dur":
            return as_number((parameter["value"] or "").strip().strip('"'))
    return None


_DECIMAL: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,20})?")
"""Decimal number, with up to as many places as the shortest text of a double has."""


def as_number(text: str) -> float | None:
    """
    Return the number that ``text`` contains in ASCII digits, ``None`` for any other text.

    Unlike this function, ``float`` also accepts ``1_000``, ``1e3``, ``inf`` and the digits of other
    scripts.
    """
    return float(text) if _DECIMAL.fullmatch(text) else None
