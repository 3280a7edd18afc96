"""The terminal report as plain text: any width, few values, ASCII, and without rich."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from latspan import Kind, Snapshot, Source, TokenSource
from latspan._study.render.group import calls_in
from latspan._study.render.smoothness import SmoothnessTable
from latspan._study.render.tables import MetricsTable, SegmentsTable, TokensTable
from latspan.integrations import Outcome
from latspan.reports import Expectations, Report, Waterfall
from latspan.testing import RequestRecord, Segment, TokenCounts
from support.agent_runs import model, thinking, tool
from support.agent_runs import records as agent_runs

GOLDEN = Path(__file__).parent / "golden"

MakeCall = Callable[..., RequestRecord]
TakeSnapshot = Callable[[Iterable[RequestRecord]], Snapshot]


def drawn(renderable: RenderableType, *, width: int = 80, encoding: str = "utf-8") -> str:
    """Return the output on a console of that width that is not a terminal."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    Console(file=file, width=width, highlight=False).print(renderable, crop=False)
    file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [80, 120])
def test_the_whole_report_of_forty_calls(
    forty_calls: tuple[RequestRecord, ...], snapshot_of: TakeSnapshot, width: int
) -> None:
    """The output equals the reviewed file exactly."""
    expected = (GOLDEN / f"forty_calls_{width}.txt").read_text(encoding="utf-8")

    assert expected == drawn(Report(snapshot_of(forty_calls)), width=width)


def test_requests_of_several_steps_have_a_table_of_them(snapshot_of: TakeSnapshot) -> None:
    """By name, with the kind of a stage, and with the time that the slowest run waited in them."""
    quick = [model(decode=100), tool("search", 50), tool("search", 50), model(decode=100)]
    slow = [model(decode=100), tool("search", 700), model(decode=100), thinking(100)]

    report = drawn(Report(snapshot_of(agent_runs([slow, *[quick] * 9]))))

    _, _, table = report.partition(
        "steps of 10 requests, and their share of the slowest one's time\n"
    )
    assert [" ".join(line.split()) for line in table.splitlines()[:3]] == [
        "step kind n per request p50 p95 p99 slowest",
        "chat m call 20 2 100.0 ms 100.0 ms needs 100 20 % ██",
        "search tool 19 1 to 2 50.0 ms needs 20 needs 100 70 % ██████",
    ]


