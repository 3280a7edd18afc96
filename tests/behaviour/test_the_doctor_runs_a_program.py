"""``latspan doctor -- PROGRAM`` leaves a program as it is, and reports what was seen of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from latspan.testing import Script, ScriptedServer
from support.distributions import write_distribution
from support.otlp import free_port
from support.programs import PROGRAMS
from support.receivers import Receiver, Refusal, receiving, refusing
from support.schemas import validated

pytest.importorskip("httpx", reason="httpx is not installed")

DOCTOR: Final = (sys.executable, "-m", "latspan", "doctor")
DEADLINE_S: Final = 60


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
def model() -> Iterator[str]:
    """Address of a server that answers eight calls."""
    with ScriptedServer([Script.chat(tokens=2)] * 8) as server:
        yield f"{server.base_url}/models"


def environment(**variables: str) -> dict[str, str]:
    ours = ("OTEL_", "LATSPAN_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, **variables}


def examined(
    *command: str, tmp_path: Path, **variables: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Return how the doctor ended and its JSON document."""
    report = tmp_path / "report.json"
    done = subprocess.run(
        [*DOCTOR, "--json", "--output", str(report), "--", *command],
        env=environment(**variables),
        input="",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    document = validated(json.loads(report.read_text()))
    assert document["schema"] == "latspan.doctor-program/1"
    return done, document


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def program(name: str) -> tuple[str, str]:
    return sys.executable, str(PROGRAMS / f"{name}.py")


def problems(document: dict[str, Any]) -> list[tuple[bool, str]]:
    return [(each["is_error"], each["problem"]) for each in document["findings"]]


def test_output_and_exit_code_are_the_programs(tmp_path: Path) -> None:
    """Standard input too; the report on standard error follows."""
    code = "import sys; print(sys.stdin.read()); print('mine', file=sys.stderr); sys.exit(7)"
    for command in ((*DOCTOR, "--"), ()):
        done = subprocess.run(
            [*command, *python(code)],
            env=environment(),
            input="read me",
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=DEADLINE_S,
        )
        assert (done.returncode, done.stdout) == (7, "read me\n")
        assert done.stderr.startswith("mine\n")
        assert ("ended with exit code 7" in done.stderr) is bool(command)


def test_a_missing_collector_is_reported_in_plain_words() -> None:
    """Neither the exporter's exceptions nor the libraries that it imports are the program's."""
    code = "import latspan\nwith latspan.request('x'): pass"
    port = free_port()
    for imports, marked in (("", True), ("import requests\n", False)):
        done = subprocess.run(
            [*DOCTOR, "--", *python(imports + code)],
            env=environment(LATSPAN_ENDPOINT=f"http://127.0.0.1:{port}"),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert "HTTPConnectionPool" not in done.stderr
        assert f"failed: refused: nothing listens on port {port}" in done.stderr
        assert "hint: start a collector there" in done.stderr
        assert done.stderr.count("imported by latspan's own exporter") == 2 * marked


def test_a_receiver_that_does_not_respond_is_a_problem(tmp_path: Path) -> None:
    """Nothing that the program recorded has arrived, although no attempt has failed."""
    code = "import latspan\nwith latspan.request('x'): pass"
    with refusing("http/protobuf", Refusal(None)) as silent:
        _, document = examined(*python(code), tmp_path=tmp_path, LATSPAN_ENDPOINT=silent.url)

    assert document["ok"] is False
    assert [(each["signal"], each["accepted"], each["failed"]) for each in document["exports"]] == [
        ("histograms", 0, 1),
        ("spans", 0, 1),
    ]
    assert {each["reason"] for each in document["exports"]} == {
        "no response before the process ended"
    }


def test_a_program_that_works_is_fine(receiver: Receiver, model: str, tmp_path: Path) -> None:
    """Its library, its call and its exports are seen."""
    done, document = examined(
        *python(f"import httpx; httpx.get({model!r})"),
        tmp_path=tmp_path,
        LATSPAN_ENDPOINT=receiver.url,
        LATSPAN_SERVICE_NAME="shop",
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert document["ok"] is True
    assert document["recorded"] == {"http": 1}
    libraries = {each["package"]: each["problem"] for each in document["libraries"]}
    assert libraries["httpx"] is None
    exports = {each["signal"]: each for each in document["exports"]}
    assert exports["spans"]["accepted"] == 1
    assert exports["histograms"]["accepted"] == 1
    assert sum(each["failed"] for each in exports.values()) == 0
    (process,) = document["processes"]
    assert process["configured"] == "latspan run"
    assert process["service_name"] == "shop"
    assert process["endpoint"] == receiver.url
    assert document["findings"] == []
    assert receiver.all_spans


def test_exports_that_fail_are_reported(model: str, tmp_path: Path) -> None:
    """With the reason that the receiver gave, and not in a log line before the report too."""
    with refusing("http/protobuf", Refusal(HTTPStatus.BAD_REQUEST)) as refusal:
        done, document = examined(
            *python(f"import httpx; httpx.get({model!r})"),
            tmp_path=tmp_path,
            LATSPAN_ENDPOINT=refusal.url,
        )

    assert done.stderr == ""
    assert document["ok"] is False
    assert {
        each["signal"]: (each["accepted"], each["failed"], "400" in each["reason"])
        for each in document["exports"]
    } == {"histograms": (0, 1, True), "spans": (0, 1, True)}


def test_a_program_without_a_collector_prints_nothing_of_latspans(tmp_path: Path) -> None:
    """The table has the errors; a program with a log of its own still has the lines in it."""
    for logs, lines in (("", 0), ("import logging; logging.basicConfig()\n", 3)):
        done, document = examined(
            *python(f"{logs}import latspan\nwith latspan.request('x'): pass"),
            tmp_path=tmp_path,
            LATSPAN_ENDPOINT="http://127.0.0.1:9",
        )

        assert len(done.stderr.splitlines()) == lines, done.stderr
        assert [each["accepted"] for each in document["exports"]] == [0, 0]


def test_calls_before_configure_are_reported(
    receiver: Receiver, model: str, tmp_path: Path
) -> None:
    """They are recorded under latspan run, and lost without it."""
    done, document = examined(
        *program("uses_latspan_late"), model, tmp_path=tmp_path, LATSPAN_ENDPOINT=receiver.url
    )

    assert (done.returncode, done.stdout) == (3, "answered\n")
    assert document["recorded"] == {"http": 3, "request": 1}
    (process,) = document["processes"]
    assert process["configured"] == "program"
    assert process["early"] == {"http": 2}
    assert [(error, problem.partition(";")[0]) for error, problem in problems(document)] == [
        (True, "2 calls were made before latspan.configure()"),
        (False, "the program never calls latspan.auto_instrument()"),
    ]


def test_a_program_that_never_configures_is_no_problem(tmp_path: Path) -> None:
    """``latspan run`` configures it, so this is a note for those who start it in another way."""
    _, document = examined(
        *python("from latspan import request\nwith request('question'): pass"),
        tmp_path=tmp_path,
        LATSPAN_EXPORT_ENABLED="false",
    )

    assert document["recorded"] == {"request": 1}
    ((is_error, problem),) = problems(document)
    assert not is_error
    assert problem.startswith("the program imports latspan and never calls latspan.configure()")
    assert document["ok"] is True


EXEC: Final = """
import os, sys
import latspan
with latspan.request("first"): pass
program = "import latspan\\nwith latspan.request('second'): pass"
os.execv(sys.executable, [sys.executable, "-c", program])
"""


def test_a_process_that_replaces_itself_has_a_line_per_program(tmp_path: Path) -> None:
    """Both have the same process id, and only the first one lost what it recorded."""
    report = tmp_path / "report"
    done = subprocess.run(
        [*DOCTOR, "--output", str(report), "--", *python(EXEC)],
        env=environment(LATSPAN_EXPORT_ENABLED="false"),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )

    assert done.returncode == 0
    lines = report.read_text().splitlines()
    names = [line.partition("program ")[2].partition(")")[0] for line in lines if " of 2)" in line]
    assert names[:2] == ["1 of 2", "2 of 2"]
    (lost,) = [line for line in lines if "replaced by exec" in line]
    assert lost.startswith("  fail  ")
    assert "program 1 of 2" in lost
    assert "hint: call latspan.shutdown() before the process calls os.exec" in report.read_text()


def test_a_program_that_uses_nothing_recorded_nothing(tmp_path: Path) -> None:
    """That may be intended, so it is a note."""
    _, document = examined(*python("pass"), tmp_path=tmp_path)

    assert document["ok"] is True
    assert document["processes"][0]["configured"] is None
    assert problems(document) == [(False, "no call and no request was recorded")]


def test_an_unsupported_and_a_disabled_library_are_missed(tmp_path: Path) -> None:
    """The first is a mistake, the second is intended."""
    write_distribution(tmp_path, "openai", "1.9")
    (tmp_path / "openai.py").touch()
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    _, document = examined(
        *python("import openai, httpx"),
        tmp_path=tmp_path,
        PYTHONPATH=path,
        LATSPAN_DISABLED_INSTRUMENTATIONS="httpx",
    )

    missed = {
        each["package"]: (each["problem"], each["is_intended"])
        for each in document["libraries"]
        if each["problem"]
    }
    assert missed == {
        "httpx": ("disabled by LATSPAN_DISABLED_INSTRUMENTATIONS", True),
        "openai": (
            "its version is not supported: latspan supports openai >= 2, < 4",
            False,
        ),
    }
    assert document["ok"] is False


def test_a_copy_of_a_library_under_another_name_is_missed(tmp_path: Path) -> None:
    """Packages carry such copies; no integration patches them."""
    copy = tmp_path / "agent" / "_vendor" / "httpx"
    copy.mkdir(parents=True)
    for file in ("__init__.py", "_client.py", "../__init__.py", "../../__init__.py"):
        (copy / file).touch()
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    _, document = examined(
        *python("import agent._vendor.httpx._client"), tmp_path=tmp_path, PYTHONPATH=path
    )

    (missed,) = [each for each in document["libraries"] if each["problem"]]
    assert missed["package"] == "agent._vendor.httpx"
    assert missed["problem"].startswith("a copy of httpx under another name")


def test_several_processes_are_merged(receiver: Receiver, model: str, tmp_path: Path) -> None:
    """Forked and spawned children, and other Python programs that the program starts."""
    done, document = examined(
        *program("asks_in_processes"), model, tmp_path=tmp_path, LATSPAN_ENDPOINT=receiver.url
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert document["recorded"] == {"http": 4}
    counts = [each["recorded"].get("http", 0) for each in document["processes"]]
    assert sorted(counts, reverse=True)[:4] == [1, 1, 1, 1]
    exports = {each["signal"]: each for each in document["exports"]}
    assert exports["spans"]["accepted"] == 4
    assert document["findings"] == []


def test_a_setting_that_keeps_latspan_off_is_reported(model: str, tmp_path: Path) -> None:
    """With the hint of the error, and the variable that is the reason."""
    _, document = examined(
        *python(f"import httpx; httpx.get({model!r})"),
        tmp_path=tmp_path,
        LATSPAN_ENDPOINT="collector",
    )

    (finding,) = document["findings"]
    assert finding["problem"].startswith("latspan stayed off: endpoint is 'collector'")
    assert finding["hint"].startswith("for example http://localhost:4318")
    assert [each["variable"] for each in document["variables"]] == ["LATSPAN_ENDPOINT"]


def test_a_program_without_latspan_is_reported(tmp_path: Path) -> None:
    """It may be in another language, or its Python ignores the environment."""
    for command in (
        ("/bin/sh", "-c", "exit 5"),
        (sys.executable, "-I", "-c", "raise SystemExit(5)"),
    ):
        done, document = examined(*command, tmp_path=tmp_path)

        assert done.returncode == 5
        assert document["processes"] == []
        assert problems(document) == [(True, "no process of the program loaded latspan")]


def test_a_killed_process_is_reported(tmp_path: Path) -> None:
    """The same signal ends the doctor, and what the process recorded is unknown."""
    done, document = examined(
        *python(
            "import os, signal, latspan\n"
            "latspan.configure(export_enabled=False)\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        ),
        tmp_path=tmp_path,
    )

    assert done.returncode == -signal.SIGKILL
    assert document["exit_code"] == -signal.SIGKILL
    assert problems(document)[0] == (
        True,
        "it ended without its exit handlers, so what it recorded is unknown",
    )


@pytest.mark.parametrize("answered", [0, 1])
def test_a_process_that_sigterm_ends_is_seen_whole(
    model: str, tmp_path: Path, answered: int
) -> None:
    """With its libraries also if it recorded nothing, because servers end this way."""
    done, document = examined(
        *python(
            "import os, signal, httpx\n"
            f"for _ in range({answered}): httpx.get({model!r})\n"
            "os.kill(os.getpid(), signal.SIGTERM)"
        ),
        tmp_path=tmp_path,
        LATSPAN_EXPORT_ENABLED="false",
    )

    assert done.returncode == -signal.SIGTERM
    assert document["recorded"] == ({"http": 1} if answered else {})
    assert [each["finished"] for each in document["processes"]] == [True]
    libraries = {each["package"]: each["problem"] for each in document["libraries"]}
    assert libraries["httpx"] is None
    assert [each for each in document["findings"] if each["is_error"]] == []


def test_a_server_framework_is_one_of_the_libraries(tmp_path: Path) -> None:
    """It counts as imported if the application class is, and not one of its other modules."""
    pytest.importorskip("starlette", reason="starlette is not installed")
    for module, seen in (("applications", True), ("datastructures", False)):
        _, document = examined(*python(f"import starlette.{module}"), tmp_path=tmp_path)

        assert document["ok"] is True
        packages = [each["package"] for each in document["libraries"]]
        assert ("starlette" in packages) is seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_program(number: signal.Signals, tmp_path: Path) -> None:
    """Not only the doctor, which waits for the program and prints its report."""
    code = (
        "import signal\n"
        f"signal.signal({int(number)}, lambda *_: exit(9))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen(
        [*DOCTOR, "--", *python(code)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Not in the foreground of a terminal, which would itself send Ctrl-C to both.
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, report = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 9
    assert "ended with exit code 9" in report


def test_nothing_of_a_prompt_is_in_the_report(
    receiver: Receiver, model: str, tmp_path: Path
) -> None:
    """Neither of a request nor of the program's arguments, even if content is captured."""
    code = f"import httpx; httpx.post({model!r}, json={{'messages': 'whisper'}})"
    done, document = examined(
        *python(code),
        "whisper",
        tmp_path=tmp_path,
        LATSPAN_ENDPOINT=receiver.url.replace("://", "://user:hush@"),
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="SPAN_AND_EVENT",
    )

    assert done.returncode == 0
    for secret in ("whisper", "hush"):
        assert secret not in json.dumps(document)


def test_the_report_is_a_text_for_a_reader(receiver: Receiver, model: str) -> None:
    """With a mark on each line, and a hint below each problem."""
    done = subprocess.run(
        [*DOCTOR, "--", *program("uses_latspan_late"), model],
        env=environment(LATSPAN_ENDPOINT=receiver.url, LATSPAN_ROUT="/chat"),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )

    lines = done.stderr.splitlines()
    (process,) = [line for line in lines if "configured by the program" in line]
    assert process.startswith("  ok    uses_latspan_late.py (")
    assert "3 HTTP exchanges" in process
    assert "  fail  LATSPAN_ROUT  is not a setting of latspan and has no effect" in lines
    assert any("httpx" in line and "instrumented" in line for line in lines)
    assert lines[-1] == "problems found: see the lines marked fail"


@pytest.mark.parametrize(("command", "code"), [("no-such-program", 127), ("./app.py", 126)])
def test_a_program_that_cannot_be_run_has_no_report(
    command: str, code: int, tmp_path: Path
) -> None:
    """As under latspan run."""
    (tmp_path / "app.py").touch()

    done = subprocess.run(
        [*DOCTOR, "--", command],
        env=environment(),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=DEADLINE_S,
    )

    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert "latspan doctor:" not in done.stderr
