"""
Process whose memory ``histogram_memory`` measures: ``_memory_of.py NAME SERIES FILLS``.

It is a separate process, so that the figure does not include the memory of other work. NAME is
``cumulative`` or ``delta``, each also with the suffix ``-sampled``, or ``dense`` or
``dense-narrow``. For each fill, the process prints two sizes: the peak of its memory, and the
memory in use before an export message was sent. Both are in bytes, minus the memory of the process
before its first value.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any, Final

from hdrh.histogram import HdrHistogram
from opentelemetry.sdk.metrics.export import AggregationTemporality
from opentelemetry.sdk.resources import Resource

from _series import METRICS, VALUES, EncodingExporter, fill, lognormal_ns, new_recorder
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.otel.export import OtlpMetrics
from latspan._model.recording import Recorder

_POOL: Final = 20_000
_DENSE: Final = {"dense": (1, 24 * 3600 * NS_PER_S), "dense-narrow": (1, 3600 * 1_000_000)}
"""
Lowest and highest value of a dense histogram: ``dense`` counts nanoseconds up to 24 hours,
``dense-narrow`` microseconds up to one hour.
"""


def main() -> int:
    """Execute the command line, and return the exit status."""
    name, series, fills = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    pool = lognormal_ns(_POOL)
    is_dense = name in _DENSE
    taken = [_dense(name, series, pool)] if is_dense else _latspan(name, series, fills, pool)
    print(json.dumps(taken))
    return 0


def _latspan(name: str, series: int, fills: int, pool: list[int]) -> list[tuple[int, int]]:
    temporality, _, sampled = name.partition("-")
    recorder = new_recorder()
    outlet = OtlpMetrics(
        recorder,
        EncodingExporter(),
        resource=Resource({}),
        temporality=AggregationTemporality[temporality.upper()],
    )
    before = _fresh_peak()
    taken: list[tuple[int, int]] = []
    for _ in range(fills):
        fill(recorder, series // len(METRICS), pool, sampled=bool(sampled))
        held = _exported(recorder, outlet)
        taken.append((_status("VmHWM") - before, held - before))
        _fresh_peak()
    totals = recorder.snapshot().series
    if [each.histogram.count for each in totals.values()] != [fills * VALUES] * series:
        raise SystemExit("the recorder does not hold what was recorded")
    return taken


def _exported(recorder: Recorder, outlet: OtlpMetrics) -> int:
    """Export as latspan's exporting thread does; return the bytes in use before the message."""
    interval = recorder.swap_interval()
    held = _status("VmRSS")
    outlet.send(interval)
    return held


def _dense(name: str, series: int, pool: list[int]) -> tuple[int, int]:
    lowest, highest = _DENSE[name]
    per_unit = 1 if name == "dense" else 1_000
    before = _fresh_peak()
    held: list[Any] = []
    for which in range(series):
        histogram: Any = HdrHistogram(lowest, highest, 3)
        for value in pool[which : which + VALUES]:
            histogram.record_value(value // per_unit)
        held.append(histogram)
    return _status("VmHWM") - before, _status("VmRSS") - before


def _fresh_peak() -> int:
    """Reset the peak, and return the memory in use now, in bytes."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {field}")


if __name__ == "__main__":
    sys.exit(main())
