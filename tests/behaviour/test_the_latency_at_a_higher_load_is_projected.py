"""
The capacity of a server with two slots, and its latency at a load that was not measured.

The closed form is M/D/2: arrivals at random, and the same service time for each request.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from latspan.testing import Script, ScriptedServer
from support.measuring import measure, when_valid

_SERVICE_MS = 40
_SLOTS = 2

pytestmark = pytest.mark.alone


def test_a_ladder_of_a_real_measurement_is_projected(tmp_path: Path) -> None:
    """The capacity is what two slots can do, and the projection holds what the queue predicts."""
    script = Script.chat(tokens=1, prefill_ms=_SERVICE_MS, gap_ms=0, flavor="plain")
    with ScriptedServer(script, slots=_SLOTS) as server:
        done = when_valid(
            lambda n: measure(
                server.base_url, tmp_path / str(n), "--model", "m", "--rate", "10,18,28,80",
                "--requests", "60", "--warmup", "5",
            )
        )  # fmt: skip
    found = _capacity(done.folder, "--goal", "p90 duration", "--rate", "32,49")
    # The server notices a free slot a little late, so it is slower than 50 per second.
    assert 36 < found["capacity"]["per_s"] < 51
    higher, near = found["projections"]
    assert higher["label"] == "extrapolated", higher["reason"]
    # M/D/2 at 70 to 90 % of the capacity: the p90 is 2 to 4 times the service.
    assert higher["low_s"] < 4 * _SERVICE_MS / 1e3
    assert higher["high_s"] > 2 * _SERVICE_MS / 1e3
    assert near["label"] == "refused"


def _capacity(folder: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "latspan", "capacity", str(folder), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
