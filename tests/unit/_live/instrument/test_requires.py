"""What the integration of another distribution may get wrong in ``requires``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import pytest

from latspan.integrations import Instrumentor, Patches


class _Integration(Instrumentor):
    def patch(self, patches: Patches) -> None:
        """Patch nothing."""


class WithoutRequires(_Integration):
    """Has forgotten it."""


class WithString(_Integration):
    """One requirement, as a string."""

    requires: ClassVar[Collection[str]] = "pytest >= 1, < 1000"


def test_an_integration_without_requires_stays_off(caplog: pytest.LogCaptureFixture) -> None:
    """It must not raise, because OpenTelemetry's loader would skip all other libraries."""
    integration: Any = WithoutRequires()
    integration.instrument()
    assert not integration.is_instrumented_by_opentelemetry
    assert "WithoutRequires could not be switched on and stays off" in caplog.text


def test_one_requirement_may_be_a_string() -> None:
    integration = WithString()
    integration.instrument()
    try:
        assert integration.is_instrumented_by_opentelemetry
        assert tuple(integration.instrumentation_dependencies()) == ("pytest >= 1, < 1000",)
    finally:
        integration.uninstrument()
