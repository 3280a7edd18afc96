"""``latspan init``: a file that a newcomer understands, and that replaces nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import pytest

from latspan._model.goals import (
    BUDGET_COMPONENTS,
    Preset,
    parse_inference_path,
    preset_path,
    read_inference_path,
    toml_of,
)
from latspan.cli import _init, main
from latspan.errors import ConfigError

GUIDE: Final = (
    Path(__file__).parents[3].joinpath("docs/guides/targets.md").read_text(encoding="utf-8")
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_a_file_that_loads(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the file, the target and the next step."""
    assert main(["init", "chat"]) == 0

    assert read_inference_path("chat") == preset_path("chat", Preset.CHAT)
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.splitlines() == [
        "chat.toml: p95 of time_to_first_token at most 500 ms",
        "next: fill in endpoint, model and load, then latspan measure chat",
        (
            "if the server reports no times, latspan measure chat --calibrate comes first: it shows"
            " what one request alone takes, which separates queue and prefill"
        ),
    ]


def test_the_guide_shows_the_file_and_its_errors() -> None:
    """A reader compares the page with what the command wrote."""
    text = toml_of(preset_path("chat", Preset.CHAT))
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    misspelt = text.replace("limit_ms =", "limt_ms =", 1)
    excessive = text.replace("# prefill_ms = 150", "prefill_ms = 520")

    assert shown == f"{text.rstrip()}\n"
    for damaged in (misspelt, excessive):
        with pytest.raises(ConfigError) as raised:
            parse_inference_path(damaged, file="chat.toml")
        assert f"error: {raised.value.message}\nhint: {raised.value.hint}\n" in GUIDE


_APPLICATION = {
    "before": "`application` before the first step",
    "after": "`application` after the last step",
}


@pytest.mark.parametrize("preset", Preset)
def test_the_guide_lists_the_presets(preset: Preset) -> None:
    """The names, and the components of a budget with their segments."""
    assert f"| `{preset}`" in GUIDE
    for name, component in BUDGET_COMPONENTS.items():
        parts = [] if component.application is None else [_APPLICATION[component.application]]
        segments = ", ".join([*parts, *(f"`{each}`" for each in component.segments)])
        assert f"| `{name}_ms` | {component.label} | {segments} |" in GUIDE


@pytest.mark.parametrize("preset", Preset)
def test_a_preset_sets_the_target(preset: Preset) -> None:
    """The name may have the suffix of the file, as in every other command."""
    assert main(["init", "mine.toml", "--preset", preset]) == 0

    assert read_inference_path("mine") == preset_path("mine", preset)
    assert preset in _init.COMMAND.description


def test_an_existing_file_is_never_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """Its owner may have filled it in."""
    Path("chat.toml").write_text("mine")

    assert main(["init", "chat"]) == 2

    assert Path("chat.toml").read_text() == "mine"
    assert capsys.readouterr().err.splitlines() == [
        "error: chat.toml exists already",
        "hint: edit it, or use another name",
    ]


def test_a_name_that_is_a_path_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The name is also the value of an attribute, and the name of reports."""
    assert main(["init", "paths/chat"]) == 2

    assert "'paths/chat' is not a name" in capsys.readouterr().err
    assert list(Path().iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the file."""
    folder.chmod(0o500)

    assert main(["init", "chat"]) == 2

    assert capsys.readouterr().err.splitlines()[0] == (
        "error: cannot write chat.toml: Permission denied"
    )
