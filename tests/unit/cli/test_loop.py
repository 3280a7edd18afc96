"""``latspan status`` and ``document``, and the results that other commands keep for them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from latspan._model.goals import Change, toml_of
from latspan._study.loop import Task, keep_result, loop_of
from latspan.cli import main
from latspan.cli._results import named_path
from support.comparisons import recording
from support.loops import Story, chat


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _kept(story: Story) -> None:
    """Write the results of a story into files."""
    for each in story.results:
        keep_result(
            story.file,
            each.task,
            each.document,
            command=each.command,
            exit_code=each.exit_code,
            recordings=[story.file.parent / one for one in each.recordings],
            fingerprints=each.fingerprints,
        )


@pytest.fixture
def story(folder: Path) -> Story:
    """Return a path that was measured; its recording has calls with known segments."""
    story = Story(folder, chat())
    story.measured()
    recording(folder / "recordings" / "chat-1", 0)
    _kept(story)
    return story


def _document(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_status_of_an_empty_folder_names_init(capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as a document."""
    assert main(["status"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "  latspan init chat"
    code, document = _document(capsys, "status")
    assert (code, document["next"]["command"]) == (0, "latspan init chat")


def test_status_of_a_damaged_file_is_4(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are shown all the same."""
    Story(folder, chat())
    (folder / "broken.toml").write_text("[[target]]\n= 1\n")
    assert main(["status"]) == 4
    out = capsys.readouterr().out
    assert "\nbroken.toml is not valid TOML" in out
    assert "\nhint: " in out
    assert "latspan measure chat" in out


def test_status_of_a_missing_folder_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """With a hint."""
    assert main(["status", "nowhere"]) == 2
    assert "hint: use the folder of the files that latspan init wrote" in capsys.readouterr().err


@pytest.mark.usefixtures("story")
def test_diagnose_reads_the_newest_measurement_of_a_path(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The goal is the target that is missed, and the result is kept."""
    code, document = _document(capsys, "diagnose", "chat")
    assert code in {0, 1, 3}
    assert document["goal"]["metric"] == "time_to_first_token"
    assert document["goal"]["limit_s"] == 0.5
    diagnosis = loop_of(folder / "chat.toml").diagnosis
    assert diagnosis is not None
    assert diagnosis.command == "diagnose chat --json"
    assert diagnosis.document["sentence"] == document["sentence"]
    assert diagnosis.recordings == ("recordings/chat-1",)
    assert diagnosis.exit_code == code


@pytest.mark.usefixtures("story")
def test_diagnose_without_the_recording_names_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repository has the results, but not the recordings of another machine."""
    (folder / "recordings").rename(folder / "elsewhere")
    assert main(["diagnose", "chat"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: recordings/chat-1, the recording of the newest measurement, does not exist here",
        "hint: measure again: latspan measure chat",
    ]


@pytest.mark.usefixtures("story")
def test_diagnose_of_a_misspelt_name_leads_to_the_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It may be that of a path or that of a recording."""
    assert main(["diagnose", "chta"]) == 2
    assert "neither an inference path nor a recording" in capsys.readouterr().err


def test_diagnose_of_a_path_without_a_measurement_names_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A measurement that no longer applies counts as none."""
    Story(folder, chat())
    assert main(["diagnose", "chat"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: chat.toml has no measurement, or was changed after the newest one",
        "hint: latspan measure chat",
    ]


@pytest.mark.usefixtures("story")
def test_a_path_has_its_own_targets(capsys: pytest.CaptureFixture[str]) -> None:
    """So --path would have no effect."""
    assert main(["diagnose", "chat", "--path", "chat.toml"]) == 2
    assert "--path has no effect" in capsys.readouterr().err


@pytest.mark.usefixtures("story")
def test_verify_takes_the_change_from_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lever and goal are those of the path, and the result is kept with both folders."""
    for seed in range(3):
        recording(folder / "before" / f"run-{seed}", seed)
        recording(folder / "after" / f"run-{seed}", 50 + seed, factors={"queue": 0.2})
    code, document = _document(capsys, "verify", "chat", "--recorded", "before", "after")
    assert code == 0
    assert document["levers"][0]["name"] == "capacity"
    assert document["comparison"]["goal"]["metric"] == "time_to_first_token"
    verification = loop_of(folder / "chat.toml").verification
    assert verification is not None
    assert verification.recordings == ("before", "after")


def test_verify_compares_the_answers_that_the_file_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without them, the measured sides are judged and the answers come later."""
    path = chat(change=Change(lever="capacity", apply="true", undo="true"))
    text = toml_of(path).replace('items = ""', 'items = "items"')
    text = text.replace('before = ""', 'before = "b"').replace('after = ""', 'after = "a"')
    Path("chat.toml").write_text(text, "utf-8")
    for side in ("before", "after"):
        for seed in range(3):
            recording(folder / side / f"run-{seed}", seed if side == "before" else 50 + seed)
    command = ["verify", "chat", "--recorded", "before", "after", "--goal", "p95 ttft"]
    assert main(command) == 2
    assert "items" in capsys.readouterr().err
    rows = [{"id": str(each), "expected": "yes", "answer": "yes"} for each in range(100)]
    for name in ("items", "a", "b"):
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    _, document = _document(capsys, *command)
    assert document["quality"]["judgement"] == "kept"


def test_document_writes_pages_and_names_what_is_missing(
    story: Story, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 until the pass is complete, and 0 then."""
    assert main(["document", "chat"]) == 3
    errors = capsys.readouterr().err
    assert "missing: a diagnosis; latspan diagnose chat" in errors
    assert (folder / "write-ups" / "chat" / "write-up.md").is_file()
    story.results.clear()
    story.diagnosed()
    story.verified()
    _kept(story)
    code, document = _document(capsys, "document", "chat", "--output", "pages")
    assert code == 0
    assert document["files"][0] == "pages/write-up.md"
    assert document["baseline"]["command"] == "measure chat"
    assert document["verification"]["document"]["judgement"] == "improved"
    loop = loop_of(folder / "chat.toml")
    assert loop.write_up is not None
    assert loop.state(Task.DOCUMENT).text == "complete"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("steps", 0, "latencies"), "x"),
        (("steps", 0, "latencies", 0, "all"), {}),
        (("steps", 0, "measured"), None),
        (("steps", 0, "load"), None),
        (("recording",), 1.5),
        (("kind",), []),
        (("conditions",), None),
    ],
)
def test_document_names_a_damaged_result(
    story: Story,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    path: tuple[str | int, ...],
    value: object,
) -> None:
    """It is an error with exit code 4, not a traceback, and no page is written."""
    del story
    (file,) = (folder / "results" / "chat").glob("*.json")
    result = json.loads(file.read_text())
    part = result["document"]
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    file.write_text(json.dumps(result))
    assert main(["document", "chat"]) == 4
    errors = capsys.readouterr().err
    assert "a result of chat is damaged" in errors
    assert file.name in errors
    assert not (folder / "write-ups").exists()


