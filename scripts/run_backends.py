#!/usr/bin/env python3
"""
Run the programs of ``build_backends.py`` with the configurations in ``collector-config/``.

``run_backends.py up`` starts the Collector, Jaeger and Prometheus on the loopback interface, and
returns when they serve; ``run_backends.py down`` ends those that it started, and no others.
``run_backends.py where`` prints which programs there are, a name and a path each.

Grafana Tempo is in no package registry. Where ``LATSPAN_TEMPO`` says where its program is, or it is
on the ``PATH``, it runs beside them and has all traces as well.

Addresses are those in the configurations, each after the variable that sets another:
``LATSPAN_PROMETHEUS=127.0.0.1:9999 scripts/run_backends.py up``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
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
HANGING_S = 3.0
POLL_S = 0.05
LAST_LINES = 10


@dataclass(frozen=True, slots=True)
class Backend:
    """
    A program and how it is run.

    Args:
        name: The program's.
        program: Where it is, ``None`` where there is none.
        arguments: Its command line; it is started in a folder of its own.
        ready: An address and a path that answer with success once it serves.
        tells: What is to be found where, for who starts it.
        hangs: It may never end when it is asked to, with all that it has on disk by then.
    """

    name: str
    program: Path | None
    arguments: tuple[str, ...]
    ready: str
    tells: str
    hangs: bool = False


def addresses() -> dict[str, str]:
    """Return every address that the configurations name, by variable, as the environment has it."""
    found: dict[str, str] = {}
    for config in ("local.yaml", "jaeger.yaml", "tempo.yaml"):
        text = (CONFIGS / config).read_text("utf-8")
        found.update(re.findall(r"\$\{(?:env:)?(LATSPAN_\w+):-([^}]+)\}", text))
    return {variable: os.environ.get(variable, default) for variable, default in found.items()}


def built(name: str) -> Path | None:
    """Return where a program of ``build_backends.py`` is."""
    program = folder() / name
    return program if program.exists() else None


def tempo() -> Path | None:
    """Return where Tempo's program is."""
    said = os.environ.get("LATSPAN_TEMPO")
    found = said or shutil.which("tempo")
    if found is None:
        return None
    program = Path(found).absolute()
    if not program.is_file():
        fail(f"LATSPAN_TEMPO says {said}, and there is no such program", "say where it is")
    return program


def backends(at: dict[str, str]) -> tuple[Backend, ...]:
    """Return them in the order in which they are started: who is sent to before who sends."""
    jaeger_at, prometheus_at = at["LATSPAN_JAEGER"], at["LATSPAN_PROMETHEUS"]
    tempo_at = f"127.0.0.1:{at['LATSPAN_TEMPO_PORT']}"
    traces_to = ("local.yaml",) if tempo() is None else ("local.yaml", "to-tempo.yaml")
    return (
        Backend(
            "jaeger",
            built("jaeger"),
            (f"--config={CONFIGS / 'jaeger.yaml'}",),
            f"{jaeger_at}/api/services",
            f"traces at http://{jaeger_at}",
        ),
        Backend(
            "tempo",
            tempo(),
            (f"-config.file={CONFIGS / 'tempo.yaml'}", "-config.expand-env=true"),
            f"{tempo_at}/ready",
            f"traces at http://{tempo_at}",
            # It waits for its queue of queries to go, which one of the last 30 s keeps alive, and
            # has stopped what would take it away.
            hangs=True,
        ),
        Backend(
            "prometheus",
            built("prometheus"),
            (
                f"--config.file={CONFIGS / 'prometheus.yaml'}",
                "--storage.tsdb.path=.",
                f"--web.listen-address={prometheus_at}",
                "--web.enable-otlp-receiver",
                "--enable-feature=exemplar-storage",
            ),
            f"{prometheus_at}/-/ready",
            f"metrics at http://{prometheus_at}",
        ),
        Backend(
            "otelcol",
            built("otelcol"),
            tuple(f"--config={CONFIGS / config}" for config in traces_to),
            at["LATSPAN_COLLECTOR_HEALTH"],
            f"takes OTLP at http://{at['LATSPAN_COLLECTOR_HTTP']}"
            f" and over gRPC at http://{at['LATSPAN_COLLECTOR_GRPC']}",
        ),
    )


