"""Whatever stdout and stderr lead to, a command ends with a line at most, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from latspan._model.recording import tag_of
from latspan.histogram import Histogram, HistogramLogWriter

COMMANDS = [
    ["histogram", "show", "{log}", "--by", "model", "--spectrum"],
    ["histogram", "show", "{log}", "--json"],
    ["histogram", "diff", "{log}", "{log}"],
    ["--version"],
]
ENCODINGS = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"LC_ALL": "C"},
]


@pytest.fixture
def log(tmp_path: Path) -> str:
    histogram = Histogram()
    histogram.record_many([1_000_000, 2_000_000])
    path = tmp_path / "a.hlog"
    with HistogramLogWriter(path) as writer:
        for number in range(200):
            tag = tag_of("duration", {"kind": "call", "model": f"Ωmega-{number}"})
            writer.write(number, number + 1, {tag: histogram})
    return str(path)


def shell(line: str, *command: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell's line with the command in the place of ``"$@"``."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}", "_", sys.executable, "-m", "latspan", *command],
        capture_output=True,
        # Unbuffered, argparse itself ignores that nobody takes what it prints.
        env={**os.environ, "PYTHONUNBUFFERED": "", **variables},
        timeout=60,
    )


@pytest.mark.parametrize("variables", ENCODINGS, ids=lambda each: " ".join(each.values()))
@pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
def test_a_locale_without_a_character_has_it_escaped(
    command: list[str], variables: dict[str, str], log: str
) -> None:
    """Columns stay where they are, and what is unknown is still marked."""
    kept = {name: os.environ[name] for name in ("PATH",)}

    done = subprocess.run(
        [sys.executable, "-m", "latspan", *(each.format(log=log) for each in command)],
        capture_output=True,
        env={**kept, **variables},
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"mega-" in done.stdout or b"duration" in done.stdout


def test_an_ascii_table_is_aligned(log: str) -> None:
    done = shell('"$@"', "histogram", "show", log, "--by", "model", PYTHONIOENCODING="ascii")

    lines = done.stdout.decode("ascii").splitlines()[1:]
    assert b"\\u03a9mega-7 " in done.stdout
    assert {line.rstrip()[-1] for line in lines[1:]} == {"-"}
    assert len({len(line) for line in lines[1:]}) == 1


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_is_one_line(command: list[str], log: str) -> None:
    done = shell('"$@" >/dev/full', *(each.format(log=log) for each in command))

    assert done.stderr == b"error: cannot write to standard output: No space left on device\n"
    assert done.returncode == 74


@pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
def test_a_closed_stdout_is_one_line(command: list[str], log: str) -> None:
    done = shell('"$@" >&-', *(each.format(log=log) for each in command))

    assert done.stderr == b"error: cannot write to standard output: it is closed\n"
    assert done.returncode == 74


@pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
def test_a_reader_that_goes_ends_it(command: list[str], log: str) -> None:
    """Before it reads anything, and after a line."""
    for reader in ("true", "head -1"):
        done = shell(f'"$@" | {reader}', *(each.format(log=log) for each in command))

        assert done.stderr == b""
        assert done.returncode in {0, 1}


@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_progress_messages_may_get_lost(to: str, log: str, tmp_path: Path) -> None:
    """It is no reason to fail, and does not end up among the data."""
    merged = tmp_path / "all.hlog"

    done = shell(f'"$@" 2{to}', "histogram", "merge", log, "-o", str(merged))

    assert (done.returncode, done.stdout) == (0, b"")
    assert merged.exists()


def test_an_error_is_not_printed_among_the_data(log: str) -> None:
    done = shell('"$@" 2>&-', "histogram", "show", log + "x")

    assert (done.returncode, done.stdout) == (2, b"")


def test_drawing_needs_the_extra_that_brings_it(log: str) -> None:
    """And no model server."""
    script = """
import sys
sys.modules["rich"] = sys.modules["rich.console"] = None
from latspan.cli import main
sys.exit(main(sys.argv[1:]))
"""
    hints: list[str] = []
    for command in (["histogram", "show", log], ["demo"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *command], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout) == (2, "")
        hints += [line for line in done.stderr.splitlines() if line.startswith("hint: ")]

    assert hints == ["hint: pip install 'latspan[study]'", "hint: pip install 'latspan[demo]'"]
