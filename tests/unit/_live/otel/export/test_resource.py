"""Every process says who it is."""

from __future__ import annotations

import os
import uuid

import pytest

from latspan._live.otel.export import resource_of, resource_of_child


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said by the environment that the tests run in."""
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)


def test_a_process_has_a_random_id_and_its_number() -> None:
    """Beside the name of its service."""
    said = resource_of("shop").attributes

    assert said["service.name"] == "shop"
    assert said["process.pid"] == os.getpid()
    assert uuid.UUID(str(said["service.instance.id"])).version == 4


def test_all_that_a_process_configures_is_one_instance() -> None:
    """What it sends before and after configuring again belongs together."""
    assert resource_of("shop") == resource_of("shop")


def test_a_child_keeps_all_but_what_makes_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id is its parent's alone, whoever gave it."""
    monkeypatch.setenv(
        "OTEL_RESOURCE_ATTRIBUTES",
        "service.instance.id=mine,team=search,process.pid=1,process.parent_pid=0",
    )
    parents = resource_of("shop")
    said = resource_of_child(parents).attributes

    assert said["team"] == "search"
    assert said["process.pid"] == os.getpid()
    assert said["process.parent_pid"] == os.getppid()
    assert uuid.UUID(str(said["service.instance.id"])).version == 4


def test_a_name_that_is_no_valid_text_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable may hold any bytes; one that cannot be encoded would stop every export."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=a\udcff")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop\udcff")

    said = resource_of(None).attributes
    assert (said["service.name"], said["team"]) == ("shop?", "a?")
    assert resource_of("shop\ud800").attributes["service.name"] == "shop?"
