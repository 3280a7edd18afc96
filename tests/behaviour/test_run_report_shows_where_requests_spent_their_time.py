"""``latspan run --report`` prints the report of a program's own requests when it has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

PROGRAMS: Final = Path(__file__).with_name("programs")
ASSISTANT: Final = str(PROGRAMS / "answers_questions.py")
REPORT: Final = (sys.executable, "-m", "latspan", "run", "--report", "--")
DEADLINE_S: Final = 60


def environment(**variables: str) -> dict[str, str]:
    ours = ("OTEL_", "LATSPAN_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "COLUMNS": "100", **variables}


def ran(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment(**variables),
        input="",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def test_the_report_shows_whole_requests_with_their_stages() -> None:
    """The report is on stderr; standard output and the exit code are the program's own."""
    done = ran(*REPORT, sys.executable, ASSISTANT, "20")

    assert done.returncode == 3
    assert done.stdout == "answered 20\n"
    assert "median of 20 requests · answer a question · completed" in done.stderr
    assert "slowest of 20 requests · answer a question · completed" in done.stderr
    assert "segments of 20 requests, and their share of the slowest 2's time" in done.stderr
    for segment in ("retrieve", "rerank", "prefill", "decode"):
        assert f"\n  {segment} " in done.stderr
    assert "segments of 40 calls" in done.stderr
    # The diagnosis is the only conclusion.
    assert "p95 duration" in done.stderr
    assert "the slowest 2 of 20 requests spent" not in " ".join(done.stderr.lower().split())


def test_several_processes_are_one_report() -> None:
    """Each process writes its own file, and the report counts every request once."""
    done = ran(*REPORT, sys.executable, ASSISTANT, "5", "3")

    assert done.stdout == "answered 15\n"
    assert "median of 15 requests" in done.stderr
    assert "Merged from 3 processes." in done.stderr


def test_no_collector_is_needed() -> None:
    """If no address is set, nothing is exported, so no failure is logged."""
    done = ran(*REPORT, sys.executable, ASSISTANT, "1")

    assert done.stderr.startswith("\nthe only request · answer a question · completed\n")
    assert "exporting" not in done.stderr


def test_a_program_without_requests_gets_a_report_without_tables() -> None:
    """One sentence states that nothing was recorded."""
    done = ran(*REPORT, sys.executable, "-c", "print('nothing')")

    assert done.returncode == 0
    assert done.stdout == "nothing\n"
    assert done.stderr.startswith("\nNo request and no call was recorded.\n")
    assert "hint: latspan doctor -- PROGRAM" in done.stderr


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        (
            {"LATSPAN_KEEP_RECORDS": "alot"},
            "latspan stayed off, because LATSPAN_KEEP_RECORDS is 'alot' hint: use an integer",
        ),
        (
            {"OTEL_SDK_DISABLED": "true"},
            "latspan is off, because OTEL_SDK_DISABLED is true hint: remove OTEL_SDK_DISABLED",
        ),
    ],
    ids=["invalid", "disabled"],
)
def test_a_variable_that_leaves_latspan_off_is_the_reason(
    variables: dict[str, str], reason: str
) -> None:
    """The program runs unchanged, and its report is empty."""
    program = "import latspan\nwith latspan.request('x'): print('done')"
    done = ran(*REPORT, sys.executable, "-c", program, **variables)

    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("latspan stays off") == ("KEEP" in str(variables))
    assert f"No request and no call was recorded: {reason}" in " ".join(done.stderr.split())
    assert "hint: latspan doctor" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_that_ends_the_program_ends_the_run(number: signal.Signals) -> None:
    """A parent of ``latspan run`` sees the wait status of the program."""
    program = f"import os; os.kill(os.getpid(), {int(number)})"
    done = ran(*REPORT, sys.executable, "-c", program)

    assert done.returncode == -number


def test_a_signal_to_the_run_reaches_the_program() -> None:
    """The program handles it as if it had been sent to the program itself."""
    program = """
import signal, sys
def leave(number, frame):
    print(signal.Signals(number).name, flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
signal.pause()
"""
    with subprocess.Popen(
        [*REPORT, sys.executable, "-c", program],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 5
    assert out == "SIGTERM\n"
    assert "No request and no call was recorded." in err


def test_a_program_that_does_not_exist_is_an_error() -> None:
    """The exit code and message are those of ``latspan run`` without a report."""
    done = ran(*REPORT, "no-such-program")

    assert done.returncode == 127
    assert done.stderr == "error: program not found: 'no-such-program'\n"


def test_a_missing_package_is_reported_before_the_run(tmp_path: Path) -> None:
    """The program does not run for an hour only to end without its report."""
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError(name='rich')\n")
    done = ran(*REPORT, sys.executable, "-c", "print('ran')", PYTHONPATH=str(tmp_path))

    assert done.returncode == 2
    assert done.stdout == ""
    assert "hint: pip install 'latspan[study]'" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_a_signal_ends_still_has_its_report(number: signal.Signals) -> None:
    """Every request that ended before the signal is in the report."""
    program = f"""
import runpy, signal, sys
sys.argv = [{ASSISTANT!r}, "3"]
try:
    runpy.run_path({ASSISTANT!r}, run_name="__main__")
except SystemExit:
    pass
print("ready", flush=True)
signal.pause()
"""
    with subprocess.Popen(
        [*REPORT, sys.executable, "-c", program],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "answered 3\n"
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == -number
    assert "median of 3 requests" in err


EXEC: Final = """
import os, sys
import latspan
with latspan.request("first"): pass
latspan.force_flush()
program = "import latspan\\nwith latspan.request('second'): pass"
os.execv(sys.executable, [sys.executable, "-c", program])
"""


@pytest.mark.parametrize(
    ("program", "number"),
    [(EXEC, 2), ("import latspan, os\nwith latspan.request('x'): os._exit(0)", 0)],
)
def test_a_process_that_did_not_end_in_order_is_stated(program: str, number: int) -> None:
    """Its last requests may be missing, and the reader of the report must know."""
    done = ran(*REPORT, sys.executable, "-c", program)

    assert done.returncode == 0
    assert ("\nsecond: 1 request\n" in done.stderr) is (number == 2)
    assert "processes" not in done.stderr
    assert (
        "The last requests of 1 process may be missing: it was replaced by exec, killed or ended by"
        " os._exit(), or still runs."
    ) in " ".join(done.stderr.split())
    assert "hint: latspan doctor" not in done.stderr


def test_a_deleted_folder_is_stated(tmp_path: Path) -> None:
    """A program that deletes all temporary files deletes the records too."""
    program = f"""
import latspan, shutil
with latspan.request("first"): pass
latspan.force_flush()
shutil.rmtree({str(tmp_path)!r})
"""
    done = ran(*REPORT, sys.executable, "-c", program, TMPDIR=str(tmp_path))

    assert done.returncode == 0
    assert "Missing: files of the recording were deleted" in done.stderr


def test_a_run_that_could_not_have_a_report_does_not_begin(tmp_path: Path) -> None:
    """The program would run for an hour only to end without its report."""
    code = (
        "import tempfile; tempfile.tempdir = {!r}; from latspan.cli import main;"
        " raise SystemExit(main(['run', '--report', '--', 'echo', 'ran']))"
    )
    done = ran(sys.executable, "-c", code.format(str(tmp_path / "none")))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no temporary folder can be created for the report: ")
    assert "hint: set TMPDIR" in done.stderr
