#!/usr/bin/env python3
"""
Run suites of tests in several environments, several at a time, and print their sum last.

``run_tests.py [--jobs N] [--alone | --together] [--yield auto|always|never] [--cover PYTHON]
PYTHON FOLDER[,FOLDER...] [...] -- [PYTEST ARGUMENT ...]``

A suite is what one pytest process runs: some folders, with the interpreter of one environment.
``FOLDER%2`` deals the test files of a folder out to two suites. At most N suites run at once, in
the order given, so name the longest first. The default of N is two more than the number of
processors, because many tests wait for a server or a time limit. A line is printed when a suite
starts, and its output when it ends, so suites do not interleave.

Tests that measure milliseconds need the machine to themselves. With ``--alone`` each environment
runs them separately, one suite after the other, and the other suites run without them. With
``--together`` only the others run. The variable ``LATSPAN_TESTS`` is ``together``, ``alone`` or
``undisturbed`` then: see ``tests/conftest.py``.

The tests that run alone use less than half of a processor, because they wait for their servers. On
Linux, the other suites use the rest at the same time. They run in the scheduling class for idle
processors: as soon as a process of another class can run, it takes their place. For that, a test
must not start its programs in a new session, because Linux divides the processors equally among
sessions. Programs that start and end still delay the others by some milliseconds, so name the
suites that start many of them last, and the environment with the longest tests that run alone after
the others. So tests that judge a p95 or every request are ``undisturbed``: they run when all others
have ended. On other systems, and with ``--jobs 1``, the same holds for the tests that run alone. It
also holds if other programs use the processors at the start, because they would leave nothing to
the class for idle processors; ``--yield`` decides that without a look.

With ``--cover PYTHON`` the suites of that interpreter record the branch coverage of the package;
those of tests that run alone do not, because it slows the code. The coverage is printed, and the
run fails if it is below the floor in ``pyproject.toml``, unless arguments select tests.

The last line has the form ``12 passed, 0 failed, 3 skipped``. A test that cannot be set up or torn
down counts as failed, and so does a suite that ends before its tests; an expected failure counts as
skipped. The exit status is 0 only if that of every suite is 0.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from types import FrameType

NO_TESTS_COLLECTED = 5
COVERAGE = Path("build/coverage")
BELOW_FLOOR = 2
STILLNESS = Path(__file__).parents[1] / "tests" / "support" / "stillness.py"
"""Program that prints the share of a processor's time that other programs take."""
LOOKS = 3
BUSY_SHARE = 0.3
"""Share from which on the processors count as busy."""

Phase = Literal["together", "alone", "undisturbed"] | None
MEASURING = {"alone": "tests that run alone", "undisturbed": "undisturbed tests"}
"""Phases of the tests that measure milliseconds, in words."""

