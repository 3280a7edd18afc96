"""Latspan's testing tools import neither telemetry nor client libraries."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
import latspan
before = set(sys.modules)
import latspan.testing
from latspan.testing import Script, ScriptedServer, ServedRequest, scripted_transport
import latspan.testing._server_process
heavy = ("opentelemetry", "openai", "httpx", "httpx2", "httpcore", "httpcore2")
print(sorted(name for name in set(sys.modules) - before if name.split(".")[0] in heavy))
"""


def test_the_scripted_server_imports_neither_opentelemetry_nor_a_client() -> None:
    """Nothing can instrument the server, and its startup is fast."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
