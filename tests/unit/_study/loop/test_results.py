"""Results in files, and the inference paths of a folder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from latspan._model.goals import toml_of
from latspan._study.loop import (
    Task,
    fingerprints_of,
    keep_result,
    loop_of,
    loops_in,
    read_results,
)
from latspan.errors import ConfigError, RecordingError
from support.loops import Story, chat


def _keep(file: Path, **document: Any) -> Path:
    return keep_result(
        file,
        Task.DIAGNOSE,
        {"schema": "latspan.diagnosis/1", **document},
        command="diagnose chat",
        exit_code=1,
        recordings=[file.parent / "recordings" / "a"],
        fingerprints=fingerprints_of(chat(), file),
    )


def test_a_result_is_read_as_it_was_kept(tmp_path: Path) -> None:
    """Its folders are relative to the file, so a checkout elsewhere finds them."""
    file = tmp_path / "chat.toml"
    file.write_text(toml_of(chat()), "utf-8")
    kept = _keep(file, sentence="slow")
    assert kept.parent == tmp_path / "results" / "chat"
    assert kept.name.endswith("-diagnose.json")
    # A file of the user's is left alone.
    (kept.parent / "notes.json").write_text("{}")
    (result,) = read_results(file)
    assert (result.task, result.exit_code) == (Task.DIAGNOSE, 1)
    assert result.recordings == ("recordings/a",)
    assert result.document["sentence"] == "slow"
    assert result.fingerprints == fingerprints_of(chat(), file)


@pytest.mark.parametrize(
    "damage",
    [
        {"schema": "latspan.result/9"},
        {"task": "watch"},
        {"created": "yesterday"},
        {"recordings": [1]},
        {"document": []},
    ],
)
def test_a_damaged_result_names_its_file(tmp_path: Path, damage: dict[str, Any]) -> None:
    """The hint is to run its command again."""
    file = tmp_path / "chat.toml"
    file.write_text(toml_of(chat()), "utf-8")
    kept = _keep(file)
    kept.write_text(json.dumps(json.loads(kept.read_text()) | damage))
    with pytest.raises(RecordingError, match=kept.name) as raised:
        read_results(file)
    assert raised.value.hint == "delete it, and run its command again"


def test_a_result_whose_document_lacks_a_field_is_an_error(tmp_path: Path) -> None:
    """Never a traceback."""
    file = tmp_path / "chat.toml"
    file.write_text(toml_of(chat()), "utf-8")
    keep_result(
        file,
        Task.MEASURE,
        {"schema": "latspan.measurement/1"},
        command="measure chat",
        exit_code=0,
        fingerprints={},
    )
    with pytest.raises(RecordingError, match="is damaged"):
        loop_of(file)


@pytest.mark.parametrize("sentence", [None, {"sentence": ["a list"]}])
def test_the_result_that_is_damaged_is_named(
    tmp_path: Path, sentence: dict[str, object] | None
) -> None:
    """Not the folder: the other results are sound, and a user would delete them too."""
    story = Story(tmp_path, chat())
    story.measured()
    story.diagnosed()
    sound, damaged = story.results
    broken = {name: value for name, value in damaged.document.items() if name != "sentence"}
    broken |= sentence or {}
    for each, document in ((sound, sound.document), (damaged, broken)):
        keep_result(
            story.file,
            each.task,
            document,
            command=each.command,
            exit_code=0,
            fingerprints=each.fingerprints,
            recordings=each.recordings,
        )
    with pytest.raises(RecordingError) as raised:
        loop_of(story.file)
    error = "KeyError" if sentence is None else "TypeError a sentence is no text"
    assert re.search(rf"results/chat/\S+-diagnose\.json is damaged: {error}", raised.value.message)
    assert raised.value.hint == "delete it, and run its command again: latspan diagnose chat"


def test_a_result_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """With the folder."""
    (tmp_path / "results").write_text("a file")
    with pytest.raises(RecordingError, match="cannot write a result"):
        _keep(tmp_path / "chat.toml")


def test_a_folder_lists_inference_paths_only(tmp_path: Path) -> None:
    """Other TOML files are left out, and a damaged inference path is shown with its error."""
    Story(tmp_path, chat())
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "Cargo.toml").write_text("[target.'cfg(unix)'.dependencies]\n")
    (tmp_path / "broken.toml").write_text("[[target]]\nlimit_ms = \n")
    (tmp_path / "notes.toml").write_text("= no TOML")
    found = loops_in(tmp_path)
    assert [each.file.name for each in found] == ["broken.toml", "chat.toml"]
    assert found[0].loop is None
    assert "is not valid TOML" in str(found[0].error)


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(ConfigError, match="nowhere"):
        loops_in(tmp_path / "nowhere")
