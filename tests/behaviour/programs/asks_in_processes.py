"""Makes a call in this process, in a process of multiprocessing and in another Python program."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import httpx


def ask(url: str) -> None:
    httpx.get(url)


if __name__ == "__main__":
    address = sys.argv[1]
    ask(address)
    for context in (multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")):
        child = context.Process(target=ask, args=(address,))
        child.start()
        child.join()
    subprocess.run(
        [sys.executable, "-c", "import httpx, sys; httpx.get(sys.argv[1])", address], check=True
    )
