"""The Mistral SDK is a namespace package with three clients, each of which triggers the patches."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import latspan
from latspan._live.instrument._discovery import patched_libraries
latspan.auto_instrument()
import {package}
print("mistralai" in patched_libraries(), "latspan_instrumentation.mistralai" in sys.modules)
print("mistralai.client" in sys.modules)
latspan.uninstrument()
print(patched_libraries() == set())
"""


@pytest.mark.parametrize(
    ("package", "patched", "imports_mistrals"),
    [
        ("mistralai.client", "True True", "True"),
        ("mistralai.azure.client", "True True", "False"),
        ("mistralai.gcp.client", "True True", "False"),
        # The import of the namespace package runs no code.
        ("mistralai", "False False", "False"),
    ],
)
def test_the_first_client_that_is_imported_triggers_the_patches(
    package: str, patched: str, imports_mistrals: str
) -> None:
    if package == "mistralai.gcp.client":
        pytest.importorskip("google.auth", reason="google-auth is not installed")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(package=package)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [patched, imports_mistrals, "True"], done.stderr
