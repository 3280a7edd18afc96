"""A measurement that cannot begin deletes, shows and reports nothing that it should not."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from latspan.testing import Script, ScriptedServer
from support.measuring import measure, starting

NOTHING_LISTENS = "http://127.0.0.1:9/v1"


def test_a_failed_measurement_keeps_the_files_of_the_user(tmp_path: Path) -> None:
    """A folder with files is refused before the first request, and nothing in it is changed."""
    for name in ("prompts.jsonl", "requests-of-mine.txt", "old.hlog"):
        (tmp_path / name).write_text('{"prompt": "my only copy"}\n')

    done = measure(NOTHING_LISTENS, tmp_path, "--model", "m")

    assert done.code == 4
    assert {each.name for each in tmp_path.iterdir()} == {
        "prompts.jsonl", "requests-of-mine.txt", "old.hlog",
    }  # fmt: skip


@pytest.mark.parametrize("exists", [False, True])
def test_a_failed_measurement_leaves_nothing_behind(tmp_path: Path, exists: bool) -> None:
    """A new folder is deleted again, and one that was empty is empty again."""
    folder = tmp_path / "recording"
    if exists:
        folder.mkdir()

    done = measure(NOTHING_LISTENS, folder, "--model", "m")

    assert done.code == 2
    assert folder.exists() is exists
    assert not exists or list(folder.iterdir()) == []


PROMPT = "patient John Doe 555-0199 has leukemia"


@pytest.mark.parametrize("target", ["server", "app:answer"])
def test_an_error_does_not_repeat_the_prompt(tmp_path: Path, target: str) -> None:
    """A server or an exception may quote it, and a terminal is often a log of a build."""
    (tmp_path / "prompts.jsonl").write_text(f'{{"prompt": "{PROMPT}"}}\n')
    (tmp_path / "app.py").write_text("def answer(text): raise ValueError('not allowed: ' + text)\n")

    with ScriptedServer(Script.refused(400, error=f"not allowed: {PROMPT}")) as server:
        done = measure(
            server.base_url if target == "server" else target,
            tmp_path / "recording",
            *("--model", "m", "--prompts", str(tmp_path / "prompts.jsonl")),
            cwd=tmp_path,
        )

    assert done.code == 2
    assert "not allowed: ***" in done.errors
    assert "leukemia" not in done.errors


@pytest.mark.parametrize(
    "source",
    ["import sys\nsys.exit(0)\ndef answer(text): ...", "def answer(text): raise SystemExit(0)"],
)
def test_code_that_exits_does_not_look_like_success(tmp_path: Path, source: str) -> None:
    """Neither the module nor the function decides the exit code of the measurement."""
    (tmp_path / "app.py").write_text(source)

    done = measure("app:answer", tmp_path / "recording", cwd=tmp_path)

    assert done.code == 2
    assert "SystemExit: 0" in done.errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_first_request_has_its_exit_code(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """As in a shell; nothing was measured, so no recording is left."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        process = starting(url, tmp_path / "recording", "--model", "m")
        with silent.accept()[0] as connection:
            connection.recv(1)
            process.send_signal(number)
            process.communicate(timeout=60)

    assert process.returncode == code
    assert not (tmp_path / "recording").exists()
