"""
Peak memory of 16,000 series during their export, compared with dense HDR histograms.

Method: eight metrics with 2,000 attribute sets give 16,000 series of 1,000 lognormal values each
(sigma 0.5). A new process records the values, swaps the interval and sends it as the exporting
thread does. The exporter encodes each message as protobuf and discards it. The figure is the peak
of the process's resident memory (``VmHWM``) minus its memory before the first value. At that
instant the peak is reset through ``/proc/self/clear_refs``, so the benchmark needs Linux. numpy is
not loaded. All modules are imported before that instant; the table that maps HDR buckets to
exponential buckets is not yet created then.

*1,000 values each*: all values are both in the interval and in the totals. *1,000 more* is the next
export of the same process: 1,000 values are already in the totals, and 1,000 others are in the
interval, so each point of a cumulative export contains 2,000. *Every trace kept* adds exemplars. A
series has exemplars if the traces of its requests are sampled: up to six candidates until the
export.

The rival is one dense histogram with three digits per series, from the hdrhistogram package. 500
histograms (100 with ``--quick``) are measured and scaled up. It has no interval and exports
nothing.

Caveats: stretches of values replace the records (``_series.py``). So the figure does not include
the records that are not counted yet: at most 512, about 1 MB. With ``--quick``, and in rows whose
name states it, a tenth of the series is measured. The memory that they hold is multiplied by ten.
The additional memory of an export is not multiplied, although a tenth of the series may not fill a
whole message. The C library, here glibc, determines which memory is returned to the system.

Reproduce: ``make bench ARGS=histogram_memory``
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from _bench import Figure, Row, Scale, Target

_SERIES: Final = 16_000
_MIB: Final = 1 << 20
_PROGRAM: Final = Path(__file__).with_name("_memory_of.py")
_TARGET: Final = Target(most=128)
_RIVALS: Final = {
    "dense": "dense hdrhistogram, 1 ns to 24 h, 3 digits; {} scaled up",
    "dense-narrow": "dense hdrhistogram, 1 µs to 1 h, 3 digits; {} scaled up",
}


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    series = _SERIES // 10 if scale.quick else _SERIES
    dense = 100 if scale.quick else 500
    # Other work on the machine does not affect memory, so two processes run at the same time.
    with ThreadPoolExecutor(2) as pool:
        measured = {
            name: pool.submit(_taken, name, count, fills)
            for name, count, fills in (
                ("cumulative", series, 2),
                ("delta", series, 2),
                ("cumulative-sampled", _SERIES // 10, 1),
                *((name, dense, 1) for name in _RIVALS),
            )
        }
    taken = {name: future.result() for name, future in measured.items()}
    rivals = {text.format(dense): taken[name][0] for name, text in _RIVALS.items()}
    suffix = ", a tenth scaled up" if scale.quick else ""
    what = f"memory of {_SERIES:,} series, exported"
    for temporality in ("cumulative", "delta"):
        first, second = taken[temporality]
        for rival_name, rival in rivals.items():
            yield Row(
                what=f"{what} {temporality}, 1,000 values each{suffix}",
                latspan=Figure(first),
                rival=Figure(rival),
                rival_name=rival_name,
                target=_TARGET,
                unit="MiB",
            )
        name = f"{what} {temporality}, 1,000 more{suffix}"
        yield Row(what=name, latspan=Figure(second), unit="MiB")
    yield Row(
        what=f"{what} cumulative, 1,000 values each, every trace kept, a tenth scaled up",
        latspan=Figure(taken["cumulative-sampled"][0]),
        unit="MiB",
    )


def _taken(name: str, series: int, fills: int) -> list[float]:
    """Return the peak of each fill in MiB, scaled up to 16,000 series."""
    ran = subprocess.run(
        [sys.executable, str(_PROGRAM), name, str(series), str(fills)],
        check=True,
        capture_output=True,
        text=True,
    )
    return [(peak + held * (_SERIES / series - 1)) / _MIB for peak, held in json.loads(ran.stdout)]
