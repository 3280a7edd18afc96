"""``latspan run`` does not change the program: it becomes the started process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

import pytest

RUN: Final = (sys.executable, "-m", "latspan", "run", "--")
DEADLINE_S: Final = 60

SAYS: Final = """
import json, os, sys
print(json.dumps([os.getpid(), sys.argv[1:], sys.path, sys.stdin.read()]))
sys.exit(7)
"""


def environment(**variables: str) -> dict[str, str]:
    ours = ("OTEL_", "LATSPAN_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, **variables}


def ran(
    *command: str, folder: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(**variables),
        input="",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def test_the_program_is_the_started_process() -> None:
    """Process ID, arguments, module path, standard input and exit code are unchanged."""
    said: list[object] = []
    for under in ((), RUN):
        command = [*under, sys.executable, "-c", SAYS, "--help", "--", "a b"]
        with subprocess.Popen(
            command,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            out, err = process.communicate("read me", timeout=DEADLINE_S)
        pid, *rest = json.loads(out)
        assert pid == process.pid
        said.append((rest, err, process.returncode))

    assert said[1] == said[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ])
def test_signals_have_their_default_effect(number: int) -> None:
    """No signal that would end the program is ignored."""
    done = ran(*RUN, "/bin/sh", "-c", f"kill -{number} $$")

    assert done.returncode == -number


def test_pythonpath_is_extended_for_all_child_processes(tmp_path: Path) -> None:
    """Existing entries are kept, even empty ones."""
    before = os.pathsep.join([str(tmp_path), "", "more"])
    printing = ("/bin/sh", "-c", 'printf %s "$PYTHONPATH"')
    own = os.environ.get("PYTHONPATH", "")

    # An empty entry means the current folder, from which latspan is not imported here.
    done = ran(*RUN, *printing, PYTHONPATH=os.pathsep.join([own, before]), folder=tmp_path)

    ours, _, rest = done.stdout.partition(os.pathsep)
    assert Path(ours, "sitecustomize.py").exists()
    assert rest == os.pathsep.join([own, before])


@pytest.mark.parametrize(
    ("program", "code", "word"),
    [
        ("no-such-program", 127, "program not found: 'no-such-program'"),
        ("./app.py", 126, "'./app.py' is not executable"),
        ("./broken", 126, "'./broken' cannot be run: Exec format error"),
    ],
)
def test_a_program_that_cannot_be_run_has_a_shells_exit_code(
    program: str, code: int, word: str, tmp_path: Path
) -> None:
    """127 if it is not found, 126 if it cannot be executed."""
    (tmp_path / "app.py").touch()
    (tmp_path / "broken").touch(mode=0o755)

    done = ran(*RUN, program, folder=tmp_path)

    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"error: {word}\n")


@pytest.mark.parametrize("command", ["run", "doctor"])
def test_an_option_behind_the_dashes_is_taken_for_a_program(command: str) -> None:
    """The hint shows the order that was meant."""
    done = ran(sys.executable, "-m", "latspan", command, "--", "--all", "python", "app.py")

    assert done.returncode == 127
    assert done.stderr == (
        "error: program not found: '--all'\n"
        f"hint: options of latspan come before --: latspan {command} --all -- ...\n"
    )


def test_without_a_program_the_usage_is_printed() -> None:
    """The exit code is that of a usage error."""
    done = ran(*RUN)

    assert done.returncode == 2
    assert "latspan run -- python app.py" in done.stderr


@pytest.mark.parametrize("text", ["print('mine')", "raise RuntimeError('mine')"])
def test_the_applications_sitecustomize_runs(text: str, tmp_path: Path) -> None:
    """It has its own module name, and its errors are shown as usual."""
    (tmp_path / "sitecustomize.py").write_text(text)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = (sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)")

    # The command that starts the program is a Python program too, and runs the same file first.
    before = ran(sys.executable, "-c", "", PYTHONPATH=path)
    plain = ran(*command, PYTHONPATH=path)
    under = ran(*RUN, *command, PYTHONPATH=path)

    assert "mine" in plain.stdout + plain.stderr
    assert (under.stdout, under.stderr) == (
        before.stdout + plain.stdout,
        before.stderr + plain.stderr,
    )


def test_an_invalid_setting_disables_only_latspan() -> None:
    """The program runs, and one message explains that nothing is exported."""
    uses = "import latspan\nfor _ in range(2):\n    with latspan.stage('retrieve'): print('done')"

    done = ran(*RUN, sys.executable, "-c", uses, LATSPAN_ENDPOINT="collector")

    assert (done.returncode, done.stdout) == (0, "done\ndone\n")
    assert done.stderr.count("latspan stays off") == 1
    assert "hint: for example http://localhost:4318" in done.stderr


def test_a_program_without_a_client_loads_none() -> None:
    """Nor does it load the SDK: most child processes of an application have nothing to export."""
    looks = (
        "import sys; print(sorted({'openai', 'httpx', 'httpx2', 'requests'} & set(sys.modules)))"
    )
    more = "print('opentelemetry.sdk' in sys.modules)"

    done = ran(*RUN, sys.executable, "-c", f"{looks}; {more}")

    assert (done.stdout, done.stderr) == ("[]\nFalse\n", "")


def test_a_python_without_latspan_runs_with_one_message(tmp_path: Path) -> None:
    """The program prints it once; its child processes with the same Python do not."""
    venv.create(tmp_path, with_pip=False)
    python = str(tmp_path / "bin" / "python")
    nested = f"import subprocess; subprocess.run([{python!r}, '-c', 'print(2)'], check=True)"

    done = ran(*RUN, python, "-c", nested, PYTHONPATH="")

    assert (done.returncode, done.stdout) == (0, "2\n")
    assert done.stderr.count("latspan stays off: No module named 'latspan'") == 1
    assert done.stderr.count("hint:") == 1
