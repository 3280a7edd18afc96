"""
Duration of a call if no collector accepts what latspan sends.

How: the real OpenAI client 3 makes calls of some 8 ms, one after the other: five words, each when
it is due, over a transport that ``latspan_httpx`` patches (``_timed.py``). latspan is configured
for a collector that refuses connections, one that takes them and never answers, one that resets
them, or one whose name cannot be resolved; metrics are exported every second, spans in batches.
Forty calls with latspan and forty without it (``uninstrument()``) take turns in one process. Of
each forty come a p50 and a p95; a row is their difference, pair by pair: least and median as
everywhere, and behind the median where the middle half of the differences lies.

Here the time that passes counts, not CPU time, so the unit is ms and does not depend on the
yardstick. The difference has all that latspan does in it, not only what the collector's absence
costs; the rows in which nothing is exported say how much of it that is.

Caveats: on a machine that others use, the p95 of forty calls is mostly theirs; the control, the
client against itself, says how much. A call without waiting in it would leave latspan's threads no
time but the caller's.

Reproduce: ``make bench ARGS=dead_collector``
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import quantiles
from typing import TYPE_CHECKING, Final

import latspan
from _bench import Row, Scale, Target, added, figure, settled_heap
from _collectors import COLLECTORS
from _openai import MESSAGES
from _timed import slow_client

if TYPE_CHECKING:
    from openai import OpenAI

__all__ = ["measure"]

_CALLS: Final = 40
_WARM: Final = 3
_FAREWELL_S: Final = 0.1
"""What is left need not arrive."""
_TARGET: Final = Target(most=2)


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    openai = slow_client()
    # Each kind of failure is logged once; here it is expected.
    logging.disable(logging.ERROR)
    latspan.uninstrument()
    _percentiles(openai)
    settled_heap()
    yield from _rows("control: nothing", _pairs(openai, latspan.uninstrument, scale))
    latspan.configure(export_enabled=False)
    yield from _rows("nothing is exported", _pairs(openai, latspan.auto_instrument, scale))
    for what, collector in COLLECTORS.items():
        with collector() as address:
            latspan.configure(endpoint=address, metrics_interval_s=1)
            pairs = _pairs(openai, latspan.auto_instrument, scale)
            yield from _rows(f"collector {what}", pairs, _TARGET)
            latspan.shutdown(timeout_s=_FAREWELL_S)
    latspan.uninstrument()
    logging.disable(logging.NOTSET)


Percentiles = tuple[float, float]
"""The p50 and the p95 of forty calls, in milliseconds."""


def _pairs(
    openai: OpenAI, switch_on: Callable[[], object], scale: Scale
) -> list[tuple[list[float], list[float]]]:
    """Return the percentiles of calls without latspan and of those with it, turn by turn."""
    results: tuple[list[Percentiles], list[Percentiles]] = ([], [])
    turns = [(latspan.uninstrument, results[0]), (switch_on, results[1])]
    for _ in range(scale.of(30)):
        for switch, taken in turns:
            switch()
            taken.append(_percentiles(openai))
        turns.reverse()
    bare, traced = (zip(*taken, strict=True) for taken in results)
    return [(list(without), list(with_it)) for without, with_it in zip(bare, traced, strict=True)]


def _percentiles(openai: OpenAI) -> Percentiles:
    # Patching a class makes the interpreter forget what it knew of it.
    took = [_took_ms(openai) for _ in range(_WARM + _CALLS)][_WARM:]
    cuts = quantiles(took, n=20, method="inclusive")
    return cuts[9], cuts[18]


def _took_ms(openai: OpenAI) -> float:
    before = time.perf_counter_ns()
    for _ in openai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True):
        pass
    return (time.perf_counter_ns() - before) / 1e6


def _rows(
    what: str, pairs: Sequence[tuple[list[float], list[float]]], target: Target | None = None
) -> Iterator[Row]:
    for name, (bare, traced) in zip(("p50", "p95"), pairs, strict=True):
        yield Row(
            what=f"{name} of a call, {what}",
            latspan=added(bare, traced),
            rival=figure(bare),
            rival_name="the client alone",
            target=target,
            unit="ms",
        )
