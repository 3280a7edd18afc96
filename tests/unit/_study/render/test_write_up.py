"""The pages of a write-up: every number is a result's, and what is not known is missing."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from latspan._model.goals import Change, QualityCheck, Risk
from latspan._study.loop import Loop, is_done, next_of
from latspan._study.render.pages import write_pages
from latspan._study.render.runbook import guide_page, pull_request_page, runbook_page
from latspan._study.render.write_up import missing_of, write_up_page
from latspan._study.render.write_up_json import write_up_document
from latspan.errors import ConfigError
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


def _assert_agreement(loop: Loop) -> None:
    """Check that each criterion that the page shows as open is listed as missing."""
    page = write_up_page(loop, _TODAY)
    assert "- [ ]" in page
    assert _section(page, "Missing") != ["Nothing."]
    assert not is_done(loop)


def test_answers_that_are_not_compared_yet_are_missing(story: Story) -> None:
    """The check was described after the verification; the command is that of status."""
    change = replace(chat().change, lever="model")
    story.edit(chat(change=change))
    story.measured()
    story.diagnosed()
    story.verified(lever="model")
    story.edit(chat(change=change, quality=QualityCheck(command="./check {side}")))
    assert missing_of(story.loop) == [
        ('the criterion "the answers are as good as before"', "latspan verify chat")
    ]
    assert next_of(story.loop).command == "latspan verify chat"
    _assert_agreement(story.loop)


def test_a_target_that_is_not_met_is_missing(story: Story) -> None:
    """The command is that with which status goes on after the write-up."""
    story.measured()
    story.diagnosed()
    story.verified(target="missed")
    assert missing_of(story.loop) == [
        ('the criterion "every target is met"', "latspan measure chat")
    ]
    _assert_agreement(story.loop)
    story.documented()
    assert next_of(story.loop).command == "latspan measure chat"


def test_a_description_that_is_empty_is_missing(story: Story) -> None:
    """The page has no other source for it."""
    story.edit(chat(change=replace(chat().change, description="")))
    loop = _complete(story)
    assert missing_of(loop) == [("change.description", "${EDITOR:-vi} chat.toml")]
    assert "| description | _not stated_ |" in write_up_page(loop, _TODAY)
    _assert_agreement(loop)


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


def test_a_change_that_no_owner_accepted_is_proposed(story: Story) -> None:
    path = chat()
    story.edit(replace(path, targets=tuple(replace(each, owner="") for each in path.targets)))
    story.measured()
    story.verified("improved", target="met")
    page = write_up_page(story.loop, _TODAY)
    assert "**Status**: proposed, 2026-03-03; the owner of the target decides" in page


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


def test_a_verification_is_repeated_in_another_folder(story: Story) -> None:
    """Its options are kept, but not its folder, which is not empty any more."""
    loop = _complete(story)
    assert loop.verification is not None
    command = "verify chat --runs 4 --output verifications/one --options '--warmup 2'"
    loop = replace(loop, verification=replace(loop.verification, command=command))
    line = next(line for line in pull_request_page(loop).splitlines() if "to repeat" in line)
    assert "`latspan verify chat --runs 4 --options '--warmup 2'`" in line


def test_text_of_the_file_is_no_markdown(story: Story) -> None:
    """A pipe would end a cell, and a line end the table."""
    story.edit(chat(never_ship="a|b\n# c <script>"))
    page = write_up_page(_complete(story), _TODAY)
    assert "| must never reach a user | a\\|b\\\\n# c \\<script\\> |" in page


def test_pages_that_were_not_edited_are_replaced(story: Story, tmp_path: Path) -> None:
    """Line ends do not count: a checkout may change them."""
    folder = tmp_path / "pages"
    written, kept = write_pages(_complete(story), folder, _TODAY)
    assert sorted(each.name for each in written) == [
        "guide.md",
        "pull-request.md",
        "runbook.md",
        "write-up.md",
    ]
    assert kept == []
    guide = folder / "guide.md"
    guide.write_bytes(guide.read_bytes().replace(b"\n", b"\r\n"))
    assert write_pages(story.loop, folder, date(2026, 4, 4)) == (written, [])
    assert "2026-04-04" in guide.read_text("utf-8")
    assert b"\r" not in guide.read_bytes()
    assert sorted(folder.iterdir()) == sorted(written)


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r"\Z", "A sentence of mine.\n"),
        ("2026-03-03", "2026-03-04"),
        (r"\A.*\n", ""),
        (r", sha256:\w+", ""),
        (r"(?s).+", ""),
    ],
    ids=["added", "changed", "no marker", "no fingerprint", "empty"],
)
def test_a_page_that_was_edited_is_kept_and_the_others_are_written(
    story: Story, tmp_path: Path, pattern: str, instead: str
) -> None:
    """Also without its first line, which is another way to keep a page."""
    folder = tmp_path / "pages"
    pages, _ = write_pages(_complete(story), folder, _TODAY)
    guide = folder / "guide.md"
    text = re.sub(pattern, instead, guide.read_text("utf-8"))
    guide.write_text(text, "utf-8")
    written, kept = write_pages(story.loop, folder, date(2026, 4, 4))
    assert kept == [guide]
    assert written == [each for each in pages if each != guide]
    assert guide.read_text("utf-8") == text
    assert "2026-04-04" in (folder / "write-up.md").read_text("utf-8")


def test_a_page_that_is_not_text_is_kept(story: Story, tmp_path: Path) -> None:
    """It is not one of the pages that latspan writes."""
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "guide.md").write_bytes(b"\xff")
    _, kept = write_pages(_complete(story), folder, _TODAY)
    assert kept == [folder / "guide.md"]
    assert (folder / "guide.md").read_bytes() == b"\xff"


def test_pages_of_another_path_are_an_error(story: Story, tmp_path: Path) -> None:
    """Two paths would take turns in one folder."""
    other = replace(_complete(story), file=story.file.with_name("other.toml"))
    write_pages(other, tmp_path / "pages", _TODAY)
    with pytest.raises(ConfigError, match=r"write-up\.md is the page of other"):
        write_pages(story.loop, tmp_path / "pages", _TODAY)
