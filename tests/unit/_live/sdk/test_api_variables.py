"""Variables that OpenTelemetry's API reads are checked when latspan is configured."""

from __future__ import annotations

import pytest

from support.snippets import run_text

CONFIGURES = """
import os
os.environ["{variable}"] = "foo"
import latspan
from latspan.errors import ConfigError
try:
    latspan.configure(export_enabled=False)
except ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize("variable", ["OTEL_PROPAGATORS", "OTEL_PYTHON_TRACER_PROVIDER"])
def test_a_name_that_the_api_cannot_load_is_an_error_of_configure(variable: str) -> None:
    """In a new process, because the API reads each variable once."""
    shown = run_text(CONFIGURES.replace("{variable}", variable)).stdout

    assert shown.startswith(f"{variable} is 'foo', which OpenTelemetry cannot load: ")
    assert "hint: install the package that provides it" in shown