Queue = tuple[int, Sequence["Suite"]]
"""Number of suites that run at once, and the suites in their order."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of tests by result."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(frozen=True, slots=True)
class Suite:
    """
    The tests of one pytest process.

    Args:
        python: Interpreter of the environment.
        folders: Folders of tests.
        phase: Which of the tests in them; all, if ``None``.
        files: What pytest runs if not all of the folders.
    """

    python: str
    folders: tuple[str, ...]
    phase: Phase
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        part = f" ({len(self.files)} files)" if self.files else ""
        tests = f", {MEASURING[self.phase]}" if self.phase in MEASURING else ""
        return f"{' '.join(self.folders)}{part} with {self.python}{tests}"


@dataclass(frozen=True, slots=True)
class Result:
    """
    The result of a suite.

    Args:
        counts: Its tests by result.
        is_well: Whether pytest's exit status stands for success.
        output: What pytest printed.
        took_s: Seconds.
    """

    counts: Counts
    is_well: bool
    output: str
    took_s: float


def counts_in(report: Path) -> Counts:
    """Return the counts of a JUnit report; none if pytest did not write one."""
    if not report.exists():
        return Counts()
    total = Counts()
    for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 - pytest wrote it just now
        tests, failures, errors, skipped = (
            int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")
        )
        total += Counts(tests - failures - errors - skipped, failures + errors, skipped)
    return total


class Runner:
    """
    Runs suites as child processes and ends them if it is interrupted.

    Args:
        arguments: Passed on to every pytest.
        covered: Interpreter whose suites record coverage, if any.
        at_once: Whether suites run at the same time as the tests that run alone, and yield to them.
    """

    def __init__(
        self, arguments: Sequence[str], covered: str | None = None, *, at_once: bool = False
    ) -> None:
        self._arguments = list(arguments)
        self._covered = covered
        self._at_once = at_once
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._interrupted = False

    def run(self, suite: Suite) -> Result:
        """Run the tests of one suite."""
        _print(f"-- {suite}\n")
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            report, log = Path(scratch, "report.xml"), Path(scratch, "output")
            tests = suite.files or suite.folders
            measures = suite.phase in MEASURING
            records = suite.python == self._covered and not measures
            coverage = ["-m", "coverage", "run"] if records else []
            command = [suite.python, *coverage, "-m", "pytest", *tests, f"--junit-xml={report}"]
            with log.open("wb") as output:
                status = self._run([*command, *self._arguments], suite.phase, output.fileno())
            counts = counts_in(report)
            text = log.read_text(errors="replace")
        # A selection such as -k can leave a suite without tests, and few suites have tests that
        # measure.
        is_empty = status == NO_TESTS_COLLECTED
        is_well = status == 0 or (is_empty and (bool(self._arguments) or measures))
        if not is_well and counts.failed == 0:
            counts += Counts(failed=1)
        return Result(counts, is_well, text, time.monotonic() - began)

    def _run(self, command: list[str], phase: Phase, output: int) -> int:
        environment = {**os.environ, "LATSPAN_TESTS": phase or ""}
        # Tests start hundreds of programs, and each would compile latspan again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with self._lock:
            if self._interrupted:
                return 128 + signal.SIGINT
            child = subprocess.Popen(  # noqa: S603 - the caller is the Makefile
                command, stdout=output, stderr=subprocess.STDOUT, env=environment
            )
            self._children.add(child)
            if self._at_once and phase == "together":
                # Before it starts threads and programs, which inherit it.
                os.sched_setscheduler(child.pid, os.SCHED_IDLE, os.sched_param(0))
        try:
            return child.wait()
        finally:
            with self._lock:
                self._children.discard(child)

    def start_no_more(self) -> None:
        """Start no further suite; the terminal has interrupted those that run."""
        with self._lock:
            self._interrupted = True

    def interrupt(self) -> None:
        """Start no further suite, and interrupt those that run so that they end their servers."""
        self.start_no_more()
        with self._lock:
            for child in self._children:
                child.send_signal(signal.SIGINT)


def can_yield() -> bool:
    """Return whether a process may enter the scheduling class for idle processors."""
    enter = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))"
    tried = subprocess.run(  # noqa: S603
        [sys.executable, "-c", enter], check=False, stderr=subprocess.DEVNULL
    )
    return tried.returncode == 0


def is_busy() -> bool:
    """Return whether other programs use the processors now; print it if they do."""
    shares: list[float] = []
    for _ in range(LOOKS):
        look = subprocess.run(  # noqa: S603
            [sys.executable, "-I", str(STILLNESS)], check=False, capture_output=True, text=True
        )
        shares.append(float(look.stdout or 0))
    if min(shares) <= BUSY_SHARE:
        return False
    _print(
        f"other programs take {min(shares):.0%} or more of a processor:"
        " the tests that run alone follow the others\n"
    )
    return True


def coverage_of(python: str, *, has_floor: bool) -> bool:
    """
    Print the branch coverage of the suites that have run.

    Args:
        python: Interpreter that recorded it.
        has_floor: Whether the coverage must reach ``fail_under``.

    Returns:
        Whether it could be computed, and reaches its floor if it has one.
    """
    if not any(COVERAGE.glob("data.*")):
        return True
    floor = [] if has_floor else ["--fail-under=0"]
    combine = [python, "-m", "coverage", "combine", "--quiet"]
    combined = subprocess.run(combine, check=False)  # noqa: S603
    shown = subprocess.run(  # noqa: S603
        [python, "-m", "coverage", "report", "--format=total", "--precision=1", *floor],
        check=False,
        capture_output=True,
        text=True,
    )
    percentage, *failure = shown.stdout.splitlines() or [f"unknown: {shown.stderr.strip()}"]
    _print("\n".join([f"\nbranch coverage: {percentage} %", *failure, ""]))
    if shown.returncode == BELOW_FLOOR:
        _print(f"the floor is in pyproject.toml; {python} -m coverage report shows the lines\n")
    return combined.returncode == shown.returncode == 0


def dealt(python: str, named: str, phase: Phase) -> list[Suite]:
    """Return the suites of an argument: one, or several that share the files of a folder."""
    folder, _, parts = named.partition("%")
    if not parts:
        return [Suite(python, tuple(named.split(",")), phase)]
    files = sorted(str(path) for path in Path(folder).rglob("test_*.py"))
    hands = [tuple(files[start :: int(parts)]) for start in range(int(parts))]
    return [Suite(python, (folder,), phase, hand) for hand in hands if hand]


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def run_all(runner: Runner, queues: Iterable[Queue]) -> Iterable[Result]:
    """Run suites and yield their results as they come."""
    with ExitStack() as pools:
        pending: dict[Future[Result], Suite] = {}
        for jobs, suites in queues:
            pool = pools.enter_context(ThreadPoolExecutor(jobs))
            pending |= {pool.submit(runner.run, suite): suite for suite in suites}
        try:
            for done in as_completed(pending):
                result = done.result()
                _print(f"\n== {pending[done]}\n{result.output}")
                _print(f"== {pending[done]}: {result.counts} in {result.took_s:.0f} s\n")
                yield result
        except KeyboardInterrupt:
            # A second interrupt would end a suite before it has ended its servers.
            runner.start_no_more()
            raise
        except BaseException:
            runner.interrupt()
            raise


def main(arguments: list[str]) -> int:
    """Run every suite, print the sum last, and return the exit status."""
    signal.signal(signal.SIGTERM, _end)
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 2, metavar="N")
    measuring = parser.add_mutually_exclusive_group()
    measuring.add_argument("--alone", action="store_true")
    measuring.add_argument("--together", action="store_true")
    parser.add_argument(
        "--yield", dest="yields", choices=("auto", "always", "never"), default="auto"
    )
    parser.add_argument("--cover", metavar="PYTHON")
    parser.add_argument("suites", nargs="+", metavar="PYTHON FOLDER[,FOLDER...]")
    options = parser.parse_args(arguments[:split])
    at_once = options.alone and options.jobs > 1 and can_yield()
    if options.yields != "always":
        at_once = at_once and options.yields == "auto" and not is_busy()
    runner = Runner(arguments[split + 1 :], options.cover, at_once=at_once)
    if options.cover:
        shutil.rmtree(COVERAGE, ignore_errors=True)
        COVERAGE.mkdir(parents=True)
    phase: Phase = "together" if options.alone or options.together else None
    named = list(zip(options.suites[::2], options.suites[1::2], strict=True))
    together = [suite for python, folders in named for suite in dealt(python, folders, phase)]
    folders_of: dict[str, dict[str, None]] = {}
    for suite in together if options.alone else ():
        folders_of.setdefault(suite.python, {}).update(dict.fromkeys(suite.folders))
    alone = [Suite(python, tuple(folders), "alone") for python, folders in folders_of.items()]
    undisturbed = [replace(suite, phase="undisturbed") for suite in alone]
    queues = [(1, alone), (options.jobs, together)]
    phases = [queues] if at_once else [queues[1:], queues[:1]]
    phases.append([(1, undisturbed)])
    total, well = Counts(), True
    began = time.monotonic()
    try:
        for each in phases:
            for result in run_all(runner, each):
                total += result.counts
                well = well and result.is_well
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 128 + signal.SIGINT
    if options.cover:
        selects = bool(arguments[split + 1 :])
        well = coverage_of(options.cover, has_floor=well and not selects) and well
    _print(f"\nall suites took {time.monotonic() - began:.0f} s\n{total}\n")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
