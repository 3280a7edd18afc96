"""Lines on the console: which requests, what if printing is slow, what if there is no stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from latspan import Kind
from latspan._live.otel.export import ConsoleLines
from latspan.integrations import Outcome
from latspan.testing import RequestRecord, Segment


def record(kind: Kind = Kind.CALL) -> RequestRecord:
    """Return a completed record of 1 ms."""
    return RequestRecord(
        name="chat",
        kind=kind,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=1_000_000,
        segments=(Segment("decode", 0, 1_000_000),),
    )


def printing(*, waterfalls: bool = False) -> ConsoleLines:
    """Return a printer that prints at once."""
    return ConsoleLines(lambda job: job(), lambda: 0, waterfalls=waterfalls)


def test_requests_and_calls_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Stages and plain HTTP exchanges would bury them."""
    for kind in Kind:
        printing().write(record(kind))

    assert capsys.readouterr().err == (
        "latspan: request chat · 1.0 ms · decode 1.0 ms (100 %) · completed\n"
        "latspan: call    chat · 1.0 ms · decode 1.0 ms (100 %) · completed\n"
    )


def test_a_waterfall_follows_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its title is the line, and it fits the terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    printing(waterfalls=True).write(record())
    lines = capsys.readouterr().err.splitlines()

    assert lines[0].startswith("latspan: call    chat")
    assert any(line.startswith("latspan:   decode  1.0 ms  100 % m") for line in lines)
    assert max(map(len, lines[2:])) <= 60


def test_lines_are_left_out_while_printing_is_slow(capsys: pytest.CaptureFixture[str]) -> None:
    """The next line states how many; no request ever waits for the terminal."""
    jobs: list[Callable[[], None]] = []
    lines = ConsoleLines(jobs.append, lambda: len(jobs), waterfalls=False)
    for _ in range(1_007):
        lines.write(record())
    assert len(jobs) == 1_000
    jobs.clear()
    lines.write(record())
    jobs.pop()()

    assert capsys.readouterr().err.splitlines()[0] == (
        "latspan: 7 lines were left out, because printing was too slow"
    )


@pytest.mark.parametrize("state", ["closed", "absent"])
def test_a_program_without_stderr_goes_on(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon closes it."""
    if state == "absent":
        monkeypatch.setattr(sys, "stderr", None)
    else:
        closed = open("/dev/null", "w", encoding="utf-8")  # noqa: PTH123, SIM115
        closed.close()
        monkeypatch.setattr(sys, "stderr", closed)

    printing().write(record())
