"""The real programs accept the configurations, and report likely mistakes as documented."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from support.backends import CONFIGS

BUILD: Final = Path(__file__).resolve().parents[2] / "build"

COLLECTOR: Final = ("local.yaml", "agent.yaml", "gateway.yaml")
OVER: Final = {
    "span-metrics.yaml": ("local.yaml", "agent.yaml"),
    "to-tempo.yaml": ("local.yaml", "gateway.yaml"),
}
"""What lies over another configuration, and over which."""
OTHERS: Final = ("jaeger.yaml", "prometheus.yaml", "tempo.yaml")
COMPOSE: Final = "compose.yaml"
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


@pytest.fixture(scope="module")
def compose_spec() -> Path:
    """The Compose Specification's own program that validates, from its Go module."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go")
    module, version = "github.com/compose-spec/compose-go/v2", "v2.16.2"
    home = BUILD / f"compose-spec-{version}"
    if not (home / "cmd").exists():
        home.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "GOBIN": str(home), "GOWORK": "off"}
        done = subprocess.run(
            [go, "install", f"{module}/cmd@{version}"],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            pytest.skip(f"{module} could not be had: {done.stderr.strip().splitlines()[-1]}")
    return home / "cmd"


def comment(mistake: Path, key: str) -> str:
    """Return what a mistake's comment of that key holds."""
    (held,) = re.findall(rf"^# {key}: (.*)$", mistake.read_text("utf-8"), re.MULTILINE)
    return held


def test_every_configuration_is_tried() -> None:
    """A new one takes its place here."""
    tried = {*COLLECTOR, *OVER, *OTHERS, COMPOSE}
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
    refused = validate(otelcol, CONFIGS / comment(mistake, "with"), mistake)

    assert refused.returncode == 1
    assert comment(mistake, "message") in refused.stderr


def test_tempo_takes_its_own(tempo_program: Path) -> None:
    verified = verify(tempo_program, CONFIGS / "tempo.yaml", "-config.expand-env=true")

    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


def test_tempo_needs_an_option_to_expand_variables(tempo_program: Path) -> None:
    """Without the option that the configuration's first lines name, a port is not a number."""
    refused = verify(tempo_program, CONFIGS / "tempo.yaml")

    assert refused.returncode == 1
    assert "cannot unmarshal !!str `${LATSP...` into int" in refused.stderr


@pytest.mark.parametrize("mistake", TEMPO_MISTAKES, ids=lambda mistake: mistake.stem)
def test_tempo_names_a_mistake(tempo_program: Path, mistake: Path) -> None:
    """Alone, for nothing lies over a configuration of Tempo's."""
    refused = verify(tempo_program, mistake)

    assert refused.returncode == 1
    assert comment(mistake, "message") in refused.stderr


def test_the_compose_specification_takes_its_file(compose_spec: Path) -> None:
    taken = subprocess.run([compose_spec, CONFIGS / COMPOSE], capture_output=True, text=True)

    assert (taken.returncode, taken.stderr) == (0, "")


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("depends_on:", "depend_on:", ".depend_on"),
        ('["127.0.0.1:3200:3200"]', '"127.0.0.1:3200:3200"', "services.tempo.ports"),
        ("GF_AUTH_ANONYMOUS_ORG_ROLE: Editor", "ROLE: [Editor]", "services.grafana.environment"),
    ],
)
def test_a_mistake_in_it_is_named(
    compose_spec: Path, tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    """What is checked is more than that it is YAML."""
    copy = tmp_path / COMPOSE
    copy.write_text((CONFIGS / COMPOSE).read_text("utf-8").replace(right, wrong), "utf-8")

    refused = subprocess.run([compose_spec, copy], capture_output=True, text=True)

    assert refused.returncode == 1
    assert message in refused.stderr
