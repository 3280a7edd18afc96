"""
CPU time of the load client of ``latspan measure``, per chunk of a stream.

Method: a scripted server in a process of its own sends streams of 64 chunks, the first after 200 ms
and one every 10 ms after it. Clients take turns, each in a new process with 50 streams in flight,
which is 3,900 chunks per second. The figure is the CPU time of the client's process on all threads
from its first request to its last, divided by the number of chunks. For latspan, which sends with
aiohttp, it includes everything that is recorded: timelines, histograms and the lines of the
recording. So the difference from bare aiohttp is what instrumenting and recording cost.

The alternatives only read and discard the bytes: they parse no event and record nothing, so a load
test with them costs more. A tenth of guidellm's CPU time is the target: guidellm 0.8.1 took 27 s
for 32,000 chunks, 840 µs per chunk, on the machine for which the targets are stated.

Caveats: a large part is the operating system's, which wakes the process for most chunks. With fewer
streams in flight it wakes for each chunk, so a chunk costs more, and the process has time for it.

Reproduce: ``make bench ARGS=load_client``
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from _bench import Row, Scale, Target, figure, interleaved
from latspan.testing import Script, ScriptedServer

_CHUNKS: Final = 64
_REQUESTS: Final = 200
_IN_FLIGHT: Final = 50
_SCRIPT: Final = Script.chat(tokens=_CHUNKS, prefill_ms=200, gap_ms=10, flavor="plain")
_TARGET: Final = Target(most=84)
_RIVALS: Final = {
    "aiohttp, bytes discarded": "aiohttp",
    "httpx2, bytes discarded": "httpx2",
}


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    with ScriptedServer(_SCRIPT) as server, tempfile.TemporaryDirectory() as folder:
        clients = ["latspan", *_RIVALS.values()]
        measures = [_measuring(client, server.base_url, Path(folder)) for client in clients]
        ours, *rivals = map(figure, interleaved(measures, scale.of(10)))
    for name, rival in zip(_RIVALS, rivals, strict=True):
        yield Row(
            what="a chunk under load, recorded",
            latspan=ours,
            rival=rival,
            rival_name=name,
            target=_TARGET,
        )


def _measuring(client: str, url: str, folder: Path) -> Callable[[], float]:
    program = str(Path(__file__).with_name("_load_clients.py"))

    def measured() -> float:
        records = tempfile.mkdtemp(dir=folder)
        ran = subprocess.run(
            [sys.executable, program, client, url, str(_REQUESTS), str(_IN_FLIGHT), records],
            check=True,
            capture_output=True,
            text=True,
        )
        return float(ran.stdout) / (_REQUESTS * _CHUNKS) * 1e6

    return measured
