"""Each process creates its own object once, and a child does not finalise its parent's."""

from __future__ import annotations

import subprocess
import sys

from latspan._live.process.per_process import PerProcess

FORKS = """
import os
from latspan._live.process.per_process import PerProcess

class Part:
    def __init__(self, inherited):
        self.made_by, self.inherited = os.getpid(), inherited
    def __del__(self):
        print("gone", flush=True)

part = PerProcess(Part)
parents = part.made()
child = os.fork()
if child == 0:
    print(part.made(), flush=True)
    own = part()
    print(own.made_by == os.getpid(), own.inherited is parents, part() is own, flush=True)
    del parents
    os._exit(0)
os.waitpid(child, 0)
print(part() is parents, flush=True)
os._exit(0)
"""


def test_a_process_creates_its_object_once() -> None:
    """The factory receives ``None``, because there is no inherited object."""
    asked: list[object] = []

    def make(inherited: object) -> str:
        asked.append(inherited)
        return "own"

    part = PerProcess(make)

    assert part.made() == "own"
    assert part() == "own"
    assert asked == [None]


def test_a_child_creates_its_own_object_and_keeps_the_inherited_one() -> None:
    """Finalising the parent's object, for example a connection, would disturb the parent."""
    ran = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60, check=True
    )

    assert ran.stdout.splitlines() == ["None", "True True True", "True"]
