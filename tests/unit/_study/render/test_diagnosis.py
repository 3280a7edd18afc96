"""A diagnosis on a terminal, as JSON and as Markdown."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.goals import Budget
from latspan._model.segments import SegmentName
from latspan._study.diagnose import Conclusion, Diagnosis, Goal, diagnose_table
from latspan._study.render.diagnosis_json import diagnosis_document, diagnosis_markdown, escaped
from latspan._study.render.layout import shown
from latspan.reports import DiagnosisReport
from support.schemas import validated
from support.tables import table_in_ms

SLOW: list[float] = [900.0 if number % 10 == 0 else 40.0 for number in range(400)]
EVEN: list[float] = [100.0] * 400


def diagnosis(*, limit_ms: int | None = 200, budget: Budget | None = None) -> Diagnosis:
    """Return the diagnosis of 400 calls, of which each tenth waits in a queue."""
    goal = Goal("duration", 95, None if limit_ms is None else limit_ms * NS_PER_MS)
    table = table_in_ms({"queue": SLOW, "decode": EVEN}, goal=goal)
    return diagnose_table(table, budget=budget, notes=("One | note.",))


def drawn(report: DiagnosisReport) -> str:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(report)
    return console.export_text()


def test_the_terminal_shows_shares_evidence_and_one_lever() -> None:
    """The largest share first, each with its interval, and the sentence below."""
    found = diagnosis()
    lines = drawn(DiagnosisReport(found)).splitlines()
    queue = next(line for line in lines if line.startswith("  queue"))

    assert lines[0].startswith("p95 duration, 1,000.0 ms, 400 calls")
    assert queue.split()[:7] == ["queue", "900.0", "ms", "40.0", "ms", "90", "%"]
    assert found.finding is not None
    text = " ".join(" ".join(lines).split())
    assert found.sentence in text
    assert all(sentence in text for sentence in found.finding.evidence)
    assert f"Try: {found.finding.lever}." in text
    assert "One | note." in text


def test_a_console_without_unicode_gets_ascii() -> None:
    """The bars of an interval and the unit of microseconds, too."""
    console = Console(width=100, file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    text = shown(Text("e  ██▓░ 135 µs"), console.options)
    assert text.plain == "e  ##=- 135 us"


def test_a_brief_one_has_no_table_and_no_notes() -> None:
    """It stands below a report, which has both; only the diagnosis knows which calls are slow."""
    found = replace(diagnosis(), given_up="20 of 400 calls were given up.")
    text = drawn(DiagnosisReport(found, is_brief=True))

    assert "90 % interval" not in text
    assert "note" not in text
    assert "Try: " in text
    assert "20 of 400 calls were given up." in text


def test_overruns_of_a_budget_come_first() -> None:
    """With the mean time of the slow calls, the limit and the time beyond it."""
    budget = Budget(queueing_ns=50 * NS_PER_MS, decode_ns=150 * NS_PER_MS)
    found = diagnosis(budget=budget)
    lines = drawn(DiagnosisReport(found)).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("budget"))

    assert [row.component for row in found.budget[:2]] == ["queueing", "decode"]
    assert [row.overrun_ns / NS_PER_MS for row in found.budget[:2]] == [850, -50]
    assert "850.0 ms" in lines[begin + 2]


def test_a_budget_without_a_limit_is_not_shown() -> None:
    """There is nothing that its components could exceed."""
    text = drawn(DiagnosisReport(diagnosis(budget=Budget())))
    assert "component" not in text


def test_a_segment_of_no_component_is_a_row_of_its_own() -> None:
    """Retries belong to no team's budget."""
    table = table_in_ms({SegmentName.RETRY: SLOW, "rerank": EVEN}, kinds={"rerank": "retrieve"})
    rows = diagnose_table(table, budget=Budget(preparation_ns=NS_PER_MS)).budget
    actual = {row.component: row.actual_ns / NS_PER_MS for row in rows}

    assert (actual["retry"], actual["preparation"]) == (900, 100)
    assert rows[0].component == "preparation"


def test_the_document_has_every_number() -> None:
    """Times are seconds, and the document is JSON."""
    budget = Budget(queueing_ns=50 * NS_PER_MS)
    document: Any = validated(diagnosis_document(diagnosis(budget=budget)))

    assert document["schema"] == "latspan.diagnosis/1"
    assert document["conclusion"] == "fix"
    assert document["goal"] == {
        "metric": "duration",
        "percentile": 95,
        "limit_s": 0.2,
        "value_s": 1.0,
        "verdict": "missed",
    }
    assert document["shares"][0]["segment"] == "queue"
    assert document["shares"][0]["slow_s"] == pytest.approx(0.9)
    assert document["budget"][0]["over_s"] == pytest.approx(0.85)
    assert document["cause"]["lever"]


def test_a_diagnosis_without_a_cause_is_a_document_too() -> None:
    """Too few calls have no shares and no percentile."""
    table = table_in_ms({"queue": SLOW[:3]})
    document = diagnosis_document(diagnose_table(table))

    assert document["conclusion"] == Conclusion.TOO_FEW.value
    assert (document["cause"], document["shares"]) == (None, [])
    assert "Too few" in drawn(DiagnosisReport(diagnose_table(table)))


def test_markdown_has_no_control_characters() -> None:
    """A log of a CI system interprets them, and a line end would begin a heading."""
    assert escaped("a\x1b[31m\u202e\n# b") == "a\\\\x1b\\[31m\\\\u202e\\\\n# b"


def test_markdown_cannot_be_broken_by_a_name() -> None:
    """A name of a stage or a note may have any character."""
    table = table_in_ms({"a|b`c": SLOW, "decode": EVEN})
    text = diagnosis_markdown(diagnose_table(table, notes=("<script>",)))

    assert "| a\\|b\\`c | 900.0 ms | 40.0 ms | 90 % |" in text
    assert "\\<script\\>" in text
    assert text.startswith("### Diagnosis of p95 duration\n")


def test_print_and_a_notebook_show_it() -> None:
    """``print`` as text, a notebook as HTML, ``repr`` as one line."""
    report = DiagnosisReport(diagnosis())

    assert report.diagnosis.sentence.split(":")[0] in " ".join(str(report).split())
    assert report._repr_html_().startswith("<pre")  # pyright: ignore[reportPrivateUsage]
    assert report.diagnosis.sentence in repr(report)
