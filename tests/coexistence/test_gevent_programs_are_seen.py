"""Programs that gevent has patched: greenlets at once, one call each, in its own request."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from latspan.testing import Script, ScriptedServer
from support.programs import run_program
from support.receivers import receiving

WAITS = """
from gevent import monkey
monkey.patch_all()
import gevent, sys
import latspan
latspan.configure(endpoint=sys.argv[1])
with latspan.request("answer"): pass
print("ready", flush=True)
gevent.sleep(600)
"""


@pytest.mark.parametrize("client", ["openai", "requests"])
def test_greenlets_do_not_mix(client: str) -> None:
    """Each call hangs beneath the request of its own greenlet; one that is killed is cancelled."""
    if find_spec("gevent") is None:
        pytest.skip("gevent is not installed")
    with ScriptedServer(Script.chat(tokens=20, prefill_ms=20, gap_ms=20)) as server:
        printed = run_program("asks_from_greenlets", client, server.base_url)
    document = json.loads(printed)
    assert document == {
        "errors": [],
        "calls": [
            ["chat killed", "cancelled", "killed"],
            *([f"chat m{number}", "completed", f"m{number}"] for number in range(4)),
        ],
    }


def test_sigterm_loses_nothing() -> None:
    """The hub runs the signal's handler, where nothing may wait; the process ends by the signal."""
    if find_spec("gevent") is None:
        pytest.skip("gevent is not installed")
    with (
        receiving() as receiver,
        subprocess.Popen(
            [sys.executable, "-Wignore", "-c", WAITS, receiver.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        _, errors = process.communicate(timeout=60)

    assert (process.returncode, errors) == (-signal.SIGTERM, b"")
    assert [span.name for span in receiver.all_spans].count("answer") == 1
