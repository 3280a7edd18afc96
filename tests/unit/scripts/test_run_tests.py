"""Test suites run in parallel, and the last line is their sum."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "run_tests.py"
CONFTEST = ROOT / "tests" / "conftest.py"

APART = {"pages", "vllm"}
"""Folders of tests that are not part of ``make test``."""

PASSES = "def test_passes():\n    pass\n"
FAILS = "def test_fails():\n    assert False\n"
SKIPS = "import pytest\n\n\ndef test_skips():\n    pytest.skip('it says why')\n"
BREAKS_AT_TEARDOWN = """
import pytest

@pytest.fixture
def broken():
    yield
    raise RuntimeError

def test_breaks(broken):
    pass
"""


def suite(folder: Path, *tests: str) -> str:
    folder.mkdir()
    for number, test in enumerate(tests):
        (folder / f"test_{folder.name}_{number}.py").write_text(test)
    return str(folder)


def configure(folder: Path) -> None:
    """Give the tests in a folder the configuration of this project's tests."""
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    alone: measures\n    undisturbed: judges a p95\n"
    )


def run(
    *folders: str, arguments: tuple[str, ...] = (), options: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Run the script on these folders; return its exit status and its last line."""
    named = [part for folder in folders for part in (sys.executable, folder)]
    done = subprocess.run(
        [sys.executable, SCRIPT, *options, *named, "--", "-p", "no:cacheprovider", *arguments],
        capture_output=True,
        text=True,
        # The suites use no plug-in, and importing those that are installed takes most of a start.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    return done.returncode, done.stdout.splitlines()[-1]


def test_suites_are_summed(tmp_path: Path) -> None:
    one = suite(tmp_path / "one", PASSES, SKIPS)
    two = suite(tmp_path / "two", PASSES)

    assert run(one, two) == (0, "2 passed, 0 failed, 1 skipped")


def test_a_failure_in_the_first_suite_does_not_stop_the_second(tmp_path: Path) -> None:
    one = suite(tmp_path / "one", FAILS)
    two = suite(tmp_path / "two", PASSES)

    assert run(one, two) == (1, "1 passed, 1 failed, 0 skipped")


@pytest.mark.parametrize(
    ("test", "summary"),
    [
        (BREAKS_AT_TEARDOWN, "0 passed, 1 failed, 0 skipped"),
        ("this is no Python\n", "0 passed, 1 failed, 0 skipped"),
        ("import os\n\nos._exit(3)\n", "0 passed, 1 failed, 0 skipped"),
    ],
    ids=["teardown", "collection", "crash"],
)
def test_errors_outside_of_assertions_count_as_failures(
    tmp_path: Path, test: str, summary: str
) -> None:
    assert (1, summary) == run(suite(tmp_path / "one", test))


def test_a_missing_suite_fails(tmp_path: Path) -> None:
    assert run(str(tmp_path / "missing")) == (1, "0 passed, 1 failed, 0 skipped")


def test_a_selection_may_leave_a_suite_empty(tmp_path: Path) -> None:
    one = suite(tmp_path / "one", PASSES)
    two = suite(tmp_path / "two", SKIPS)

    assert run(one, two, arguments=("-k", "passes")) == (0, "1 passed, 0 failed, 0 skipped")


def test_tests_that_measure_run_alone_and_once(tmp_path: Path) -> None:
    configure(tmp_path)
    measures = """
import os, pytest

@pytest.mark.alone
def test_marked():
    assert os.environ["LATSPAN_TESTS"] == "alone"

def test_with_the_fixture(measured):
    assert os.environ["LATSPAN_TESTS"] == "alone"

@pytest.mark.undisturbed
def test_of_each_request(measured):
    assert os.environ["LATSPAN_TESTS"] == "undisturbed"

def test_any_other():
    assert os.environ["LATSPAN_TESTS"] == "together"
"""
    one = suite(tmp_path / "one", measures, PASSES)
    two = suite(tmp_path / "two", PASSES)

    assert run(f"{one},{two}", options=("--alone",)) == (0, "6 passed, 0 failed, 0 skipped")


def test_tests_that_measure_can_be_left_out(tmp_path: Path) -> None:
    configure(tmp_path)
    measures = """
import pytest

@pytest.mark.alone
def test_marked():
    assert False

@pytest.mark.undisturbed
def test_of_each_request():
    assert False

def test_any_other():
    pass
"""
    one = suite(tmp_path / "one", measures)

    assert run(one, options=("--together",)) == (0, "1 passed, 0 failed, 0 skipped")


# If it ran together with other tests, everything that it starts would yield.
@pytest.mark.alone
@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has this class")
@pytest.mark.parametrize(("yields", "policy"), [("always", "SCHED_IDLE"), ("never", "SCHED_OTHER")])
def test_all_suites_yield_to_tests_that_run_alone(tmp_path: Path, yields: str, policy: str) -> None:
    """So do the programs that they start. Beside other programs, they would never run."""
    configure(tmp_path)
    policies = f"""
import os, pytest, subprocess, sys

@pytest.mark.alone
def test_alone():
    assert os.sched_getscheduler(0) == os.SCHED_OTHER

def test_together():
    assert os.sched_getscheduler(0) == os.{policy}

def test_program():
    program = "import os; raise SystemExit(os.sched_getscheduler(0))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == os.{policy}
"""
    one = suite(tmp_path / "one", policies)

    assert run(one, options=("--alone", "--yield", yields)) == (0, "3 passed, 0 failed, 0 skipped")


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_undisturbed_tests_run_when_all_others_have_ended(tmp_path: Path, jobs: str) -> None:
    configure(tmp_path)
    ends = f"""
import pytest
from pathlib import Path

ENDED = Path({str(tmp_path)!r}, "ended")

@pytest.mark.undisturbed
def test_undisturbed():
    assert sorted(ENDED.read_text()) == ["a", "t", "t"]

@pytest.mark.alone
def test_alone():
    _end("a")

def test_together():
    _end("t")

def _end(letter):
    with ENDED.open("a") as file:
        file.write(letter)
"""
    further = f"""
from pathlib import Path

def test_together():
    with Path({str(tmp_path)!r}, "ended").open("a") as file:
        file.write("t")
"""
    one, two = suite(tmp_path / "one", ends), suite(tmp_path / "two", further)

    ran = run(one, two, options=("--alone", "--jobs", jobs))

    assert ran == (0, "4 passed, 0 failed, 0 skipped")


def test_a_test_that_no_process_would_run_is_an_error(tmp_path: Path) -> None:
    """The process for tests that run alone does not import files that seem to have none."""
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    one = suite(tmp_path / "one", PASSES, "def test_hidden(hides):\n    pass\n")
    hides = "import pytest\n\n@pytest.fixture\ndef hides(measured):\n    pass\n"
    (tmp_path / "one" / "conftest.py").write_text(hides)

    status, _ = run(one, options=("--alone",))

    assert status == 1


def test_programs_that_tests_start_find_compiled_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container often has this variable, and each program would compile latspan again."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    writes = "import sys\n\n\ndef test_it():\n    assert not sys.dont_write_bytecode\n"

    assert run(suite(tmp_path / "one", writes)) == (0, "1 passed, 0 failed, 0 skipped")


def test_the_files_of_a_folder_can_be_divided(tmp_path: Path) -> None:
    one = suite(tmp_path / "one", PASSES, PASSES, SKIPS)

    assert run(f"{one}%2") == (0, "2 passed, 0 failed, 1 skipped")


@pytest.mark.parametrize(
    ("floor", "status"), [(50, 0), (90, 1)], ids=["above the floor", "below the floor"]
)
def test_branch_coverage_is_printed_and_has_a_floor(
    tmp_path: Path, floor: int, status: int
) -> None:
    """One of two statements after the branch is run, and one of its two directions."""
    (tmp_path / "covered.py").write_text("def f(x):\n    if x:\n        return 1\n    return 2\n")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.coverage.run]\nbranch = true\nparallel = true\n"
        'data_file = "build/coverage/data"\nsource_pkgs = ["covered"]\n'
        f"[tool.coverage.report]\nfail_under = {floor}\n"
    )
    uses = suite(tmp_path / "one", "import covered\n\n\ndef test_it():\n    assert covered.f(1)\n")
    done = subprocess.run(
        [sys.executable, SCRIPT, "--cover", sys.executable, sys.executable, uses],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    *_, summary = lines = done.stdout.splitlines()
    assert "branch coverage: 66.7 %" in lines
    assert ("the floor is in pyproject.toml" in done.stdout) is (status == 1)
    assert (done.returncode, summary) == (status, "1 passed, 0 failed, 0 skipped")


def test_every_folder_of_tests_is_run() -> None:
    with_tests = {
        path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")
    }
    makefile = (ROOT / "Makefile").read_text()
    assert set(re.findall(r"tests/(\w+)[ ,%]", makefile)) - APART == with_tests - APART