@pytest.mark.parametrize("is_marked", [True, False])
def test_document_keeps_a_page_that_was_edited(
    story: Story, folder: Path, capsys: pytest.CaptureFixture[str], *, is_marked: bool
) -> None:
    """It is reported, and no error: the other pages are written."""
    story.results.clear()
    story.diagnosed()
    story.verified()
    _kept(story)
    assert main(["document", "chat"]) == 0
    guide = folder / "write-ups" / "chat" / "guide.md"
    text = guide.read_text("utf-8")
    guide.write_text((text if is_marked else text.partition("\n")[2]) + "Mine.\n", "utf-8")
    capsys.readouterr()
    assert main(["document", "chat", "--json"]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert found["kept"] == ["write-ups/chat/guide.md"]
    assert len(found["files"]) == 3
    assert "\nkept write-ups/chat/guide.md: it was edited; delete it to have it" in shown.err
    assert guide.read_text("utf-8").endswith("Mine.\n")


@pytest.mark.parametrize("name", ["http://localhost:8000/v1", "app:answer"])
def test_only_a_path_is_documented(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An address has no target and no owner."""
    assert main(["document", name]) == 2
    assert "is not an inference path" in capsys.readouterr().err


def test_a_result_that_cannot_be_kept_changes_no_exit_code(
    story: Story, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user is informed."""
    del story
    results = folder / "results"
    results.rename(folder / "kept")
    results.write_text("a file")
    assert main(["document", "chat"]) == 3
    assert "the result is not kept: cannot write a result" in capsys.readouterr().err


def test_a_kept_command_has_no_content_and_no_key(folder: Path) -> None:
    """Results are made for a repository."""
    Story(folder, chat())
    words = ["measure", "chat", "--body", "a prompt", "--otlp-endpoint", "http://me:pw@host/"]
    named = named_path("chat", argparse.Namespace(words=words))
    assert named is not None
    assert named.command == "measure chat --body '***' --otlp-endpoint http://***@host/"
    named = named_path("chat", argparse.Namespace(words=["measure", "chat", "--body=secret"]))
    assert named is not None
    assert "secret" not in named.command


@pytest.mark.parametrize(
    "words",
    [
        ["--options", "--requests 9 --body 'a secret'"],
        ["--after-options=--body 'a secret'"],
        ["--options", "--body 'a secret"],
    ],
)
def test_options_inside_an_option_have_no_content_either(folder: Path, words: list[str]) -> None:
    """Those of the measurements that a verification makes; the others stay."""
    Story(folder, chat())
    named = named_path("chat", argparse.Namespace(words=["verify", "chat", *words]))
    assert named is not None
    assert "secret" not in named.command
    assert words[0].partition("=")[0] in named.command


def test_options_are_not_abbreviated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What must not be kept is found by the whole name of its option."""
    Story(folder, chat())
    with pytest.raises(SystemExit):
        main(["measure", "chat", "--bod", '{"user": "a secret"}'])
    assert "unrecognized arguments" in capsys.readouterr().err


def test_a_path_in_another_encoding_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not a folder without an inference path."""
    text = toml_of(chat()).replace('route = ""', 'route = "café"')
    (folder / "chat.toml").write_bytes(text.encode("latin-1", "replace") + b"# caf\xe9\n")
    assert main(["status"]) == 4
    assert "chat.toml" in capsys.readouterr().out
