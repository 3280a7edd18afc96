"""Programs that gevent has patched: greenlets at once, one call each, in its own request."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from latspan.testing import Script, ScriptedServer
from support.programs import run_program


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
