"""
Time that latspan adds to a call while no collector accepts latspan's data.

Method: the real OpenAI client 3 makes calls of about 8 ms, one after the other. Each response has
five words, which arrive on a schedule (``_timed.py``), and ``latspan_instrumentation.httpx``
patches the transport. latspan exports to one of four collectors: one refuses connections, one
accepts them and never responds, one resets them, and the name of one cannot be resolved. Metrics
are exported every second, and spans in batches. Groups of forty calls with latspan take turns with
groups of forty calls without it (``uninstrument()``), in one process. Each group has a p50 and a
p95, and a row is the difference between them with and without latspan: first the minimum, then the
median, then the range of the middle half of the differences.

The figures are elapsed time and not CPU time, so their unit is ms, and they do not depend on the
yardstick. They include everything that latspan does. The rows in which nothing is exported show how
much of the difference does not come from the collector.

Caveats: on a shared machine, the p95 of forty calls mostly depends on the other work. The control,
which compares the client with itself, shows how much. The calls wait for their response, as real
calls do; without these waits, latspan's threads could only run by delaying the caller.

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

_CALLS: Final = 40
_WARM: Final = 3
_FAREWELL_S: Final = 0.1
"""Time limit of the shutdown, in seconds; short, because no data can be delivered."""
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
    """
    Return the p50s, then the p95s: each as the lists without latspan and with it, by turn.
    """
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
    # Patching a class invalidates the interpreter's caches for it: the first calls refill them.
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
