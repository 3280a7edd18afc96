"""Sources of evidence that other distributions install."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from latspan._model.evidence import _sources
from latspan.integrations.evidence import EvidenceSource, ReportedTimings, ResponseMetadata


def _read(_: ResponseMetadata) -> ReportedTimings:
    return ReportedTimings("acme", queue_ns=5)


GOOD = EvidenceSource(frozenset({"x-a"}), _read)
RESPONSE = ResponseMetadata(streamed=True)


def _broken(_: ResponseMetadata) -> ReportedTimings:
    raise ZeroDivisionError


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install entry points, by the names of attributes of a module."""
    module: Any = ModuleType("acme_evidence")
    module.good, module.broken = GOOD, EvidenceSource(frozenset({"x-b"}), _broken)
    module.wrong = object()
    monkeypatch.setitem(sys.modules, "acme_evidence", module)

    def install(*names: str) -> None:
        points = [EntryPoint(name, f"acme_evidence:{name}", "latspan_evidence") for name in names]

        def entry_points(*, group: str) -> list[EntryPoint]:
            return [point for point in points if point.group == group]

        monkeypatch.setattr(_sources, "entry_points", entry_points)

    return install


def test_a_source_is_found_by_its_entry_point(install: Any) -> None:
    install("good")
    (source,) = _sources.installed_sources()
    assert source.markers == {"x-a"}
    assert source.read(RESPONSE) == ReportedTimings("acme", queue_ns=5)


@pytest.mark.parametrize("name", ["wrong", "absent"])
def test_a_source_that_cannot_be_loaded_costs_a_warning(
    install: Any, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    install(name, "good")
    assert [each.markers for each in _sources.installed_sources()] == [GOOD.markers]
    assert [each.levelno for each in caplog.records] == [logging.WARNING]
    assert f"the evidence source {name} could not be loaded" in caplog.text


def test_an_adapter_that_raises_costs_a_warning(
    install: Any, caplog: pytest.LogCaptureFixture
) -> None:
    install("broken")
    (source,) = _sources.installed_sources()
    assert source.read(RESPONSE) is None
    assert source.read(RESPONSE) is None
    assert len(caplog.records) == 1
