"""
Choice of the records that are written when more are recorded per second than the limit.

Requests are kept whole: a request, and the calls and stages inside it, have the number of their
outermost scope in common, and the choice is made by that number. The fraction that is kept adapts
to the rate of the previous second, and is halved inside a second that has too many. Each kept
record states the fraction with which it was chosen, so that sums can be corrected.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Final

from latspan._base.nanoseconds import NS_PER_S
from latspan._model.recording._record import RequestRecord

_RANGE: Final = 2**64
_GOLDEN: Final = 0x9E3779B97F4A7C15
"""
Odd multiplier that spreads consecutive numbers evenly: 2**64 divided by the golden ratio.

Source: Knuth, The Art of Computer Programming, volume 3, section 6.4, Fibonacci hashing.
"""
_MAX_OPEN: Final = 10_000
"""Number of open requests whose choice is remembered; beyond it, the oldest are decided again."""


class RecordSampler:
    """
    Sampler of the records of one process. It is not thread-safe.

    Args:
        limit_per_s: Number of records per second above which a sample is kept; ``None`` keeps all.
    """

    def __init__(self, limit_per_s: float | None) -> None:
        self._limit = limit_per_s
        self._salt = int.from_bytes(os.urandom(8))
        self._second = 0
        self._seen = self._kept = 0
        self._ratio = 1.0
        self._halve_at = limit_per_s or 0.0
        self._without_scope = 0
        self._chosen: OrderedDict[int, float] = OrderedDict()

    def ratio_of(self, record: RequestRecord) -> float:
        """Return the fraction with which ``record`` is kept; 0 if it is left out."""
        if self._limit is None:
            return 1.0
        self._turn((record.start_epoch_ns + record.duration_ns) // NS_PER_S, self._limit)
        self._seen += 1
        ratio = self._choice(record)
        if not ratio:
            return ratio
        self._kept += 1
        if self._kept >= self._halve_at:
            self._ratio /= 2
            self._halve_at += self._limit / 2
        return ratio

    def _turn(self, second: int, limit: float) -> None:
        """Begin the next second, with the ratio that the rate of this one suggests."""
        if second <= self._second:
            # A request may end later than one that is recorded after it.
            return
        rate = self._seen if second == self._second + 1 else 0
        self._ratio = min(1.0, limit / rate) if rate else 1.0
        self._second, self._seen, self._kept, self._halve_at = second, 0, 0, limit

    def _choice(self, record: RequestRecord) -> float:
        root = record.root_id
        if not root:
            self._without_scope -= 1
            return self._ratio_if_chosen(self._without_scope)
        ratio = self._chosen.get(root)
        if ratio is None:
            ratio = self._ratio_if_chosen(root)
            self._chosen[root] = ratio
            if len(self._chosen) > _MAX_OPEN:
                self._chosen.popitem(last=False)
        if record.scope_id == root:
            # The outermost scope ends last.
            del self._chosen[root]
        return ratio

    def _ratio_if_chosen(self, number: int) -> float:
        position = (number * _GOLDEN + self._salt) % _RANGE
        return self._ratio if position < self._ratio * _RANGE else 0.0
