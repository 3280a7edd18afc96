#!/usr/bin/env python3
"""
Run the programs of ``build_backends.py`` with the configurations in ``collector-config/``.

``run_backends.py up`` starts the Collector, Jaeger and Prometheus on the loopback interface, and
returns when they serve. ``run_backends.py down`` ends the programs that ``up`` started, and no
others. ``run_backends.py where`` prints the name and the path of each program.

Grafana Tempo is in no package registry. If ``LATSPAN_TEMPO`` is the path of its program, or PATH
contains it, Tempo runs too and receives all traces.

The addresses are in the configurations. Each has a variable that replaces it:
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

from build_backends import fail, folder, show

CONFIGS = Path(__file__).resolve().parents[1] / "collector-config"
START_S = 60.0
STOP_S = 30.0
HANGING_S = 3.0
POLL_S = 0.05
LAST_LINES = 10


@dataclass(frozen=True, slots=True)
class Backend:
    """
    Program and its command line.

    Args:
        name: Name of the program.
        program: Its path; ``None`` if it is missing.
        arguments: Its arguments. It is started in its own folder.
        ready: Address and path that respond with success once the program serves.
        use: Its addresses, as text for the user.
        hangs: Whether it may not end on SIGTERM, although it has stored everything by then.
    """

    name: str
    program: Path | None
    arguments: tuple[str, ...]
    ready: str
    use: str
    hangs: bool = False


def addresses() -> dict[str, str]:
    """Return each address in the configurations by its variable, or the variable's value if set."""
    found: dict[str, str] = {}
    for config in ("local.yaml", "jaeger.yaml", "tempo.yaml"):
        text = (CONFIGS / config).read_text("utf-8")
        found.update(re.findall(r"\$\{(?:env:)?(LATSPAN_\w+):-([^}]+)\}", text))
    return {variable: os.environ.get(variable, default) for variable, default in found.items()}


def built(name: str) -> Path | None:
    """Return the path of a program of ``build_backends.py``, if it exists."""
    program = folder() / name
    return program if program.exists() else None


def tempo() -> Path | None:
    """Return the path of Tempo's program, if there is one."""
    configured = os.environ.get("LATSPAN_TEMPO")
    found = configured or shutil.which("tempo")
    if found is None:
        return None
    program = Path(found).absolute()
    if not program.is_file():
        fail(
            f"LATSPAN_TEMPO is {configured}, which is no file", "set it to the path of the program"
        )
    return program


def backends(at: dict[str, str]) -> tuple[Backend, ...]:
    """Return the programs in the order of their start: receivers before senders."""
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
            # It waits until its queue of queries is removed, but a query of the last 30 s keeps
            # the queue, and the task that would remove it has ended.
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
            f"receives OTLP at http://{at['LATSPAN_COLLECTOR_HTTP']}"
            f" and over gRPC at http://{at['LATSPAN_COLLECTOR_GRPC']}",
        ),
    )


def up(state: Path) -> None:
    """Start the programs that do not run yet; if one fails, end those that were started."""
    at = addresses()
    wanted = backends(at)
    missing = [each.name for each in wanted if each.program is None and each.name != "tempo"]
    if missing:
        fail(f"{', '.join(missing)}: not in {folder()}", "run `make backends`")
    state.mkdir(parents=True, exist_ok=True)
    started: list[Backend] = []
    try:
        for each in wanted:
            if each.program is None:
                show(f"{each.name}: left out, because it is neither on PATH nor in LATSPAN_TEMPO")
                continue
            command = (str(each.program), *each.arguments)
            runs = running(each, state)
            if runs is not None:
                if runs.command != command:
                    fail(f"{each.name} runs with other arguments", "run `make backends-down`")
                show(f"{each.name}: runs already")
                continue
            started.append(each)
            start(each, command, state, {**os.environ, **at})
            show(f"{each.name}: {each.use}")
    except BaseException:
        for each in reversed(started):
            end(each, state)
        raise


def start(
    backend: Backend, command: tuple[str, ...], state: Path, variables: dict[str, str]
) -> None:
    """Start a program, and return when it serves."""
    own = state / backend.name
    own.mkdir(exist_ok=True)
    if answers(backend):
        fail(
            f"{backend.name}: another program serves {backend.ready}",
            "end it, or set another address",
        )
    log = state / f"{backend.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - a program from the list above
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
            fail(
                f"{backend.name} {what}", f"the end of its output is above, and all of it in {log}"
            )
        time.sleep(POLL_S)


def where() -> None:
    """Print the name and the path of each program that exists."""
    for each in backends(addresses()):
        if each.program is not None:
            show(f"{each.name} {each.program}")


def answers(backend: Backend) -> bool:
    """Return whether the program responds with success."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{backend.ready}", timeout=POLL_S * 20):
            return True
    except (OSError, urllib.error.URLError):
        return False


def down(state: Path) -> None:
    """End the programs, senders first, so that receivers get what senders still hold."""
    for each in reversed(backends(addresses())):
        show(f"{each.name}: {'ended' if end(each, state) else 'did not run'}")


def end(backend: Backend, state: Path) -> bool:
    """End a program, and return whether it ran."""
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
    """Wait until a program has ended, and return whether it has."""
    deadline = time.monotonic() + within_s
    while running(backend, state) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


@dataclass(frozen=True, slots=True)
class Process:
    """
    Process that this script started.

    Args:
        pid: ID of the process.
        command: Its program and arguments.
    """

    pid: int
    command: tuple[str, ...]


def running(backend: Backend, state: Path) -> Process | None:
    """
    Return the process that this script started, if it runs.

    The system reuses process IDs, so the process must also run that program.
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
    """Return the file with the ID of the process, its program and its arguments."""
    return state / f"{backend.name}.pid"


def main() -> None:
    """Start, end or list the programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=("up", "down", "where"))
    parser.add_argument(
        "--state",
        type=Path,
        help="folder for process IDs, logs and data (default: beside the programs)",
    )
    options = parser.parse_args()
    if options.do == "where":
        where()
        return
    state: Path = options.state or folder() / "state"
    (up if options.do == "up" else down)(state.absolute())


if __name__ == "__main__":
    main()
