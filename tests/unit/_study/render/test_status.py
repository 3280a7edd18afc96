"""The status of inference paths, as a terminal shows it and as a document."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from latspan._model.goals import Change
from latspan._study.loop import Listed
from latspan._study.render.status import StatusReport
from latspan._study.render.status_json import status_document
from latspan.errors import ConfigError
from support.loops import Story, chat

_LABEL: Final = "p95 of time_to_first_token at most 500 ms"
_ANSWERS: Final = "quality.items, quality.before, quality.after"


def _text(folder: Path, paths: list[Listed]) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=100, highlight=False).print(StatusReport(folder, paths), crop=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def _listed(story: Story) -> Listed:
    return Listed(story.file, story.loop)


def test_an_empty_folder_leads_to_init() -> None:
    """The command is on a line of its own."""
    assert _text(Path(), [])[-1] == "  latspan init chat"
    document: Any = status_document(Path(), [])
    assert document["next"]["command"] == "latspan init chat"
    assert document["paths"] == []


def test_a_path_has_its_tasks_its_definition_of_done_and_one_command(tmp_path: Path) -> None:
    """The command begins with the folder if that is another one."""
    story = Story(tmp_path, chat())
    story.measured()
    assert _text(Path(), [_listed(story)]) == [
        f"chat, {_LABEL}",
        "  task        state  date        result",
        f"  target      done               {_LABEL}",
        "  instrument  done               the load client is instrumented",
        f"  measure     done   2026-03-02  missed: {_LABEL} (100 of 100 requests missed it)",
        "  diagnose    open",
        "  change      done               capacity: more slots",
        "  verify      open",
        "  document    open",
        "  watch       open",
        "",
        "definition of done, 3 of 9",
        "  [x] the target has a use case, a load, an owner and a source; trade-offs are stated",
        "  [x] a valid measurement under the load of the file",
        "  [ ] a diagnosis names one cause",
        "  [ ] one lever is changed, and described",
        "  [ ] the change is verified: improved or no worse",
        "  [ ] every target is met",
        f"  [ ] the answers are as good as before: fill in {_ANSWERS}",
        "  [x] the rollback is described",
        "  [ ] the write-up is current",
        "",
        "next: the target is not met: find the delay to fix",
        "  latspan diagnose chat",
    ]
    elsewhere = _text(tmp_path / "a b", [_listed(story)])
    assert elsewhere[-1] == f"  cd '{tmp_path}/a b' && latspan diagnose chat"


def test_several_paths_have_an_overview(tmp_path: Path) -> None:
    """One that cannot be read is shown with its error, and the others all the same."""
    story = Story(tmp_path, chat())
    broken = Listed(tmp_path / "broken.toml", None, ConfigError("line 3 is wrong"))
    lines = _text(Path(), [broken, _listed(story)])
    assert lines[0].split() == [
        "path", "target", "instrument", "measure", "diagnose", "change", "verify", "document",
        "watch", "done",
    ]  # fmt: skip
    assert lines[1].split()[:4] == ["chat", "done", "done", "open"]
    assert "broken.toml: line 3 is wrong" in lines
    document: Any = status_document(Path(), [broken, _listed(story)])
    assert document["paths"][0]["error"] == "line 3 is wrong"
    assert document["next"]["command"] == "latspan measure chat"
    assert status_document(Path(), [broken])["next"] is None


def test_the_hint_of_an_error_is_on_a_line_of_its_own() -> None:
    """The error has the name of the file already, and a long line is indented."""
    error = ConfigError("chat.toml, line 40: rate_per_s must be more than 0", hint="use 1")
    assert _text(Path(), [Listed(Path("chat.toml"), None, error)]) == [
        "chat.toml, line 40: rate_per_s must be more than 0",
        "hint: use 1",
    ]


def test_a_long_criterion_is_indented_where_it_continues(tmp_path: Path) -> None:
    """In 80 columns, names of fields do not fit on one line."""
    out = io.StringIO()
    paths = [_listed(Story(tmp_path, chat()))]
    Console(file=out, width=60, highlight=False).print(StatusReport(tmp_path, paths), crop=False)
    lines = out.getvalue().splitlines()
    criteria = lines[lines.index("definition of done, 2 of 9") + 1 :]
    criteria = criteria[: criteria.index("")]
    assert len(criteria) > 9
    assert all(line.startswith(("  [ ] ", "  [x] ", "      ")) for line in criteria)


def _terminal(paths: list[Listed], *, is_terminal: bool = True) -> list[str]:
    out = io.StringIO()
    console = Console(
        file=out, width=80, highlight=False, force_terminal=is_terminal, color_system=None
    )
    console.print(StatusReport(Path(), paths), crop=False)
    return out.getvalue().splitlines()


def test_a_terminal_shows_the_beginning_of_a_long_result(tmp_path: Path) -> None:
    """A file has the whole of it."""
    story = Story(tmp_path, chat())
    for step in (story.measured, story.diagnosed, story.verified, story.documented, story.swept):
        step()
    sweep = story.results[-1]
    sentence = "p95 is slower than before. " * 20 + "The end."
    (swept,) = sweep.document["paths"]
    document = {**sweep.document, "paths": [{**swept, "sentence": sentence}]}
    story.results[-1] = replace(sweep, document=document)
    shown = _terminal([_listed(story)])
    assert max(map(len, shown)) <= 80
    (watch,) = (line for line in shown if line.startswith("  watch"))
    assert watch.startswith("  watch       done   2026-03-02  no drift: p95 is slower than before.")
    assert watch.endswith("…")
    (watch,) = (
        line
        for line in _terminal([_listed(story)], is_terminal=False)
        if line.startswith("  watch")
    )
    assert watch.endswith(sentence)


def test_an_overview_is_as_wide_as_the_terminal(tmp_path: Path) -> None:
    """The tasks that it leaves out are in the table of each path."""
    story = Story(tmp_path, chat(change=Change()))
    story.measured("met")
    paths = [_listed(story), replace(_listed(story), file=tmp_path / f"{'long-' * 9}.toml")]
    shown = _terminal(paths)
    assert max(map(len, shown)) <= 80
    assert shown[0].split()[0] == "path"
    assert shown[0].split()[-1] == "done"
    assert "instrument" in _terminal(paths, is_terminal=False)[0]
