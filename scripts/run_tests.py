#!/usr/bin/env python3
"""
Run suites of tests in several environments and say their sum: one line, the last.

``run_tests.py PYTHON FOLDER [PYTHON FOLDER ...] -- [PYTEST ARGUMENT ...]``

The last line has the form ``12 passed, 0 failed, 3 skipped``. A test that could not be set up or
torn down counts as failed, and so does a suite that ended before its tests; an expected failure
counts as skipped. The exit status is 0 only when every suite's was.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from types import FrameType

NO_TESTS_COLLECTED = 5


@dataclass(frozen=True, slots=True)
class Counts:
    """How the tests of a suite ended."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def counts_in(report: Path) -> Counts:
    """Return the counts of a JUnit report; none where pytest did not come to write one."""
    if not report.exists():
        return Counts()
    total = Counts()
    for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 - pytest wrote it just now
        tests, failures, errors, skipped = (
            int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")
        )
        total += Counts(tests - failures - errors - skipped, failures + errors, skipped)
    return total


def run(command: list[str]) -> int:
    """
    Run a command in the foreground and return its exit status.

    Whoever stops this stops the child too, gently, so that it can end its own servers: an
    interrupt reaches it from the terminal, a termination as an interrupt.
    """
    child = subprocess.Popen(command)  # noqa: S603 - the caller is the Makefile
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.wait()
        raise
    except SystemExit:
        child.send_signal(signal.SIGINT)
        child.wait()
        raise


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)


def run_suite(python: str, folder: str, arguments: list[str]) -> tuple[Counts, bool]:
    """Run the tests of one folder and return their counts, and whether all is well."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        status = run([python, "-m", "pytest", folder, f"--junit-xml={report}", *arguments])
        counts = counts_in(report)
    # A selection such as -k may leave one of the suites with nothing to do.
    if status == NO_TESTS_COLLECTED and arguments:
        return counts, True
    if status != 0 and counts.failed == 0:
        counts += Counts(failed=1)
    return counts, status == 0


def main(arguments: list[str]) -> int:
    """Run every suite, print the sum last, and return the exit status."""
    signal.signal(signal.SIGTERM, _end)
    split = arguments.index("--") if "--" in arguments else len(arguments)
    named, passed_on = arguments[:split], arguments[split + 1 :]
    total, well = Counts(), True
    began = time.monotonic()
    for python, folder in zip(named[::2], named[1::2], strict=True):
        sys.stdout.write(f"\n{folder} with {python}\n")
        sys.stdout.flush()
        try:
            counts, suite_well = run_suite(python, folder, passed_on)
        except KeyboardInterrupt:
            sys.stderr.write("interrupted\n")
            return 128 + signal.SIGINT
        total += counts
        well = well and suite_well
    sys.stdout.write(f"\nall suites took {time.monotonic() - began:.0f} s\n{total}\n")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