def test_requests_of_one_step_have_no_such_table(snapshot_of: TakeSnapshot) -> None:
    """The tables of their segments and of the calls show the same."""
    assert "steps of" not in drawn(Report(snapshot_of(agent_runs([[model(decode=100)]] * 3))))


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_too_wide_or_ends_in_spaces(
    forty_calls: tuple[RequestRecord, ...], snapshot_of: TakeSnapshot, width: int
) -> None:
    """A wrapped line would break the layout."""
    lines = drawn(Report(snapshot_of(forty_calls)), width=width).splitlines()

    assert all(len(line) <= width for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_one_call_has_one_waterfall_and_no_percentiles(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """Every percentile shows how many values it needs."""
    only = call([("send", 1, Source.MEASURED), ("server_wait", 99, Source.UNKNOWN)])
    text = drawn(Report(snapshot_of([only])))

    assert text.count("= sum of segments") == 1
    assert "  send         1  needs 2  needs 20  needs 100  m         1 %\n" in text
    assert "  server_wait  1  needs 2  needs 20  needs 100  ?        99 % ████████\n" in text
    assert "stalls: unknown, no call had a gap to measure" in text
    assert "tokens unknown" in text


def test_an_empty_report_is_one_sentence(snapshot_of: TakeSnapshot) -> None:
    """It has no empty tables."""
    assert drawn(Report(snapshot_of([]))) == "No request and no call was recorded.\n"


def test_the_pieces_of_a_segment_share_a_row(call: MakeCall) -> None:
    """A slow reader in the middle is visible, and short pauses stay thin."""
    parts = [("send", 1, Source.MEASURED), ("server_wait", 199, Source.MEASURED)]
    for number in range(20):
        parts.append(("decode", 18, Source.MEASURED))
        parts.append(("consumer", 222 if number == 9 else 2, Source.MEASURED))
    record = call(parts, outcome=Outcome.CLOSED_EARLY)

    assert (
        drawn(Waterfall(record, "a slow reader", legend=False))
        == """\
a slow reader · chat smollm2 · closed_early
  tokens unknown
                                  0 ms       200        400        600
                                  ┬──────────┬──────────┬──────────┬──────────┬─
  send           1.0 ms   <1 % m  ▏
  server_wait  199.0 ms   24 % m  ███████████
  decode       360.0 ms   44 % m             ███████████             ███████████
  consumer     260.0 ms   32 % m              ▏▏▏▏▏▏▏ ▏▏█████████████▏▏ ▏▏▏▏▏▏▏▏
  total        820.0 ms = sum of segments
"""
    )


def test_patterns_letters_and_legend_agree(call: MakeCall) -> None:
    """Each source has its own pattern and letter, and the legend explains both."""
    record = call([(source.value, 25, source) for source in Source])

    assert (
        drawn(Waterfall(record, "sources"))
        == """\
sources · chat smollm2 · completed
  tokens unknown
                                      0 ms                 50
                                      ┬────────────────────┬────────────────────
  measured          25.0 ms   25 % m  ███████████
  server_reported   25.0 ms   25 % s            ▓▓▓▓▓▓▓▓▓▓▓
  estimated         25.0 ms   25 % e                       ▒▒▒▒▒▒▒▒▒▒▒
  unknown           25.0 ms   25 % ?                                 ░░░░░░░░░░░
  total            100.0 ms = sum of segments

  █ m measured   ▓ s reported by the server   ▒ e estimated   ░ ? unknown
  ▏ under half a column
"""
    )


def test_a_console_without_unicode_gets_ascii(call: MakeCall) -> None:
    record = call([(source.value, 25, source) for source in Source])
    text = drawn(Waterfall(record, "sources"), encoding="ascii")

    assert text.isascii()
    assert "  # m measured   = s reported by the server   ~ e estimated   . ? unknown\n" in text


def test_a_wrong_sum_of_segments_is_shown() -> None:
    """The sum line is checked, not assumed."""
    record = RequestRecord(
        name="chat x",
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=10_000_000,
        segments=(Segment("send", 0, 9_000_000),),
    )
    text = drawn(Waterfall(record, "x"))

    assert "total  10.0 ms but segments sum to 9.0 ms\n" in text
    assert "= sum of segments" not in text


def test_a_request_without_duration_is_drawn(call: MakeCall) -> None:
    """It has an axis, but neither bars nor shares."""
    text = drawn(Waterfall(call([("send", 0, Source.MEASURED)]), "x", legend=False))

    assert "  send   <0.1 ms        m\n  total  <0.1 ms = sum of segments\n" in text


def test_colour_adds_no_information(
    forty_calls: tuple[RequestRecord, ...], snapshot_of: TakeSnapshot
) -> None:
    """Without its colour codes, the output for a terminal is the same text."""
    report = Report(snapshot_of(forty_calls))
    file = io.StringIO()
    terminal = Console(
        file=file, width=80, force_terminal=True, color_system="truecolor", highlight=False
    )
    terminal.print(report, crop=False)

    assert "\x1b[" in file.getvalue()
    assert drawn(report) == Text.from_ansi(file.getvalue()).plain


@pytest.mark.parametrize("table", [SegmentsTable, MetricsTable, SmoothnessTable, TokensTable])
def test_tables_of_an_empty_snapshot_can_be_drawn(
    snapshot_of: TakeSnapshot,
    table: type[SegmentsTable | MetricsTable | SmoothnessTable | TokensTable],
) -> None:
    """Each table on its own."""
    assert drawn(table(calls_in(snapshot_of([]))))


def test_the_absence_of_stalls_is_shown(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """With the number of calls that had gaps."""
    calm = call([("decode", 30, Source.MEASURED)], gaps_ms=[10, 20])

    assert "stalls: none, no gap over 500 ms in 1 call\n" in drawn(
        SmoothnessTable(calls_in(snapshot_of([calm, call([("send", 1, Source.MEASURED)])])))
    )


def test_felt_speed_is_shown_from_best_to_worst(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """The lowest fluidity is the worst; unknown values are not counted."""
    tokens = TokenCounts(output=3, source=TokenSource.PROVIDER)
    calls = [
        call([("decode", 30, Source.MEASURED)], tokens=tokens, first_token_ms=first, gaps_ms=gaps)
        for first, gaps in ((100, [10, 10]), (700, [10, 2_000]))
    ]
    calls.append(call([("decode", 30, Source.MEASURED)]))
    expected = Expectations(reading_ns=80_000_000)

    assert (
        drawn(SmoothnessTable(calls_in(snapshot_of(calls)), expected))
        == """\
felt speed, tokens due after 500 ms, then each 200 ms; read at 12.5/s
                                   n      best    median       worst  source
  until something shows (TTFV)     2  100.0 ms  100.0 ms    700.0 ms  m
  longest gap                      2   10.0 ms   10.0 ms  2,000.0 ms  m
  stalled, of the writing time     2       0 %       0 %        75 %  m
  fluidity, tokens on time         2     100 %       8 %         8 %  m
  wait before reading, to read on  2      0 ms      0 ms  1,610.0 ms  m
  stalls: 1 gap over 500 ms in 1 of 2 calls, 1,500.0 ms beyond it in all
"""
    )


def test_an_estimated_token_count_is_marked(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """If there are two sources, both are named."""
    calls = [
        call([("decode", 1, Source.MEASURED)], tokens=TokenCounts(input=7, source=source))
        for source in (TokenSource.ESTIMATED, TokenSource.PROVIDER)
    ]

    assert "  in           2       7     7      14  latspan, estimated and the provider\n" in drawn(
        TokensTable(calls_in(snapshot_of(calls)))
    )


def test_the_extra_is_named_if_rich_is_missing() -> None:
    """Only the drawing code needs rich; the sentence and the document do not."""
    script = """
import sys
sys.modules["rich"] = None
sys.modules["rich.console"] = None
from latspan.errors import MissingExtraError
from latspan._study.render.report_json import demo_document
try:
    from latspan.reports import Report
except MissingExtraError as error:
    print(error)
"""
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert (
        answer.stdout == "the package 'rich' is not installed\nhint: pip install 'latspan[study]'\n"
    )
