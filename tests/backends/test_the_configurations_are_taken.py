"""Configurations are taken by the real programs, and likely mistakes have the messages they say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from support.backends import CONFIGS

COLLECTOR: Final = ("local.yaml", "agent.yaml", "gateway.yaml")
OVER: Final = {
    "span-metrics.yaml": ("local.yaml", "agent.yaml"),
    "to-tempo.yaml": ("local.yaml", "gateway.yaml"),
}
"""What lies over another configuration, and over which."""
OTHERS: Final = ("jaeger.yaml", "prometheus.yaml", "tempo.yaml")
MISTAKES: Final = sorted((CONFIGS / "testdata").glob("*.yaml"))
TEMPO_MISTAKES: Final = sorted((CONFIGS / "testdata" / "tempo").glob("*.yaml"))


def validate(program: Path, *configs: Path) -> subprocess.CompletedProcess[str]:
    options = [f"--config={config}" for config in configs]
    return subprocess.run([program, "validate", *options], capture_output=True, text=True)


def verify(tempo: Path, config: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """As ``validate``, of Tempo."""
    return subprocess.run(
        [tempo, f"-config.file={config}", "-config.verify=true", *options],
        capture_output=True,
        text=True,
    )


def comment(mistake: Path, key: str) -> str:
    """Return what a mistake's comment of that key holds."""
    (held,) = re.findall(rf"^# {key}: (.*)$", mistake.read_text("utf-8"), re.MULTILINE)
    return held


def test_every_configuration_is_tried() -> None:
    """A new one takes its place here."""
    tried = {*COLLECTOR, *OVER, *OTHERS}
    assert {config.name for config in CONFIGS.glob("*.yaml")} == tried


@pytest.mark.parametrize("name", COLLECTOR)
def test_the_collector_takes_it(otelcol: Path, name: str) -> None:
    taken = validate(otelcol, CONFIGS / name)

    assert (taken.returncode, taken.stdout, taken.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("over", "under"), [(over, under) for over, unders in OVER.items() for under in unders]
)
def test_the_collector_takes_it_over_another(otelcol: Path, over: str, under: str) -> None:
    taken = validate(otelcol, CONFIGS / under, CONFIGS / over)

    assert (taken.returncode, taken.stdout, taken.stderr) == (0, "", "")


def test_jaeger_takes_its_own(jaeger: Path) -> None:
    assert validate(jaeger, CONFIGS / "jaeger.yaml").returncode == 0


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.stem)
def test_a_mistake_is_named(otelcol: Path, mistake: Path) -> None:
    """Each lies over the configuration that its first line names; its second is the message."""
    refused = validate(otelcol, CONFIGS / comment(mistake, "beside"), mistake)

    assert refused.returncode == 1
    assert comment(mistake, "says") in refused.stderr


def test_tempo_takes_its_own(tempo_program: Path) -> None:
    verified = verify(tempo_program, CONFIGS / "tempo.yaml", "-config.expand-env=true")

    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


def test_tempo_wants_to_be_told_of_variables(tempo_program: Path) -> None:
    """Without the option that the configuration's first lines name, a port is no number."""
    refused = verify(tempo_program, CONFIGS / "tempo.yaml")

    assert refused.returncode == 1
    assert "cannot unmarshal !!str `${LATSP...` into int" in refused.stderr


@pytest.mark.parametrize("mistake", TEMPO_MISTAKES, ids=lambda mistake: mistake.stem)
def test_tempo_names_a_mistake(tempo_program: Path, mistake: Path) -> None:
    """Alone, for nothing lies over a configuration of Tempo's."""
    refused = verify(tempo_program, mistake)

    assert refused.returncode == 1
    assert comment(mistake, "says") in refused.stderr
