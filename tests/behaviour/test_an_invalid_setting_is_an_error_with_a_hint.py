"""Each mistake raises one error, with the wrong value and a ``hint:``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import latspan
from latspan.errors import ConfigError, LatspanError, UnknownNameError


def _configure_unchecked(**settings: Any) -> None:
    """Configure without the help of a type checker."""
    latspan.configure(**settings)


MISTAKES: dict[str, tuple[Callable[[], object], type[LatspanError], str]] = {
    "endpoint without a scheme": (
        lambda: latspan.configure(endpoint="localhost:4318"),
        ConfigError,
        "endpoint is 'localhost:4318'",
    ),
    "endpoint of another scheme": (
        lambda: latspan.configure(endpoint="grpc://localhost:4317"),
        ConfigError,
        "endpoint is 'grpc://localhost:4317'",
    ),
    "percentile": (
        lambda: latspan.snapshot().percentile("ttft", 101),
        ConfigError,
        "101 is not a percentile",
    ),
    "fraction": (
        lambda: latspan.snapshot().percentile("ttft", 0.95),
        ConfigError,
        "0.95 is a fraction",
    ),
    "stage as a metric": (
        lambda: latspan.snapshot().percentile("prefill", 95),
        UnknownNameError,
        "no metric 'prefill'",
    ),
    "outcome": (
        lambda: latspan.snapshot().count(outcome="eror"),
        UnknownNameError,
        "no outcome 'eror'",
    ),
    "metric name": (
        lambda: latspan.snapshot().percentile("tftt", 95),
        UnknownNameError,
        "'tftt'",
    ),
    "setting": (
        lambda: _configure_unchecked(endpont="http://localhost:4318"),
        UnknownNameError,
        "no setting 'endpont'",
    ),
    "stage kind": (
        lambda: latspan.stage("rerank", kind="retreive"),
        UnknownNameError,
        "no standard stage 'retreive'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_code(mistake: str) -> None:
    """It raises where it is made, and latspan's state does not change."""
    make, kind, says = MISTAKES[mistake]

    with pytest.raises(kind) as caught:
        make()

    message, _, hint = str(caught.value).partition("\nhint: ")
    assert says in message
    assert hint
    assert latspan.snapshot().count() == 0


def test_an_impossible_percentile_is_refused_without_values() -> None:
    """A percentile out of range is wrong whether or not there are values."""
    with pytest.raises(ConfigError):
        latspan.snapshot().percentile("ttft", -1)


WITHOUT_HTTPX2 = """
import sys
sys.modules["httpx2"] = None
from latspan.testing import ManualClock
from latspan.testing import Script, scripted_transport
scripted_transport(Script.chat(), ManualClock(), library="httpx2")
"""


def test_a_missing_extra_is_named_with_its_command() -> None:
    """The message contains the package and the command that installs it."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_HTTPX2], capture_output=True, text=True)

    assert done.stderr.endswith(
        "MissingExtraError: the package 'httpx2' is not installed\n"
        "hint: pip install 'latspan[httpx2]'\n"
    )


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("LATSPAN_ENDPOINT", "collector:4318", "endpoint is 'collector:4318'"),
        ("LATSPAN_EXPORT_ENABLED", "maybe", "LATSPAN_EXPORT_ENABLED is 'maybe'"),
        (
            "LATSPAN_STALL_THRESHOLD_MS",
            "half a second",
            "LATSPAN_STALL_THRESHOLD_MS is 'half a second'",
        ),
        ("LATSPAN_PROTOCOL", "http", "protocol is 'http'"),
    ],
)
def test_a_mistake_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    """A program without settings of its own ends with one error."""
    monkeypatch.setenv(variable, value)

    done = subprocess.run(
        [sys.executable, "-c", "import latspan; latspan.configure()"],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert done.stderr.count("Error: ") == 1
    assert says in done.stderr
    assert done.stderr.splitlines()[-1].startswith("hint: ")
