"""A program whose child processes do its work: ``uses_processes.py METHOD KIND``."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import latspan

TASKS = 4


def work(number: int) -> int:
    with latspan.stage("retrieve"):
        return number


def main(method: str, kind: str) -> None:
    if kind == "threads":
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(TASKS)))
        return
    package: Any = importlib.import_module("billiard" if kind == "billiard" else "multiprocessing")
    context = package.get_context(method)
    if kind == "pool":
        with context.Pool(2) as pool:
            pool.map(work, range(TASKS), chunksize=1)
            # Leaving `with` alone would kill the workers.
            pool.close()
            pool.join()
    elif kind == "executor":
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            list(executor.map(work, range(TASKS)))
    else:
        children = [context.Process(target=work, args=(number,)) for number in range(TASKS)]
        for child in children:
            child.start()
        for child in children:
            child.join()


# A spawned child imports this module, which configures it; a forked one is configured already.
latspan.configure()
if __name__ == "__main__":
    multiprocessing.freeze_support()
    work(-1)
    main(*sys.argv[1:])
