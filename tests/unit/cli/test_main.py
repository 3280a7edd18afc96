"""The command line: help that teaches, errors with a way out, exit codes that mean something."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import latspan.cli
from latspan import __version__
from latspan.cli import main
from latspan.cli._command import Command
from latspan.errors import ConfigError, LatspanError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Have ``latspan work`` do something."""

    def use(work: Callable[[], int]) -> None:
        def run(arguments: argparse.Namespace) -> int:
            return work()

        def add_arguments(parser: argparse.ArgumentParser) -> None:
            pass

        entry = Command("work", "works", "It works.", (("latspan work", "w"),), add_arguments, run)
        monkeypatch.setattr(latspan.cli, "_COMMANDS", (entry,))

    return use


@pytest.mark.parametrize("line", [["--help"], ["demo", "--help"]])
def test_help_shows_examples_in_eighty_columns(
    line: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for help gets a line to copy, and no line that wraps."""
    monkeypatch.setenv("COLUMNS", "80")

    with pytest.raises(SystemExit) as exit_:
        main(line)

    assert exit_.value.code == 0
    text = capsys.readouterr().out
    assert "  latspan demo --otlp-endpoint http://localhost:4318\n" in text
    assert all(len(each) <= 80 for each in text.splitlines())


@pytest.mark.parametrize(
    "line",
    [
        *([command.name] for command in latspan.cli._COMMANDS),  # pyright: ignore[reportPrivateUsage]
        *(["histogram", name] for name in ("show", "merge", "diff")),
    ],
    ids=" ".join,
)
def test_no_help_is_wider_than_a_usual_terminal(
    line: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A description is printed as it is written, so no program wraps its lines."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*line, "--help"])
    assert [each for each in capsys.readouterr().out.splitlines() if len(each) > 80] == []


@pytest.mark.parametrize("name", ["measure", "diagnose", "document", "capacity", "verify"])
def test_a_command_without_a_name_lists_the_names(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The inference paths of the folder, or the command that starts one."""
    monkeypatch.chdir(tmp_path)

    def error() -> str:
        with suppress(SystemExit):
            assert main([name]) == 2
        return capsys.readouterr().err

    assert "no inference path in this folder; latspan init chat writes one" in error()
    for number in range(12):
        (tmp_path / f"path-{number:02}.toml").write_text("[[target]]\n[traffic]\n", "utf-8")
    (tmp_path / "pyproject.toml").write_text("[project]\n", "utf-8")
    text = error()
    assert "inference paths in this folder: path-00, path-01" in text
    assert "path-09 and 2 more" in text
    assert "pyproject" not in text


def test_help_loads_nothing_heavy() -> None:
    """It answers before any tracing, drawing or client library is imported."""
    script = """
import sys
from latspan.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
heavy = {"opentelemetry", "rich", "openai", "numpy", "hdrh", "wrapt", "xllamacpp"}
print(sorted(heavy.intersection(name.partition(".")[0] for name in sys.modules)), file=sys.stderr)
"""
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert answer.stderr == "[]\n"


def test_the_module_runs_as_the_command_does() -> None:
    """``python -m latspan`` is ``latspan``."""
    answer = subprocess.run(
        [sys.executable, "-m", "latspan", "--version"], capture_output=True, text=True, check=True
    )

    assert answer.stdout == f"latspan {__version__}\n"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            ["run", "--reprot", "--", "python", "app.py"],
            "latspan run: error: unrecognized arguments: --reprot: did you mean --report?",
        ),
        (
            ["--vresion"],
            "latspan: error: unrecognized arguments: --vresion: did you mean --version?",
        ),
        (["doctor", "--xyzzy"], "latspan doctor: error: unrecognized arguments: --xyzzy"),
        (
            ["--json", "status"],
            "latspan status: error: unrecognized arguments: --json: put --json after the command",
        ),
    ],
)
def test_a_misspelt_option_is_an_error_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str], line: list[str], error: str
) -> None:
    """The usage above it is that of the command."""
    with pytest.raises(SystemExit) as ended:
        main(line)

    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == error


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (["diagnos"], "did you mean diagnose?"),
        (["histogram", "shwo"], "did you mean show?"),
        (["verify", "--order", "abb"], "did you mean abba?"),
        (["xyzzy"], None),
    ],
)
def test_a_misspelt_command_or_choice_is_an_error_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str], line: list[str], meant: str | None
) -> None:
    """The choices are listed all the same; a word that resembles none has no suggestion."""
    with pytest.raises(SystemExit) as ended:
        main(line)

    assert ended.value.code == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"invalid choice: '{line[-1]}' (choose from " in error
    assert error.endswith(f": {meant}") if meant else "did you mean" not in error


