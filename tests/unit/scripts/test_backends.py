"""The scripts of ``make backends`` report missing programs and never end foreign processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
PROGRAMS = ("otelcol", "jaeger", "prometheus")


def run(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPTS / script, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


def test_without_go_the_missing_programs_are_listed(tmp_path: Path) -> None:
    (tmp_path / "jaeger").touch()

    built = run("build_backends.py", LATSPAN_BACKENDS=str(tmp_path), PATH=str(tmp_path))

    assert (built.returncode, built.stderr) == (0, "")
    assert built.stdout == (
        "not built, because Go is not installed: otelcol, prometheus; get it from https://go.dev/dl\n"
    )


def test_an_existing_program_is_not_built_again(tmp_path: Path) -> None:
    for name in PROGRAMS:
        (tmp_path / name).touch()

    built = run("build_backends.py", LATSPAN_BACKENDS=str(tmp_path))

    assert (built.returncode, built.stderr) == (0, "")
    assert built.stdout.splitlines() == [
        *(f"{name}: exists already" for name in PROGRAMS),
        f"the programs are in {tmp_path}",
    ]


def test_a_failed_build_shows_its_error_and_leaves_no_files(tmp_path: Path) -> None:
    """Go is replaced with a script that fails as Go does without a network."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\necho no route to host >&2\nexit 1\n")
    go.chmod(0o755)
    made = tmp_path / "made"
    (made / ".otelcol-of-a-build-that-was-killed" / "program").mkdir(parents=True)

    built = run("build_backends.py", LATSPAN_BACKENDS=str(made), PATH=str(go.parent))

    assert built.returncode == 1
    printed, failed, hint = built.stderr.splitlines()
    assert printed == "no route to host"
    assert failed.startswith("latspan: 'go install go.opentelemetry.io/collector/cmd/builder@v")
    assert hint == "hint: its output is above"
    assert [each.name for each in made.iterdir()] == [".lock"]


def test_the_default_folder_is_in_the_users_cache(tmp_path: Path) -> None:
    where = run("build_backends.py", "--where", LATSPAN_BACKENDS="", XDG_CACHE_HOME=str(tmp_path))

    assert Path(where.stdout.strip()).parent == tmp_path / "latspan" / "backends"
    assert not list(tmp_path.iterdir())


def test_missing_programs_cannot_be_started(tmp_path: Path) -> None:
    up = run("run_backends.py", "up", LATSPAN_BACKENDS=str(tmp_path))

    assert up.returncode == 1
    assert up.stderr == (
        f"latspan: jaeger, prometheus, otelcol: not in {tmp_path}\nhint: run `make backends`\n"
    )


def test_existing_programs_are_listed(tmp_path: Path) -> None:
    """Tempo is found by its variable or on the ``PATH``."""
    for name in ("jaeger", "tempo"):
        (tmp_path / name).touch(mode=0o755)
    jaeger, tempo = (f"{name} {tmp_path / name}\n" for name in ("jaeger", "tempo"))
    program = str(tmp_path / "tempo")

    def where(**variables: str) -> str:
        return run("run_backends.py", "where", LATSPAN_BACKENDS=str(tmp_path), **variables).stdout

    assert where(LATSPAN_TEMPO="", PATH="") == jaeger
    assert where(LATSPAN_TEMPO=program, PATH="") == jaeger + tempo
    assert where(LATSPAN_TEMPO="", PATH=str(tmp_path)) == jaeger + tempo


def test_a_missing_tempo_is_an_error(tmp_path: Path) -> None:
    up = run("run_backends.py", "up", LATSPAN_TEMPO=str(tmp_path / "tempo"))

    assert up.returncode == 1
    assert up.stderr == (
        f"latspan: LATSPAN_TEMPO is {tmp_path / 'tempo'}, which is no file\n"
        "hint: set it to the path of the program\n"
    )


def test_a_foreign_process_with_a_reused_id_is_not_ended(tmp_path: Path) -> None:
    """Its program is not the one that was started under this process ID."""
    for name in PROGRAMS:
        (tmp_path / name).touch()
    (tmp_path / "state").mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        jaeger = tmp_path / "jaeger"
        (tmp_path / "state" / "jaeger.pid").write_text(f"{other.pid}\n{jaeger}\n")

        down = run("run_backends.py", "down", LATSPAN_BACKENDS=str(tmp_path))

        assert other.poll() is None
        other.communicate(b"\n")
    assert (down.returncode, down.stderr) == (0, "")
    assert down.stdout == (
        "otelcol: did not run\nprometheus: did not run\ntempo: did not run\njaeger: did not run\n"
    )
