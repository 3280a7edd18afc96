"""Implementations in other languages, from their own package registries."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD = Path(__file__).parents[2] / "build" / "interop"


@pytest.fixture(scope="session")
def javascript() -> Callable[..., str]:
    """Return what runs a program of this folder with its packages, and returns what it prints."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("needs Node.js and npm")
    wanted = (HERE / "package.json").read_bytes()
    home = BUILD / f"{zlib.crc32(wanted):08x}"
    ready = home / "ready"
    if not ready.exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_bytes(wanted)
        options = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
        subprocess.run([npm, "install", "--silent", *options], cwd=home, check=True)
        ready.touch()

    def run(program: str, *arguments: str | Path) -> str:
        done = subprocess.run(
            [node, HERE / program, *arguments],
            env={"NODE_PATH": str(home / "node_modules")},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run
