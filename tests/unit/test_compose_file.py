"""The compose file says of containers what the configurations say of themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIGS: Final = ROOT / "collector-config"
COMPOSE: Final[dict[str, dict[str, Any]]] = yaml.safe_load(
    (CONFIGS / "compose.yaml").read_text("utf-8")
)
SERVICES: Final = COMPOSE["services"]

services = pytest.mark.parametrize("name", SERVICES)


def mounted(name: str) -> list[Path]:
    """Return the files and folders of ours that a service has."""
    pairs = (each.split(":") for each in SERVICES[name]["volumes"])
    return [CONFIGS / source for source, *_ in pairs if source.startswith("./")]


def text_of(path: Path) -> str:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return "".join(each.read_text("utf-8") for each in files if each.is_file())


@services
def test_what_is_mounted_exists(name: str) -> None:
    paths = mounted(name)

    assert paths
    assert [path for path in paths if not path.exists()] == []


def test_what_is_named_is_there() -> None:
    """Other services, and volumes: the specification's check looks at neither."""
    others = {other for each in SERVICES.values() for other in each.get("depends_on", ())}
    sources = {it.partition(":")[0] for each in SERVICES.values() for it in each["volumes"]}

    assert others < SERVICES.keys()
    assert {source for source in sources if not source.startswith("./")} == {*COMPOSE["volumes"]}


@services
def test_ports_are_this_machines_alone(name: str) -> None:
    ports = SERVICES[name]["ports"]

    assert ports
    assert [each for each in ports if not each.startswith("127.0.0.1:")] == []


@services
def test_variables_are_those_of_its_configuration(name: str) -> None:
    """One that no configuration reads would do nothing."""
    said = {each for each in SERVICES[name].get("environment", {}) if each.startswith("LATSPAN_")}
    read = re.findall(r"\$\{(?:env:)?(LATSPAN_\w+)", "".join(map(text_of, mounted(name))))

    assert said <= set(read)


def test_every_url_of_grafana_is_set() -> None:
    """Its provisioning knows no defaults."""
    read = re.findall(r"\$\{(\w+)\}", text_of(CONFIGS / "grafana" / "provisioning"))

    assert read
    assert set(read) <= SERVICES["grafana"]["environment"].keys()


@services
def test_versions_are_pinned(name: str) -> None:
    assert re.search(r":v?\d+\.\d+\.\d+$", SERVICES[name]["image"])


def test_versions_are_those_that_are_tried() -> None:
    """Jaeger 2.13 is the module 1.76, Prometheus 3.15 the module 0.315."""
    build = (ROOT / "scripts" / "build_backends.py").read_text("utf-8")
    manifest = (CONFIGS / "build" / "manifest.yaml").read_text("utf-8")
    (collector,) = re.findall(r"^  version: (\S+)$", manifest, re.MULTILINE)
    images = {name: each["image"].partition(":")[2] for name, each in SERVICES.items()}

    assert images["otelcol"] == collector
    assert ('"v1.76.0"' in build, images["jaeger"]) == (True, "2.13.0")
    assert ('"v0.315.0"' in build, images["prometheus"]) == (True, "v3.15.0")
