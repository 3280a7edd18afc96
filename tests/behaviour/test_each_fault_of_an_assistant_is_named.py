"""
Each of four faults in the code of an assistant is what ``latspan diagnose`` names.

The program runs under ``latspan run --record``, and diagnosis reads the recording only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from latspan.testing import Script, ScriptedServer
from support.stillness import when_still

PROGRAM: Final = Path(__file__).parent / "programs" / "has_a_fault.py"
REQUESTS: Final = 60
SCRIPTS: Final = {
    "rewrites": Script.chat(tokens=3, prefill_ms=20, gap_ms=1),
    "answers": Script.chat(tokens=8, prefill_ms=10, gap_ms=2),
    "rambles": Script.chat(tokens=100, prefill_ms=10, gap_ms=2),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ScriptedServer(named=SCRIPTS) as server:
        yield server.base_url


def diagnosed(fault: str, url: str, folder: Path) -> dict[str, Any]:
    """Return the diagnosis of a run of the program with a fault."""
    environment = {**os.environ, "OPENAI_BASE_URL": url}
    latspan = (sys.executable, "-m", "latspan")
    program = (sys.executable, str(PROGRAM), fault, str(REQUESTS))
    subprocess.run(
        [*latspan, "run", "--record", str(folder), "--", *program],
        env=environment,
        check=True,
        capture_output=True,
        timeout=120,
    )
    answer = subprocess.run(
        [*latspan, "diagnose", str(folder), "--json"],
        env=environment,
        check=False,
        capture_output=True,
        timeout=60,
    )
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


# On a busy machine, slow requests have further causes: tokens stall, and calls and the event loop
# wait for the processor.
@pytest.mark.undisturbed
@pytest.mark.parametrize(
    ("fault", "cause", "segment"),
    [
        ("rewritten", "call_chain", "prefill"),
        ("retrieved", "retrieval", "retrieve"),
        ("reranked", "retrieval", "rerank"),
        ("answered", "output_length", "decode"),
    ],
)
def test_a_fault_is_named(fault: str, cause: str, segment: str, url: str, tmp_path: Path) -> None:
    """With the segment in which its time is."""
    runs = count()
    found = when_still(lambda: diagnosed(fault, url, tmp_path / str(next(runs))))

    assert found["units"] == REQUESTS
    assert (found["cause"]["name"], found["shares"][0]["segment"]) == (cause, segment)
