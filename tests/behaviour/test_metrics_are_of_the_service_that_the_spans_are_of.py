"""Metrics and exact histograms leave with the resource of the application's provider."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

import latspan
from latspan._export import resource_of
from latspan._export._resource import resource_beside
from support.receivers import receiving

SHOP = Resource({"service.name": "shop", "team": "search"})


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said by the environment that the tests run in."""
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)


def what_leaves(**settings: Any) -> list[dict[str, str]]:
    """Return the resource of each message with metrics or exact histograms."""
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


def test_they_are_of_the_providers_service() -> None:
    """Of an instance of its own, though its resource names none."""
    provider = TracerProvider(resource=SHOP, shutdown_on_exit=False)

    resources = what_leaves(tracer_provider=provider)

    assert {(said["service.name"], said["team"]) for said in resources} == {("shop", "search")}
    [instance] = {said["service.instance.id"] for said in resources}
    assert instance == resource_of(None).attributes["service.instance.id"]


def test_a_name_that_is_configured_stands() -> None:
    """It was said to latspan."""
    provider = TracerProvider(resource=SHOP, shutdown_on_exit=False)

    resources = what_leaves(tracer_provider=provider, service_name="search")

    assert {said["service.name"] for said in resources} == {"search"}
    assert {said["team"] for said in resources} == {"search"}


def test_without_a_provider_they_are_of_what_is_configured() -> None:
    """As ever."""
    assert {said["service.name"] for said in what_leaves(service_name="own")} == {"own"}


@pytest.mark.parametrize(("is_child", "instance"), [(False, "theirs"), (True, "ours")])
def test_an_instance_is_one_process(is_child: bool, instance: str) -> None:
    """A forked child has the provider of its parent, with the id of that."""
    theirs = Resource({"service.name": "shop", "service.instance.id": "theirs"})
    provider = TracerProvider(resource=theirs, shutdown_on_exit=False)
    own = Resource({"service.name": "x", "service.instance.id": "ours", "process.pid": 5})

    said = resource_beside(provider, own, is_child=is_child).attributes

    assert said["service.name"] == "shop"
    assert (said["service.instance.id"], said["process.pid"]) == (instance, 5)


def test_a_provider_that_is_not_the_sdks_has_no_resource() -> None:
    """Then metrics are of what latspan calls the process."""
    assert resource_beside(object(), SHOP, is_child=False) is SHOP