def test_no_command_is_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    """The help goes to stderr, and the exit code says that nothing was done."""
    assert main([]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert "examples:" in written.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["demo", "--requests", "0"], "argument --requests: at least 1, not 0"),
        (["demo", "--concurrency", "-2"], "argument --concurrency: at least 1, not -2"),
        (["demo", "--requests", "many"], "argument --requests: 'many' is not a whole number"),
    ],
)
def test_numbers_out_of_their_range_are_refused(
    line: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is started."""
    with pytest.raises(SystemExit) as exit_:
        main(line)

    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "written"),
    [
        (
            ConfigError("no such port", hint="take another"),
            "error: no such port\nhint: take another\n",
        ),
        (LatspanError("it is late"), "error: it is late\n"),
    ],
)
def test_an_error_is_one_line_and_its_hint(
    error: LatspanError,
    written: str,
    command: Callable[[Callable[[], int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No traceback, nothing on stdout, exit code 2."""

    def work() -> int:
        raise error

    command(work)

    assert main(["work"]) == 2
    assert capsys.readouterr() == ("", written)


@pytest.mark.parametrize(
    ("number", "code", "written"),
    [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "terminated\n")],
)
def test_a_signal_ends_it_in_order(
    number: int,
    code: int,
    written: str,
    command: Callable[[Callable[[], int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both unwind what was begun, and the exit code is the shell's own."""
    unwound: list[int] = []

    def work() -> int:
        try:
            signal.raise_signal(number)
        finally:
            unwound.append(number)
        return 0

    command(work)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["work"]) == code
    finally:
        signal.signal(signal.SIGINT, before)

    assert unwound == [number]
    assert capsys.readouterr().err == written


def test_a_reader_that_has_enough_is_no_error() -> None:
    """What is piped into a program that stops reading ends without a complaint."""
    script = """
import sys
import latspan.cli
from latspan.cli._command import Command

def run(arguments):
    for line in range(100_000):
        print("a line", line)
    return 0

entry = Command("work", "works", "It works.", (), lambda parser: None, run)
latspan.cli._COMMANDS = (entry,)
sys.exit(latspan.cli.main(["work"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()

    assert complaint == b""
    assert process.returncode == 1


@pytest.mark.parametrize(
    "command",
    [
        ["report", "nope"],
        ["diagnose", "nope"],
        ["compare", "nope", "other"],
        ["convert", "nope", "out", "--to", "parquet"],
        ["scorecard", "nope"],
        ["histogram", "show", "nope.hlog"],
        ["document", "nope"],
        ["status", "nope"],
        ["sweep", "nope", "--dry-run"],
        ["measure", "nope"],
    ],
    ids=" ".join,
)
def test_a_path_at_which_there_is_nothing_is_a_usage_error(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2 for every command; 4 is for a file that cannot be interpreted."""
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2


@pytest.mark.parametrize("command", [["report", "."], ["compare", ".", "."]], ids=" ".join)
def test_a_folder_that_is_no_recording_cannot_be_interpreted(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exists, so the command line may be right."""
    monkeypatch.chdir(tmp_path)
    assert main(command) == 4
