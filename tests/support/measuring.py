"""``latspan measure`` as a user runs it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from latspan import Recording, open_recording
from latspan.testing import ScriptedServer, ServedRequest

_DEADLINE_S: Final = 120
_ATTEMPTS: Final = 4
_DISTURBED: Final = {"dispatch_lag", "loop_lag", "rate_not_reached", "generator_busy"}
_OF_A_DISTURBED_GENERATOR: Final = ("requests were sent", "the generator was", "the generator used")
"""Texts of these caveats."""


@dataclass(frozen=True, slots=True)
class Measured:
    """
    A measurement that has ended.

    Args:
        code: Exit code.
        document: The JSON document; empty if there is none.
        errors: Standard error.
        folder: Folder of the recording.
    """

    code: int
    document: dict[str, Any]
    errors: str
    folder: Path

    @property
    def step(self) -> dict[str, Any]:
        """The only step."""
        (step,) = self.document["steps"]
        return step

    @property
    def recording(self) -> Recording:
        """The recording."""
        return open_recording(self.folder)

    def seconds(self, metric: str, since: str, percentile: str) -> float:
        """Return a percentile of all requests in seconds."""
        (latency,) = (
            each
            for each in self.step["latencies"]
            if (each["metric"], each["from"]) == (metric, since)
        )
        value: float = latency["all"][percentile]
        return value


def chats_of(server: ScriptedServer) -> list[ServedRequest]:
    """Return the chats that a server got, without the question for its models."""
    return [each for each in server.served_requests() if each.raw.startswith(b"POST")]


def when_valid(take: Callable[[int], Measured]) -> Measured:
    """
    Return a measurement whose generator was not disturbed, or skip the test.

    Other programs on the machine make a measurement invalid, and an invalid one has no verdict.
    What is repeated depends only on the lag and the load of the generator, not on any result.

    Args:
        take: Measures; called with the number of the attempt, at most four times.
    """
    for attempt in range(_ATTEMPTS):
        done = take(attempt)
        names = {each["name"] for step in done.document["steps"] for each in step["caveats"]}
        if not names & _DISTURBED:
            return done
    pytest.skip("other programs disturbed the load generator each time")


def skip_if_disturbed(document: Mapping[str, Any], errors: str) -> None:
    """
    Skip the test if a verification has no verdict because the generator was disturbed.

    Args:
        document: The JSON document of ``latspan verify``; empty if it ended with an error, as it
            does if a run is still invalid after all repetitions.
        errors: Its messages.
    """
    reason = document.get("sentence", errors.rpartition("\nerror: ")[2])
    if any(text in reason for text in _OF_A_DISTURBED_GENERATOR):
        pytest.skip(f"other programs disturbed the load generator: {reason.splitlines()[0]}")


def _environment(variables: dict[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "LATSPAN_", "OPENAI_"))
    }
    return {**kept, **variables}


def measure(
    target: str,
    folder: Path,
    *options: str,
    under: Sequence[str] = (),
    cwd: Path | None = None,
    **variables: str,
) -> Measured:
    """
    Run ``latspan measure TARGET --json`` to its end.

    Args:
        target: What to measure.
        folder: Folder of the recording.
        options: Further options.
        under: A command that runs it, with its options.
        cwd: Working directory.
        variables: Variables that replace all ``OTEL_*``, ``LATSPAN_*`` and ``OPENAI_*`` of this
            process.
    """
    done = subprocess.run(
        [*under, *_command(target, folder, *options)],
        env=_environment(variables),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
    )
    document: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return Measured(done.returncode, document, done.stderr, folder)


def starting(target: str, folder: Path, *options: str) -> subprocess.Popen[str]:
    """Start ``latspan measure``, for a test that interrupts it."""
    return subprocess.Popen(
        _command(target, folder, *options),
        env=_environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _command(target: str, folder: Path, *options: str) -> list[str]:
    return [
        sys.executable, "-m", "latspan", "measure", target, "--output", str(folder), "--json",
        *options,
    ]  # fmt: skip
