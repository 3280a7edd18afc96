#!/usr/bin/env python3
"""
Try an installed wheel as its first user would: ``smoke.py WHEEL``.

It runs where nothing but the wheel is installed, and compares it with ``pyproject.toml``.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

# What `import latspan` must not load: it stays as light as the OpenTelemetry API.
HEAVY = (
    "opentelemetry.sdk",
    "wrapt",
    "tiktoken",
    "openai",
    "httpx",
    "httpx2",
    "aiohttp",
    "requests",
    "urllib3",
)

_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
_PROJECT = tomllib.loads(_PYPROJECT.read_text("utf-8"))["project"]
ENTRY_POINTS = {("console_scripts", name) for name in _PROJECT["scripts"]} | {
    (group, name) for group, points in _PROJECT["entry-points"].items() for name in points
}

LOADED = f"""
import sys
import latspan
print(latspan.__version__)
print(*(name for name in {HEAVY!r} if name in sys.modules))
"""


def run(*command: str) -> str:
    """Return what a command wrote on stdout; its failure ends the smoke test."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - commands of our own


def problems(wheel: Path) -> list[str]:
    """Return what is wrong with the installed wheel, in words."""
    found: list[str] = []
    installed = metadata.version("latspan")

    version, loaded = run(sys.executable, "-I", "-c", LOADED).splitlines()
    if version != installed:
        found.append(f"latspan.__version__ is {version}, the distribution's is {installed}")
    if loaded:
        found.append(f"`import latspan` loads {loaded}")

    printed = run(str(Path(sys.executable).parent / "latspan"), "--version")
    if installed not in printed:
        found.append(f"`latspan --version` prints {printed.strip()!r}, not {installed}")

    entry_points = metadata.distribution("latspan").entry_points
    named = {(point.group, point.name): point for point in entry_points}
    found += [f"no entry point {name} in {group}" for group, name in ENTRY_POINTS - named.keys()]
    # Loading one must not need the client library it is for: the OpenTelemetry loader looks
    # at what is installed only after it has loaded the class.
    for (group, name), point in named.items():
        if group == "opentelemetry_instrumentor":
            try:
                point.load()
            except (ImportError, AttributeError) as error:
                found.append(f"the entry point {name} does not load: {error}")

    held = set(zipfile.ZipFile(wheel).namelist())
    packages = {name.split("/")[0] for name in held if not name.split("/")[0].endswith("info")}
    found += [
        f"{package}/py.typed is missing"
        for package in sorted(packages)
        if f"{package}/py.typed" not in held
    ]
    if not any(name.endswith("/licenses/LICENSE") for name in held):
        found.append("the wheel has no LICENSE")
    return found


def main() -> int:
    """Print what is wrong, and return how many things are."""
    found = problems(Path(sys.argv[1]))
    for problem in found:
        sys.stderr.write(f"smoke test: {problem}\n")
    if not found:
        sys.stdout.write(f"{Path(sys.argv[1]).name} works\n")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
