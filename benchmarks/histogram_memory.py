"""
What 16,000 series take at the most while they are exported, beside dense HDR histograms.

How: eight metrics under 2,000 attribute sets, each series 1,000 lognormal values (sigma 0.5). A
fresh process fills a recorder with them, swaps the interval and sends it as the exporting thread
does, through an exporter that encodes each message as protobuf and throws it away. The figure is
the peak of its resident memory above what it was before the first value: ``VmHWM``, which is set
back through ``/proc/self/clear_refs`` just then (so Linux only). numpy is not loaded. Everything
is imported before; the table that takes HDR buckets to exponential ones is not made before.

*1,000 values each*: all values are in the interval and in the totals. *1,000 more* is the same
process afterwards: 1,000 values in the totals already and 1,000 others in the interval, so 2,000 in
each point that a cumulative export sends. *Every trace kept* adds exemplars, which a series has
where the trace of its request is sampled: up to six candidates until the export.

The rival is one dense histogram of three digits a series, as the hdrhistogram package makes it;
500 of them are measured and scaled up. It holds no interval and exports nothing.

Caveats: records are stood in for by stretches of values (``_series.py``), so the at most 512
records that wait are not in the figure; they are some 1 MB. With ``--quick``, and where a row says
so, a tenth of the series is measured: what they hold is multiplied, what an export takes beside
that is not, though a tenth may be too little for a whole message. Which memory is given back to
the system is the C library's choice, here glibc's.

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

__all__ = ["measure"]

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
    # What else runs disturbs no memory, so the processes share the cores.
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
    """Return the peak of each fill, for 16,000 series and in MiB."""
    ran = subprocess.run(
        [sys.executable, str(_PROGRAM), name, str(series), str(fills)],
        check=True,
        capture_output=True,
        text=True,
    )
    return [(peak + held * (_SERIES / series - 1)) / _MIB for peak, held in json.loads(ran.stdout)]
