"""The base of every integration: OpenTelemetry's instrumentor, with patches that come off."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from latspan.instrument._patching import Patches

__all__ = ["Instrumentor"]


class Instrumentor(BaseInstrumentor):
    """
    Switches the instrumentation of one library on and off.

    ``instrument()`` twice is once, and ``uninstrument()`` puts the very same objects back. The
    library's version is checked by OpenTelemetry's base class against :attr:`requires`.
    """

    requires: ClassVar[Collection[str]]
    """Requirement strings, for example ``openai >= 2, < 4``; all must hold."""

    _patches: Patches | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the requirements that OpenTelemetry's loader checks."""
        return self.requires

    @abstractmethod
    def patch(self, patches: Patches) -> None:
        """Apply this integration's patches through ``patches``."""

    def _instrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - OpenTelemetry's signature
        patches = Patches()
        try:
            self.patch(patches)
        except BaseException:
            patches.restore()
            raise
        self._patches = patches

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - OpenTelemetry's signature
        if self._patches is not None:
            self._patches.restore()
            self._patches = None
