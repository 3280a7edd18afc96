"""The base of every integration: OpenTelemetry's instrumentor, with patches that come off."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from latspan.instrument._patching import Patches

if TYPE_CHECKING:
    from latspan.instrument._warm import Beneath, Warmer

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

    def warmer(self, client: Any, url: str | None, timeout_s: float) -> Warmer | Beneath | None:
        """
        Return what opens connections of a client of this library's ahead of its first request.

        Args:
            client: Any client.
            url: Where to; ``None`` for where the client sends to by itself.
            timeout_s: The longest that each step of each request may take, in seconds.

        Returns:
            ``None`` for the client of another library, and where latspan cannot.
        """
        del client, url, timeout_s
        return None

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
