#!/usr/bin/env python3
"""
Run the programs of ``build_backends.py`` with the configurations in ``collector-config/``.

``run_backends.py up`` starts the Collector, Jaeger and Prometheus on the loopback interface, and
returns when they serve; ``run_backends.py down`` ends those that it started, and no others.

Addresses are those in the configurations, each after the variable that sets another:
``LATSPAN_PROMETHEUS=127.0.0.1:9999 scripts/run_backends.py up``.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from build_backends import fail, folder, say

CONFIGS = Path(__file__).resolve().parents[1] / "collector-config"
START_S = 60.0
STOP_S = 30.0
POLL_S = 0.05
LAST_LINES = 10


@dataclass(frozen=True, slots=True)
class Backend:
    """
    A program and how it is run.

    Args:
        name: The program's.
        arguments: Its command line; ``{state}`` is a folder of its own.
        ready: An address and a path that answer with success once it serves.
        tells: What is to be found where, for who starts it.
    """

    name: str
    arguments: tuple[str, ...]
    ready: str
    tells: str


def addresses() -> dict[str, str]:
    """Return every address that the configurations name, by variable, as the environment has it."""
    found: dict[str, str] = {}
    for config in ("local.yaml", "jaeger.yaml"):
        text = (CONFIGS / config).read_text("utf-8")
        found.update(re.findall(r"\$\{env:(LATSPAN_\w+):-([^}]+)\}", text))
    return {variable: os.environ.get(variable, default) for variable, default in found.items()}


def backends(at: dict[str, str]) -> tuple[Backend, ...]:
    """Return them in the order in which they are started: who is sent to before who sends."""
    jaeger, prometheus = at["LATSPAN_JAEGER"], at["LATSPAN_PROMETHEUS"]
    return (
        Backend(
            "jaeger",
            (f"--config={CONFIGS / 'jaeger.yaml'}",),
            f"{jaeger}/api/services",
            f"traces at http://{jaeger}",
        ),
        Backend(
            "prometheus",
            (
                f"--config.file={CONFIGS / 'prometheus.yaml'}",
                "--storage.tsdb.path={state}",
                f"--web.listen-address={prometheus}",
                "--web.enable-otlp-receiver",
                "--enable-feature=exemplar-storage",
            ),
            f"{prometheus}/-/ready",
            f"metrics at http://{prometheus}",
        ),
        Backend(
            "otelcol",
            (f"--config={CONFIGS / 'local.yaml'}",),
            at["LATSPAN_COLLECTOR_HEALTH"],
            f"takes OTLP at http://{at['LATSPAN_COLLECTOR_HTTP']}"
            f" and over gRPC at http://{at['LATSPAN_COLLECTOR_GRPC']}",
        ),
    )


def up(state: Path) -> None:
    """Start those that do not run yet; where one fails, none stays that was started now."""
    at = addresses()
    wanted = backends(at)
    missing = [each.name for each in wanted if not (folder() / each.name).exists()]
    if missing:
        fail(f"there is no program {', '.join(missing)} in {folder()}", "make backends")
    state.mkdir(parents=True, exist_ok=True)
    started: list[Backend] = []
    try:
        for each in wanted:
            if running(each, state) is not None:
                say(f"{each.name}: runs already")
                continue
            started.append(each)
            start(each, state, {**os.environ, **at})
            say(f"{each.name}: {each.tells}")
    except BaseException:
        for each in reversed(started):
            end(each, state)
        raise


def start(backend: Backend, state: Path, variables: dict[str, str]) -> None:
    """Start one, and return when it serves."""
    own = state / backend.name
    own.mkdir(exist_ok=True)
    if answers(backend):
        fail(
            f"{backend.name}: somebody else answers at {backend.ready}", "end it, or say where else"
        )
    log = state / f"{backend.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - a program of ours
            [folder() / backend.name, *(each.format(state=own) for each in backend.arguments)],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    pid_file(backend, state).write_text(f"{process.pid}\n", "utf-8")
    deadline = time.monotonic() + START_S
    while not answers(backend):
        if process.poll() is not None or time.monotonic() > deadline:
            last = log.read_text("utf-8", "replace").splitlines()[-LAST_LINES:]
            sys.stderr.write("".join(f"{line}\n" for line in last))
            ended = process.returncode is not None
            what = "ended at once" if ended else f"did not serve within {START_S:g} s"
            fail(f"{backend.name} {what}", f"what it said last is above, and all of it in {log}")
        time.sleep(POLL_S)


def answers(backend: Backend) -> bool:
    """Say whether the address that tells of it answers with success."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{backend.ready}", timeout=POLL_S * 20):
            return True
    except (OSError, urllib.error.URLError):
        return False


def down(state: Path) -> None:
    """End those that run, the one that sends first, so that it sends on what it holds."""
    for each in reversed(backends(addresses())):
        say(f"{each.name}: {'ended' if end(each, state) else 'did not run'}")


def end(backend: Backend, state: Path) -> bool:
    """End one, and say whether it ran."""
    pid = running(backend, state)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while running(backend, state) is not None:
            if time.monotonic() > deadline:
                fail(f"{backend.name} did not end within {STOP_S:g} s", f"it has the pid {pid}")
            time.sleep(POLL_S)
    pid_file(backend, state).unlink(missing_ok=True)
    return pid is not None


def running(backend: Backend, state: Path) -> int | None:
    """
    Return the process id of the one that was started here, if it runs.

    An id is given again to others: the process must run the program, as the one it was started as.
    """
    try:
        pid = int(pid_file(backend, state).read_text("utf-8"))
        runs = Path(f"/proc/{pid}/exe").resolve(strict=True)
    except (OSError, ValueError):
        return None
    return pid if runs == (folder() / backend.name).resolve() else None


def pid_file(backend: Backend, state: Path) -> Path:
    """Return where the process id is kept."""
    return state / f"{backend.name}.pid"


def main() -> None:
    """Start them or end them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=("up", "down"))
    parser.add_argument(
        "--state", type=Path, help="a folder for pids, logs and data; else beside the programs"
    )
    asked = parser.parse_args()
    state: Path = asked.state or folder() / "state"
    (up if asked.do == "up" else down)(state.absolute())


if __name__ == "__main__":
    main()