def up(state: Path) -> None:
    """Start those that do not run yet; where one fails, none stays that was started now."""
    at = addresses()
    wanted = backends(at)
    missing = [each.name for each in wanted if each.program is None and each.name != "tempo"]
    if missing:
        fail(f"there is no program {', '.join(missing)} in {folder()}", "make backends")
    state.mkdir(parents=True, exist_ok=True)
    started: list[Backend] = []
    try:
        for each in wanted:
            if each.program is None:
                say(f"{each.name}: left out, for PATH has none, and LATSPAN_TEMPO names none")
                continue
            command = (str(each.program), *each.arguments)
            runs = running(each, state)
            if runs is not None:
                if runs.command != command:
                    fail(f"{each.name} runs already, started otherwise", "make backends-down")
                say(f"{each.name}: runs already")
                continue
            started.append(each)
            start(each, command, state, {**os.environ, **at})
            say(f"{each.name}: {each.tells}")
    except BaseException:
        for each in reversed(started):
            end(each, state)
        raise


def start(
    backend: Backend, command: tuple[str, ...], state: Path, variables: dict[str, str]
) -> None:
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
            command,
            cwd=own,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    kept = "".join(f"{line}\n" for line in (process.pid, *command))
    pid_file(backend, state).write_text(kept, "utf-8")
    deadline = time.monotonic() + START_S
    while not answers(backend):
        if process.poll() is not None or time.monotonic() > deadline:
            last = log.read_text("utf-8", "replace").splitlines()[-LAST_LINES:]
            sys.stderr.write("".join(f"{line}\n" for line in last))
            ended = process.returncode is not None
            what = "ended at once" if ended else f"did not serve within {START_S:g} s"
            fail(f"{backend.name} {what}", f"what it said last is above, and all of it in {log}")
        time.sleep(POLL_S)


def where() -> None:
    """Print the programs that there are."""
    for each in backends(addresses()):
        if each.program is not None:
            say(f"{each.name} {each.program}")


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
    runs = running(backend, state)
    if runs is not None:
        os.kill(runs.pid, signal.SIGTERM)
        if backend.hangs and not ended(backend, state, within_s=HANGING_S):
            os.kill(runs.pid, signal.SIGKILL)
        if not ended(backend, state, within_s=STOP_S):
            fail(f"{backend.name} did not end within {STOP_S:g} s", f"its pid is {runs.pid}")
    pid_file(backend, state).unlink(missing_ok=True)
    return runs is not None


def ended(backend: Backend, state: Path, *, within_s: float) -> bool:
    """Wait until it has ended, and say whether it has."""
    deadline = time.monotonic() + within_s
    while running(backend, state) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


@dataclass(frozen=True, slots=True)
class Process:
    """
    One that was started here.

    Args:
        pid: Its id.
        command: The program and its command line.
    """

    pid: int
    command: tuple[str, ...]


def running(backend: Backend, state: Path) -> Process | None:
    """
    Return the process that was started here, if it runs.

    An id is given again to others: the process must run the program, as the one it was started as.
    """
    try:
        pid, program, *arguments = pid_file(backend, state).read_text("utf-8").splitlines()
        runs = Path(f"/proc/{pid}/exe").resolve(strict=True)
    except (OSError, ValueError):
        return None
    if runs != Path(program).resolve():
        return None
    return Process(int(pid), (program, *arguments))


def pid_file(backend: Backend, state: Path) -> Path:
    """Return where the process id is kept, and how it was started."""
    return state / f"{backend.name}.pid"


def main() -> None:
    """Start them, end them, or say which there are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=("up", "down", "where"))
    parser.add_argument(
        "--state", type=Path, help="a folder for pids, logs and data; else beside the programs"
    )
    asked = parser.parse_args()
    if asked.do == "where":
        where()
        return
    state: Path = asked.state or folder() / "state"
    (up if asked.do == "up" else down)(state.absolute())


if __name__ == "__main__":
    main()
