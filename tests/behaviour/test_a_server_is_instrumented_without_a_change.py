"""A web application under `latspan run`: each served request is one span with its route."""

from __future__ import annotations

import sys
from typing import Final

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.otlp import attributes_of
from support.programs import run_program
from support.receivers import receiving

_RUN: Final = (sys.executable, "-m", "latspan", "run", "--")
_ROUTES: Final = {
    "fastapi": "/items/{item}",
    "flask": "/items/<int:item>",
    "django": "/items/<int:item>",
}
_INTEGRATIONS: Final = {"fastapi": "latspan_starlette"}
"""Name of the integration, where it is not ``latspan_`` and the framework's."""


def _spans(framework: str, **variables: str) -> list[Span]:
    with receiving() as receiver:
        printed = run_program(
            "serves_unchanged",
            framework,
            under=_RUN,
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
            **variables,
        )
    assert printed == "012"
    return receiver.all_spans


@pytest.mark.parametrize("framework", _ROUTES)
def test_each_request_is_one_span(framework: str) -> None:
    """The application has no line for latspan, and its responses are the same."""
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    route = _ROUTES[framework]

    served = [each for each in _spans(framework) if each.kind == Span.SPAN_KIND_SERVER]

    assert [each.name for each in served] == [f"GET {route}"] * 3
    assert {attributes_of(each.attributes)["latspan.route"] for each in served} == {route}


@pytest.mark.parametrize("framework", _ROUTES)
def test_an_integration_can_be_disabled(framework: str) -> None:
    """By the same name as every other integration."""
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    name = _INTEGRATIONS.get(framework, f"latspan_{framework}")

    assert _spans(framework, LATSPAN_DISABLED_INSTRUMENTATIONS=name) == []
