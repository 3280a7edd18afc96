"""The pages of a write-up: every number is a result's, and what is not known is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from latspan._study.loop import Loop
from latspan._targets import Change, Risk
from latspan._workflow import write_pages
from latspan.errors import ConfigError
from latspan.reports._runbook import guide_page, pull_request_page, runbook_page
from latspan.reports._write_up import missing_of, write_up_document, write_up_page
from support.loops import Story, chat

_TODAY = date(2026, 3, 3)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path, chat(risks=(Risk(text="cost | more", owner="ops"),)))


def _section(page: str, head: str) -> list[str]:
    """Return the lines of a section that are not empty."""
    body = page.partition(f"## {head}\n")[2].partition("\n## ")[0]
    return [line for line in body.splitlines() if line]


def _complete(story: Story) -> Loop:
    story.measured()
    story.diagnosed()
    story.verified()
    return story.loop


def test_a_complete_pass_is_written_up(story: Story) -> None:
    """Before and after have intervals, and the decision follows the verdict."""
    page = write_up_page(_complete(story), _TODAY)
    assert page.splitlines()[1] == "# chat: improved, target met"
    assert "| owner | team |" in page
    assert "| route | _not stated_ |" in page
    assert "| risk | cost \\| more (ops, no date) |" in page
    assert _section(page, "Before the change")[4] == (
        "| `time_to_first_token` | start | 100 | 0 | 400.0 ms | 700.0 ms | — |"
    )
    assert "| `queue` | 80.0 ms | 70.0 ms | 80 % | 70 % to 90 % |" in _section(page, "Cause")
    goal, _ = (each for each in _section(page, "Before and after") if "| p95 | 700.0 ms" in each)
    assert goal.startswith("| `time_to_first_token`")
    assert goal.endswith("| 300.0 ms | -57.0% | -60.0% to -50.0% | improved |")
    assert "- became worse: p95 `decode`" in _section(page, "Trade-off")
    assert _section(page, "Decision record")[0] == (
        "- **Status**: accepted, 2026-03-03; decided by team"
    )
    assert _section(page, "Missing") == ["Nothing."]


def test_what_is_missing_has_its_command(story: Story) -> None:
    """No number stands for a task that was not done."""
    story.measured()
    page = write_up_page(story.loop, _TODAY)
    assert page.splitlines()[1] == "# chat: not verified yet"
    assert _section(page, "Cause") == ["_Missing:_ a diagnosis; `latspan diagnose chat` gives it."]
    assert _section(page, "Before and after") == [
        "_Missing:_ a verification of the change; `latspan verify chat` gives it."
    ]
    assert "- **Decision**: none yet" in page
    assert missing_of(story.loop)[:2] == [
        ("a diagnosis", "latspan diagnose chat"),
        ("a verification of the change", "latspan verify chat"),
    ]
    assert ("quality.items", "${EDITOR:-vi} chat.toml") in missing_of(story.loop)


def test_a_path_without_a_result_is_written_up_too(story: Story) -> None:
    """Its intake is worth a page."""
    page = write_up_page(story.loop, _TODAY)
    assert _section(page, "Before the change") == [
        "_Missing:_ a measurement before the change; `latspan measure chat` gives it."
    ]
    assert write_up_document(story.loop, [])["baseline"] is None


@pytest.mark.parametrize(
    ("judgement", "status"),
    [("worse", "rejected"), ("inconclusive", "open"), ("no_worse", "accepted")],
)
def test_the_decision_follows_the_judgement(story: Story, judgement: str, status: str) -> None:
    """A change that is worse is rejected."""
    story.measured()
    story.verified(judgement, target="undecided")
    page = write_up_page(story.loop, _TODAY)
    words = judgement.replace("_", " ")
    assert page.splitlines()[1] == f"# chat: {words}, target needs 9 more"
    assert f"**Status**: {status}" in page


def test_targets_that_are_met_need_no_change(story: Story) -> None:
    """Nothing is missing then."""
    story.edit(chat(change=Change()))
    story.measured("met")
    page = write_up_page(story.loop, _TODAY)
    assert page.splitlines()[1] == "# chat: targets met, nothing changed"
    assert _section(page, "Change") == ["Not needed: the targets are met."]
    assert missing_of(story.loop) == []
    assert "targets met" in pull_request_page(story.loop)


def test_a_later_measurement_is_added(story: Story) -> None:
    """The baseline stays the one before the change."""
    _complete(story)
    story.measured("met")
    page = write_up_page(story.loop, _TODAY)
    assert "Measured again on 2026-03-02: met: p95 of" in page
    assert "**missed** (100 of 100" in page


def test_the_runbook_has_commands_rules_and_the_way_back(story: Story) -> None:
    """The undo command stands for steps that are not stated."""
    path = chat(never_ship="a leak")
    target = replace(path.targets[0], tolerated_ns=750_000_000)
    story.edit(replace(path, targets=(target,)))
    page = runbook_page(_complete(story), _TODAY)
    assert "`latspan compare runs/after RECORDING`" in page
    assert "| a user gets: a leak | roll back at once, however fast it is |" in page
    assert "exceeds 750.0 ms" in page
    assert _section(page, "Roll back") == ["- flag of the rollout: slots", "1. `slow`"]
    story.edit(chat(change=replace(path.change, rollback=("set slots to 2", "restart"))))
    assert _section(runbook_page(story.loop, _TODAY), "Roll back")[1:] == [
        "1. set slots to 2",
        "2. restart",
    ]
    story.edit(chat(change=replace(path.change, undo="", options="x")))
    (lacking,) = _section(runbook_page(story.loop, _TODAY), "Roll back")[1:]
    assert lacking.startswith("_Missing:_ fill in `rollback`")


def test_the_guide_and_the_pull_request_have_the_verdict(story: Story) -> None:
    """In the words of the verification."""
    loop = _complete(story)
    guide, request = guide_page(loop, _TODAY), pull_request_page(loop)
    assert "p95 `time_to_first_token` from 700.0 ms to 300.0 ms" in guide
    assert request.splitlines()[1] == "## chat, capacity: improved, target met"
    for page in (guide, request):
        assert "The sentence of improved." in page
    assert max(map(len, guide.splitlines())) < 400


def test_text_of_the_file_is_no_markdown(story: Story) -> None:
    """A pipe would end a cell, and a line end the table."""
    story.edit(chat(never_ship="a|b\n# c <script>"))
    page = write_up_page(_complete(story), _TODAY)
    assert "| must never reach a user | a\\|b\\\\n# c \\<script\\> |" in page


def test_pages_are_replaced_unless_they_were_edited(story: Story, tmp_path: Path) -> None:
    """Deleting the first line keeps a page, and then no other page is replaced either."""
    today = datetime.now(UTC).date()
    files = write_pages(_complete(story), tmp_path / "pages", today)
    assert sorted(each.name for each in files) == [
        "guide.md",
        "pull-request.md",
        "runbook.md",
        "write-up.md",
    ]
    write_pages(story.loop, tmp_path / "pages", today)
    guide = tmp_path / "pages" / "guide.md"
    guide.write_text(guide.read_text("utf-8").partition("\n")[2], "utf-8")
    with pytest.raises(ConfigError, match=r"guide\.md was not written") as raised:
        write_pages(story.loop, tmp_path / "pages", today)
    assert raised.value.hint == "use another folder with --output, or delete the file"
    assert sorted(each.name for each in guide.parent.iterdir()) == sorted(
        each.name for each in files
    )
