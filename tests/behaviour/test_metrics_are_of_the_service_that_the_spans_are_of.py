"""Metrics and raw histograms are exported with the resource of the application's provider."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

import latspan
from latspan._live.otel.export import resource_of
from latspan._live.otel.export._resource import application_resource
from support.receivers import receiving

SHOP = Resource({"service.name": "shop", "team": "search"})


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove names that the environment of the tests may set."""
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)


def what_leaves(**settings: Any) -> list[dict[str, str]]:
    """Return the resource of each exported message with metrics or raw histograms."""
    with receiving() as receiver:
        latspan.configure(endpoint=receiver.url, export_raw_histograms=True, **settings)
        try:
            with latspan.request("ask"):
                pass
            assert latspan.force_flush(30)
        finally:
            latspan.shutdown()
        logs = [held for sent in receiver.logs for held in sent.resource_logs]
        assert receiver.resource_metrics
        assert logs
        return [text_of(each.resource.attributes) for each in (*receiver.resource_metrics, *logs)]


def text_of(attributes: Iterable[Any]) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in attributes}


def test_metrics_have_the_resource_of_the_provider() -> None:
    """With an instance ID, although the provider's resource has none."""
    provider = TracerProvider(resource=SHOP, shutdown_on_exit=False)

    resources = what_leaves(tracer_provider=provider)

    assert {(said["service.name"], said["team"]) for said in resources} == {("shop", "search")}
    [instance] = {said["service.instance.id"] for said in resources}
    assert instance == resource_of(None).attributes["service.instance.id"]


def test_a_configured_service_name_has_priority() -> None:
    """It was set for latspan explicitly."""
    provider = TracerProvider(resource=SHOP, shutdown_on_exit=False)

    resources = what_leaves(tracer_provider=provider, service_name="search")

    assert {said["service.name"] for said in resources} == {"search"}
    assert {said["team"] for said in resources} == {"search"}


def test_without_a_provider_metrics_have_the_configured_name() -> None:
    assert {said["service.name"] for said in what_leaves(service_name="own")} == {"own"}


@pytest.mark.parametrize(("is_child", "instance"), [(False, "theirs"), (True, "ours")])
def test_a_forked_child_has_its_own_instance_id(is_child: bool, instance: str) -> None:
    """It inherits the provider of its parent, with the parent's ID."""
    theirs = Resource({"service.name": "shop", "service.instance.id": "theirs"})
    provider = TracerProvider(resource=theirs, shutdown_on_exit=False)
    own = Resource({"service.name": "x", "service.instance.id": "ours", "process.pid": 5})

    said = application_resource(provider, own, is_child=is_child).attributes

    assert said["service.name"] == "shop"
    assert (said["service.instance.id"], said["process.pid"]) == (instance, 5)


def test_a_provider_without_a_resource_is_ignored() -> None:
    """Metrics then have latspan's own resource."""
    assert application_resource(object(), SHOP, is_child=False) is SHOP
