"""``make backends-up`` and ``-down`` with a Tempo and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.backends import answers, built, free_addresses, run_backends

NONE = {"LATSPAN_TEMPO": "", "PATH": ""}
LEFT_OUT = "tempo: left out, because it is neither on PATH nor in LATSPAN_TEMPO"


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Addresses of the backends, which end after the test."""
    for name in ("otelcol", "jaeger", "prometheus"):
        built(name)
    addresses = free_addresses()
    yield addresses
    run_backends("down", tmp_path, **addresses)


def test_without_one_a_line_is_printed(tmp_path: Path, addresses: dict[str, str]) -> None:
    """The other backends run."""
    up = run_backends("up", tmp_path, **addresses, **NONE)

    assert (up.returncode, up.stderr) == (0, "")
    lines = up.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["jaeger", "tempo", "prometheus", "otelcol"]
    assert lines[1] == LEFT_OUT
    assert answers(addresses["LATSPAN_COLLECTOR_HEALTH"])


@pytest.mark.usefixtures("tempo_program")
def test_a_collector_that_does_not_send_to_it_is_not_left_so(
    tmp_path: Path, addresses: dict[str, str]
) -> None:
    """It was started without Tempo. The Tempo that was started now ends."""
    run_backends("up", tmp_path, **addresses, **NONE)

    up = run_backends("up", tmp_path, **addresses)

    assert up.returncode == 1
    assert up.stderr == (
        "latspan: otelcol runs with other arguments\nhint: run `make backends-down`\n"
    )
    assert not answers(f"127.0.0.1:{addresses['LATSPAN_TEMPO_PORT']}/ready")
    assert answers(addresses["LATSPAN_COLLECTOR_HEALTH"])


@pytest.mark.usefixtures("tempo_program")
def test_what_was_started_is_ended(tmp_path: Path, addresses: dict[str, str]) -> None:
    """Even if ``LATSPAN_TEMPO`` is no longer set."""
    run_backends("up", tmp_path, **addresses)
    assert answers(f"127.0.0.1:{addresses['LATSPAN_TEMPO_PORT']}/ready")

    down = run_backends("down", tmp_path, **addresses, **NONE)

    assert down.stdout == "otelcol: ended\nprometheus: ended\ntempo: ended\njaeger: ended\n"
    assert not answers(f"127.0.0.1:{addresses['LATSPAN_TEMPO_PORT']}/ready")
