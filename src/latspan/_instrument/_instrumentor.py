"""Base class of every integration: OpenTelemetry's instrumentor with reversible patches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

from opentelemetry.instrumentation.dependencies import get_dependency_conflicts
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from packaging.requirements import Requirement

from latspan import _runtime
from latspan._instrument._discovery import note_patched, note_switched_on
from latspan._instrument._patching import Patches, when_imported
from latspan._warn_once import warn_once

if TYPE_CHECKING:
    from latspan._instrument._warmer import UnderlyingClient, Warmer

__all__ = ["Instrumentor", "trigger_of"]


class Instrumentor(BaseInstrumentor):
    """
    Base class of an integration: it switches the instrumentation of one library on and off.

    A second ``instrument()`` has no effect, and ``uninstrument()`` restores the identical original
    objects. The library is patched when the application imports it, or immediately if it has been
    imported. So a program that never uses the library does not pay for its import, and a program
    that must act before the import can still do so.

    Neither method raises, because OpenTelemetry's loader would then skip all other libraries too. A
    library that is not installed is skipped silently. If its version does not satisfy
    :attr:`requires`, or a patch fails, the library is skipped with one warning.
    """

    requires: ClassVar[Collection[str]]
    """Requirement strings, for example ``openai >= 2, < 4``; all must hold."""

    library: ClassVar[str] = ""
    """Import package whose import triggers the patches; the first requirement's name if empty."""

    triggers_start: ClassVar[bool] = True
    """
    Whether importing the library starts latspan in zero-code mode; false for libraries that
    exporters import.
    """

    _patches: Patches | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the requirements."""
        return self.requires

    @abstractmethod
    def patch(self, patches: Patches) -> None:
        """Apply this integration's patches through ``patches``; the library is imported by now."""

    def warmer(
        self, client: Any, url: str | None, timeout_s: float
    ) -> Warmer | UnderlyingClient | None:
        """
        Return an object that opens connections of ``client`` before its first request.

        Args:
            client: Any client.
            url: URL to connect to; ``None`` for the client's own base URL.
            timeout_s: Maximum duration of each step of each request, in seconds.

        Returns:
            ``None`` for the client of another library, and for a client that latspan cannot warm.
        """
        del client, url, timeout_s
        return None

    def instrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - OpenTelemetry's signature
        """Switch the integration on if a supported version of the library is installed."""
        if self.is_instrumented_by_opentelemetry or not self._is_supported():
            return
        # OpenTelemetry's own check logs an error for a library that is not installed.
        super().instrument(skip_dep_check=True)
        note_switched_on(self._package(), self)
        when_imported(trigger_of(self), self._patch)

    def uninstrument(self, **kwargs: Any) -> None:
        """Switch the integration off if it is on."""
        if self.is_instrumented_by_opentelemetry:
            super().uninstrument(**kwargs)

    def _package(self) -> str:
        return trigger_of(self).partition(".")[0]

    def _is_supported(self) -> bool:
        conflict = get_dependency_conflicts(self.requires)
        if conflict is None:
            return True
        if conflict.found:
            warn_once(
                f"{conflict.found} is installed but not instrumented:"
                f" latspan supports {conflict.required}"
            )
        return False

    def _patch(self) -> None:
        """Patch the imported library if the integration is still on."""
        if self._patches is not None or not self.is_instrumented_by_opentelemetry:
            return
        patches = Patches()
        try:
            self.patch(patches)
        except BaseException as error:
            patches.restore()
            self._is_instrumented_by_opentelemetry = False
            if not isinstance(error, Exception):
                raise
            warn_once(f"{trigger_of(self)} is not instrumented: its integration failed", error)
            return
        self._patches = patches
        note_patched(self._package(), is_patched=True)
        if self.triggers_start:
            _runtime.start_if_expected()

    def _instrument(self, **kwargs: Any) -> None:
        pass

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - OpenTelemetry's signature
        if self._patches is not None:
            self._patches.restore()
            self._patches = None
            note_patched(self._package(), is_patched=False)


def trigger_of(integration: Instrumentor) -> str:
    """Return the module whose import triggers the patches of an integration."""
    return integration.library or Requirement(next(iter(integration.requires))).name
