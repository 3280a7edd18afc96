"""
A person who follows only ``latspan status`` gets from an empty folder to a finished write-up.

Every command is the one that status names, run by a shell. The person's editor is a program that
fills in what status asks for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from latspan.cli import main
from latspan.testing import Script, ScriptedServer
from support.schemas import validated
from support.switches import switch, write_switch

# The gaps are long compared with what five users at once cost this machine.
_SLOW: Final = Script.chat(tokens=4, queue_ms=60, prefill_ms=5, gap_ms=20)
_FAST: Final = Script.chat(tokens=4, queue_ms=2, prefill_ms=5, gap_ms=20)
_MAX_COMMANDS: Final = 8
_MAX_DISTURBED: Final = 2
_NOT_INTERPRETABLE: Final = 4

_EDITOR: Final = """
import sys
from pathlib import Path

file = Path(sys.argv[1])
text = file.read_text("utf-8")
for name, value in {values!r}.items():
    text = text.replace(f"{{name}} = \\"\\"", f"{{name}} = {{value}}", 1)
    text = text.replace(f"{{name}} = []", f"{{name}} = {{value}}", 1)
text = text.replace("limit_ms = 500", "limit_ms = 45")
text = text.replace('"poisson" ', '"closed" ').replace("rate_per_s = 2", "concurrency = 5")
text = text.replace("# requests = 400", "requests = 25")
text = text.replace("# runs = 5", "runs = 3")
file.write_text(text, "utf-8")
"""


def _person(folder: Path, *, url: str, port: int) -> dict[str, str]:
    """Write the person's programs, and return the environment of the person's shell."""
    write_switch(folder, port)
    values = {
        "endpoint": json.dumps(url),
        "model": '"small"',
        "load": '"five users"',
        "owner": '"team chat"',
        "never_ship": '"a wrong answer"',
        "may_give_up": '["cost"]',
        "lever": '"capacity"',
        "description": '"more slots"',
        "apply": json.dumps(f"{sys.executable} switch.py fast"),
        "undo": json.dumps(f"{sys.executable} switch.py slow"),
        "flag": '"chat_slots"',
        "rollback": '["set chat_slots to 2"]',
    }
    (folder / "edit.py").write_text(_EDITOR.format(values=values), "utf-8")
    programs = folder / "bin"
    programs.mkdir()
    command = programs / "latspan"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m latspan "$@"\n', "utf-8")
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "EDITOR": f"{sys.executable} edit.py",
    }


@pytest.mark.alone
def test_status_names_every_command_up_to_the_write_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command leads to the next one, and every document follows its published schema."""
    monkeypatch.chdir(tmp_path)
    transcript: list[str] = []
    output: list[str] = []
    disturbed = 0
    with (
        ScriptedServer(_SLOW, slots=8) as server,
        switch(server, {"fast": _FAST, "slow": _SLOW}) as port,
    ):
        environment = _person(tmp_path, url=server.base_url, port=port)
        while len(transcript) < _MAX_COMMANDS:
            assert main(["status", "--json"]) == 0
            status = json.loads(capsys.readouterr().out)
            validated(status)
            if any(each["done"] for each in status["paths"]):
                break
            command = status["next"]["command"]
            done = subprocess.run(
                ["sh", "-c", command], env=environment, capture_output=True, text=True
            )
            disturbed += done.returncode == _NOT_INTERPRETABLE
            if disturbed > _MAX_DISTURBED:
                pytest.skip("other programs disturbed the load generator")
            # Status repeats what was disturbed, so the transcript has it once.
            if done.returncode != _NOT_INTERPRETABLE:
                transcript.append(command)
                output += [command, done.stdout, done.stderr]
                assert done.returncode in {0, 1}, "\n".join(output)
        # Another load than that of the file is no result of the path.
        other = "latspan measure chat --concurrency 1 --requests 2 --warmup 0"
        done = subprocess.run(["sh", "-c", other], env=environment, capture_output=True, text=True)
        assert "latspan status does not count this measurement" in done.stderr
    assert transcript == [
        "latspan init chat",
        "${EDITOR:-vi} chat.toml",
        "latspan measure chat",
        "latspan diagnose chat",
        "latspan verify chat",
        "latspan document chat",
    ]
    results = [json.loads(each.read_text("utf-8")) for each in Path("results/chat").iterdir()]
    # The runs of the verification are part of its result.
    tasks = sorted(each["task"] for each in results)
    assert list(dict.fromkeys(tasks)) == ["diagnose", "document", "measure", "verify"]
    assert len(tasks) <= 4 + disturbed
    for result in results:
        validated(result)
    assert main(["document", "chat", "--json"]) == 0
    write_up = json.loads(capsys.readouterr().out)
    validated(write_up)
    assert (write_up["conclusion"], write_up["missing"]) == ("improved, target met", [])
    page = Path("write-ups/chat/write-up.md").read_text("utf-8")
    assert page.splitlines()[1] == "# chat: improved, target met"
    assert "queue explains it" in page
