"""
The ``Server-Timing`` header: a server's own times by name, in milliseconds.

Source: W3C Server Timing, "The Server-Timing Header Field".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from latspan._units import in_unit
from latspan._wire._decimals import as_number

__all__ = ["FIELD", "HEADER", "TOTAL", "parsed", "written"]

HEADER: Final = "server-timing"

FIELD: Final = "server_timing"
"""Where a body has the same text, by latspan's own definition: a stream's last chunk, say."""

TOTAL: Final = "total"
"""
The entry of everything since the request came, named stages or not; up to the last token, where
there are any.
"""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LONGEST: Final = 16_384
"""Characters that are read at most: a header says little, and comes from anybody."""
_ENTRY: Final = re.compile(
    # Nothing is tried twice: what is no entry might otherwise be read for hours.
    r"""\s*+(?P<name>[!#$%&'*+\-.^_`|~0-9A-Za-z]++)
        (?P<parameters>(?:\s*+;\s*+[^=;,\s]++(?:\s*+=\s*+(?:
            "(?:[^"\\]|\\.)*+"(?=\s*+(?:[;,]|$))|[^;,]*+
        ))?+)*+)\s*+(?:,|$)""",
    re.VERBOSE,
)
_PARAMETER: Final = re.compile(
    r""";\s*(?P<name>[^=;,\s]+)\s*(?:=\s*(?P<value>"(?:[^"\\]|\\.)*"|[^;,]*))?"""
)


def written(durations_ns: Iterable[tuple[str, int]]) -> str:
    """
    Return the value of the header, which is in milliseconds.

    Args:
        durations_ns: Names and nanoseconds; what cannot be a name there is left out.
    """
    return ", ".join(
        f"{name};dur={in_unit(duration_ns, 'ms'):.3f}"
        for name, duration_ns in durations_ns
        if _TOKEN.fullmatch(name)
    )


def parsed(value: str) -> Iterator[tuple[str, float]]:
    """
    Yield the names that have a duration, and the milliseconds, in order.

    What is no entry ends the reading; a duration that is no decimal number is none.
    """
    value = value[:_LONGEST]
    at = 0
    while at < len(value):
        entry = _ENTRY.match(value, at)
        if entry is None:
            return
        at = entry.end()
        duration_ms = _duration(entry["parameters"])
        if duration_ms is not None:
            yield entry["name"], duration_ms


def _duration(parameters: str) -> float | None:
    # The first of a name counts, says the source.
    for parameter in _PARAMETER.finditer(parameters):
        if parameter["name"].lower() == "dur":
            return as_number((parameter["value"] or "").strip().strip('"'))
    return None
