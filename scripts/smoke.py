#!/usr/bin/env python3
"""
Try an installed wheel as its first user would: ``smoke.py WHEEL``.

It knows the distribution only from outside, so it runs where nothing but the wheel is installed.
"""

from __future__ import annotations

import subprocess
import sys
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

ENTRY_POINTS = {
    ("opentelemetry_instrumentor", "latspan_openai"),
    ("opentelemetry_instrumentor", "latspan_anthropic"),
    ("opentelemetry_instrumentor", "latspan_botocore"),
    ("opentelemetry_instrumentor", "latspan_google.genai"),
    ("opentelemetry_instrumentor", "latspan_mistralai"),
    ("opentelemetry_instrumentor", "latspan_httpx"),
    ("opentelemetry_instrumentor", "latspan_httpx2"),
    ("opentelemetry_instrumentor", "latspan_aiohttp"),
    ("opentelemetry_instrumentor", "latspan_requests"),
    ("opentelemetry_instrumentor", "latspan_urllib3"),
    ("opentelemetry_instrumentor", "latspan_starlette"),
    ("opentelemetry_instrumentor", "latspan_flask"),
    ("opentelemetry_instrumentor", "latspan_django"),
    ("pytest11", "latspan"),
    ("console_scripts", "latspan"),
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
