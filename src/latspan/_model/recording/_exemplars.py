"""Selection of the exemplars of an interval: the slowest request and a typical one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from latspan._model.recording._record import RequestRecord

_SAMPLE: Final = 5
"""Size of the random sample. In 98 % of such samples, the middle value is between p10 and p90."""


class Exemplar(NamedTuple):
    """
    Exemplar of a series: one value, and the trace of the request that has it.

    Args:
        value: Nanoseconds for times, a plain number for counts, billionths for ratios.
        epoch_ns: Unix time of the end of the value's request, in nanoseconds.
        trace_id: ID of a trace that is kept.
        span_id: ID of the request's span in that trace.
    """

    value: int
    epoch_ns: int
    trace_id: int
    span_id: int


class ExemplarReservoir:
    """
    Requests of one series and interval that may become its exemplars. Not thread-safe.

    Args:
        random: Random generator that picks the sample.
    """

    __slots__ = ("_random", "_sample", "_seen", "_slowest")

    def __init__(self, random: Random) -> None:
        self._random = random
        self._slowest: Exemplar | None = None
        self._sample: list[Exemplar] = []
        self._seen = 0

    def offer(
        self, records: Sequence[RequestRecord], highest: Sequence[int], typical: Sequence[int]
    ) -> None:
        """
        Add candidates: requests whose traces are kept.

        Args:
            records: The requests, at least one.
            highest: The highest value of each request in the series, in the same order.
            typical: One value of each request, chosen regardless of its size.

        Source: Vitter, "Random sampling with a reservoir", algorithm R, for the sample.
        """
        slowest = max(highest)
        if self._slowest is None or slowest > self._slowest.value:
            self._slowest = _exemplar(records[highest.index(slowest)], slowest)
        random, seen, sample = self._random.random, self._seen, self._sample
        for at in range(len(records)):
            place: float = seen
            seen += 1
            if place >= _SAMPLE:
                place = random() * seen
                if place >= _SAMPLE:
                    continue
            taken = int(place)
            sample[taken : taken + 1] = [_exemplar(records[at], typical[at])]
        self._seen = seen

    def chosen(self) -> tuple[Exemplar, ...]:
        """Return the slowest request and the middle of the sample, if they differ."""
        if self._slowest is None:
            return ()
        typical = sorted(self._sample)[(len(self._sample) - 1) // 2]
        return (self._slowest,) if typical == self._slowest else (self._slowest, typical)


def _exemplar(record: RequestRecord, value: int) -> Exemplar:
    end_epoch_ns = record.start_epoch_ns + record.duration_ns
    return Exemplar(value, end_epoch_ns, record.trace_id, record.span_id)
