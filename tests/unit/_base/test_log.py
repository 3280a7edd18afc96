"""Every line of latspan's log is fit to be shown, whatever it quotes."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from latspan._base.log import logger, warn_once
from latspan.errors import ConfigError

HOSTILE = "http://user:S3CRET@host \x1b]0;x\x07\n2026-01-01 ERROR forged \u202e"
SOURCES = [
    path
    for folder in ("src", "integrations")
    for path in sorted((Path(__file__).parents[3] / folder).rglob("*.py"))
]


class OddError(Exception):
    """One whose message cannot be had."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def test_what_a_line_quotes_is_fit_to_be_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Numbers stay numbers, and the template stays what lines are grouped by."""
    logger.warning("%s was asked %d times", HOSTILE, 7)

    (record,) = caplog.records
    assert record.getMessage() == (
        "http://***@host \\x1b]0;x\\x07\\n2026-01-01 ERROR forged \\u202e was asked 7 times"
    )
    assert record.msg == "%s was asked %d times"


def test_the_hint_of_an_error_stands_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    """On a terminal it has a line of its own."""
    logger.warning("no telemetry: %s", ConfigError("it is wrong", hint="mend it"))

    assert caplog.messages == ["no telemetry: it is wrong; hint: mend it"]


def test_no_line_goes_past_it(caplog: pytest.LogCaptureFixture) -> None:
    """Neither one made elsewhere, nor a warning, nor one that is too long or cannot be printed."""
    logging.getLogger("latspan").warning(HOSTILE)
    warn_once(HOSTILE)
    logger.warning("%s", "x" * 100_000)
    logger.warning("%s", OddError())

    assert [record.getMessage().isprintable() for record in caplog.records] == [True] * 4
    assert max(len(record.getMessage()) for record in caplog.records) <= 1_000
    assert "S3CRET" not in caplog.text


def test_a_traceback_is_fit_to_be_shown(caplog: pytest.LogCaptureFixture) -> None:
    """A message of several lines stands on one; the exception itself stays with the record."""
    error = ValueError(HOSTILE)
    try:
        try:
            raise error
        except ValueError as first:
            raise OSError("x" * 100_000) from first
    except OSError as second:
        logger.warning("it failed: %s", 1, exc_info=second)

    (record,) = caplog.records
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], OSError)
    shown = logging.Formatter().format(record)
    assert "ValueError: http://***@host \\x1b]0;x\\x07\\n2026-01-01 ERROR forged" in shown
    assert shown.endswith("\nOSError: ...")
    assert all(line.isprintable() and len(line) <= 1_000 for line in shown.splitlines())
    assert not re.search("^2026", shown, re.MULTILINE)


def test_there_is_one_logger() -> None:
    """A logger beneath it would not have its filter."""
    makers = {
        f"{path.parent.name}/{path.name}": re.findall(r"getLogger\((.*?)\)", path.read_text())
        for path in SOURCES
    }

    assert {name: made for name, made in makers.items() if made} == {
        "_base/log.py": ['"latspan"'],
        "cli/_demo.py": ['"opentelemetry"'],
        "export/_export_errors.py": ["name", "name", "record.name"],
        "sdk/_connectivity_probe.py": ['"opentelemetry"'],
    }


@pytest.mark.parametrize(
    ("configuration", "line"),
    [
        ("", "latspan: it is late"),
        ("logging.lastResort = None", ""),
        ("logging.basicConfig(format='mine: %(message)s')", "mine: it is late"),
        ("logger.addHandler(logging.StreamHandler())", "it is late"),
        ("sys.stderr = None", ""),
    ],
)
def test_a_program_without_logging_reads_whose_line_it_is(configuration: str, line: str) -> None:
    """Python itself would print the text alone; a program that configures logging decides."""
    program = f"import logging, sys\nfrom latspan._base.log import logger\n{configuration}\n"
    ran = subprocess.run(
        [sys.executable, "-c", f"{program}logger.info('no')\nlogger.warning('it is late')"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stderr.rstrip("\n") == line
    assert ran.stdout == ""
