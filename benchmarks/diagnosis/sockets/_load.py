"""Loads on a system: ``latspan measure``, and small programs that ``latspan run`` records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

ENDPOINT: Final = "SOCKETS_OTLP_ENDPOINT"
"""Variable with the URL to which spans are exported too; nothing is exported without it."""

_TIME_LIMIT_S: Final = 60.0
"""Time after which a load is ended."""

_NOT_RECORDED: Final = 2
"""Exit code of ``latspan measure`` after a wrong command line or a failed first request."""


class RecordingError(Exception):
    """A load that made no recording."""


def measured(
    url: str,
    folder: Path,
    *options: str,
    env: Mapping[str, str] | None = None,
    is_traced: bool = True,
) -> Path:
    """
    Measure a server with ``latspan measure``, and return the recording.

    Args:
        url: Address of the server, without a path.
        folder: Folder of the recording; it must not exist.
        options: Options of the command, for example ``--rate``.
        env: Variables in addition to those of this process.
        is_traced: Whether spans are exported too, if there is an endpoint for them.
    """
    command = [
        *(sys.executable, "-P", "-m", "latspan", "measure", f"{url}/v1"),
        *("--no-result", "--json", "--output", str(folder), *options),
    ]
    if "--model" not in options:
        command += ["--model", "m"]
    if is_traced and ENDPOINT in os.environ:
        command += ["--otlp-endpoint", os.environ[ENDPOINT]]
    code, output = _ended(command, env or {})
    if code == _NOT_RECORDED or not (folder / "recording.json").exists():
        raise RecordingError(f"latspan measure ended with {code}: {output[-2000:]}")
    return folder


def calibrated(url: str, folder: Path, *options: str) -> Path:
    """Measure 40 requests, one at a time, and return the recording."""
    alone = ("--concurrency", "1", "--requests", "40", "--warmup", "3")
    return measured(url, folder, *alone, *options, is_traced=False)


def program(path: Path, folder: Path, **env: str) -> Path:
    """
    Run a Python program under ``latspan run --record``, and return the recording.

    Args:
        path: File of the program.
        folder: Folder of the recording; it must not exist.
        env: Variables of the program in addition to those of this process.
    """
    command = [
        *(sys.executable, "-P", "-m", "latspan", "run", "--record", str(folder)),
        *("--", sys.executable, str(path)),
    ]
    variables = {"LATSPAN_REQUEST_STREAM_USAGE": "true", **env}
    if ENDPOINT in os.environ:
        variables |= {"LATSPAN_ENDPOINT": os.environ[ENDPOINT], "LATSPAN_EXPORT_ENABLED": "true"}
    code, output = _ended(command, variables)
    if code or not (folder / "recording.json").exists():
        raise RecordingError(f"{path.name} ended with {code}: {output[-2000:]}")
    return folder


def prompts(
    path: Path, random: Random, lengths: Sequence[int], *, shared: int = 0, groups: int = 1
) -> Path:
    """
    Write a file of prompts for ``latspan measure --prompts``.

    Args:
        path: File; it is written.
        random: Source of the words.
        lengths: Number of words of each prompt, after the shared ones.
        shared: Number of words that the prompts of a group begin with.
        groups: Number of groups; a prompt belongs to one at random.
    """
    beginnings = [_text(random, shared) for _ in range(groups)]
    with path.open("w") as file:
        for length in lengths:
            text = f"{random.choice(beginnings)} {_text(random, length)}".strip()
            file.write(json.dumps({"prompt": text}) + "\n")
    return path


def _text(random: Random, words: int) -> str:
    return " ".join(f"w{random.randrange(100_000)}" for _ in range(words))


def _ended(command: Sequence[str], env: Mapping[str, str]) -> tuple[int, str]:
    """Run a command, and return its exit code and its output."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OPENAI_API_KEY": "none", **env},
        text=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=_TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            output, _ = process.communicate()
            raise RecordingError(f"no end within {_TIME_LIMIT_S} s: {output[-2000:]}") from None
    return process.returncode, output
