#!/usr/bin/env python3
"""
Build the OpenTelemetry Collector, Jaeger and Prometheus, once, from pinned Go modules.

``build_backends.py`` builds what is missing; ``build_backends.py --where`` prints their folder.

The programs are stored outside the repository: in ``$LATSPAN_BACKENDS``, or in a folder of the
user's cache that is named after the pinned versions. A program that exists is not built again.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

MANIFEST = Path(__file__).resolve().parents[1] / "collector-config" / "build" / "manifest.yaml"
BUILDER = "go.opentelemetry.io/collector/cmd/builder"

MODULES = {
    "jaeger": ("github.com/jaegertracing/jaeger", "v1.76.0", "cmd/jaeger"),
    "prometheus": ("github.com/prometheus/prometheus", "v0.315.0", "cmd/prometheus"),
}
"""Path, version and package of the module of each program that has its own."""


def folder() -> Path:
    """Return the folder for the programs of these versions."""
    configured = os.environ.get("LATSPAN_BACKENDS")
    if configured:
        return Path(configured).absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    # Without comments: a change of their wording does not require another build.
    components = re.sub(r"#.*", "", MANIFEST.read_text("utf-8")).split()
    pinned = json.dumps([MODULES, components])
    key = hashlib.sha256(pinned.encode()).hexdigest()[:12]
    return cache / "latspan" / "backends" / key


def go(*arguments: str | Path, at: Path, **variables: str | Path) -> str:
    """Run the ``go`` command in a folder and return what it printed."""
    return run("go", *arguments, at=at, **variables)


def run(*command: str | Path, at: Path, **variables: str | Path) -> str:
    """Run a command in a folder, outside any workspace of Go's, and return what it printed."""
    environment = {**os.environ, "GOWORK": "off", **{n: str(v) for n, v in variables.items()}}
    done = subprocess.run(  # noqa: S603 - fixed commands
        command,
        cwd=at,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.stderr.write(f"{done.stdout}{done.stderr}")
        fail(f"'{' '.join(map(str, command))}' failed", "its output is above")
    return done.stdout


def fail(what: str, hint: str) -> None:
    """End with one message."""
    sys.exit(f"latspan: {what}\nhint: {hint}")


def build_collector(scratch: Path, program: Path) -> str:
    """Build the Collector that the manifest describes, with the builder of its version."""
    manifest = MANIFEST.read_text("utf-8")
    (version,) = re.findall(r"^  version: (\S+)$", manifest, re.MULTILINE)
    go("install", f"{BUILDER}@v{version}", at=scratch, GOBIN=scratch)
    made = scratch / "made"
    with_path = manifest.replace("\ndist:\n", f"\ndist:\n  output_path: {made}\n")
    (scratch / "manifest.yaml").write_text(with_path, "utf-8")
    run(scratch / "builder", "--config", scratch / "manifest.yaml", at=scratch)
    (made / program.name).replace(program)
    return f"v{version}"


def build_module(scratch: Path, program: Path) -> str:
    """
    Build a program from its module.

    Its ``replace`` directives prevent ``go install``. They do not apply in a new module that
    requires it.
    """
    module, version, package = MODULES[program.name]
    downloaded = json.loads(go("mod", "download", "-json", f"{module}@{version}", at=scratch))
    (scratch / "go.mod").write_text(
        f"module built/{program.name}\n\ngo 1.26\n\n"
        f"tool {module}/{package}\n\nrequire {module} {version}\n",
        "utf-8",
    )
    # The checksum database lacks one of Jaeger's dependencies; the module's own sums have it.
    shutil.copyfile(Path(downloaded["Dir"], "go.sum"), scratch / "go.sum")
    go("mod", "tidy", at=scratch)
    built = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w")
    go("build", *built, "-o", program, f"{module}/{package}", at=scratch)
    return version


PROGRAMS: dict[str, Callable[[Path, Path], str]] = {
    "otelcol": build_collector,
    "jaeger": build_module,
    "prometheus": build_module,
}


def build(at: Path) -> None:
    """Build every program that is missing."""
    for name, builder in PROGRAMS.items():
        program = at / name
        if program.exists():
            show(f"{name}: exists already")
            continue
        # Left by builds that were killed; no other build is running now.
        for left in at.glob(f".{name}-*"):
            shutil.rmtree(left)
        began = time.monotonic()
        show(f"{name}: building, which takes minutes")
        # In the same folder, so that moving the finished program into place is one step.
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=at) as scratch:
            made = Path(scratch, "program", name)
            made.parent.mkdir()
            version = builder(Path(scratch), made)
            made.replace(program)
        show(f"{name}: built {version} in {time.monotonic() - began:.0f} s")


@contextmanager
def alone(at: Path) -> Generator[None]:
    """Wait for other builds into the same folder, and prevent them inside the block."""
    at.mkdir(parents=True, exist_ok=True)
    with (at / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def show(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Build the programs, or print their folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--where", action="store_true", help="print the folder, build nothing")
    at = folder()
    if parser.parse_args().where:
        show(str(at))
        return
    missing = [name for name in PROGRAMS if not (at / name).exists()]
    if missing and shutil.which("go") is None:
        show(
            f"not built, because Go is not installed: {', '.join(missing)}; get it from https://go.dev/dl"
        )
        return
    with alone(at):
        build(at)
    show(f"the programs are in {at}")


if __name__ == "__main__":
    main()
