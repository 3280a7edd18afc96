"""The base of every integration: OpenTelemetry's instrumentor, with patches that come off."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

from opentelemetry.instrumentation.dependencies import get_dependency_conflicts
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from packaging.requirements import Requirement

from latspan import _runtime
from latspan._instrument._patching import Patches, when_imported
from latspan._warn_once import warn_once

if TYPE_CHECKING:
    from latspan._instrument._warmer import UnderlyingClient, Warmer

__all__ = ["Instrumentor"]


class Instrumentor(BaseInstrumentor):
    """
    Switches the instrumentation of one library on and off.

    ``instrument()`` twice is once, and ``uninstrument()`` puts the very same objects back. The
    library is patched when the application imports it, or at once where it has: a program that
    never uses it does not pay for its import, and one that must do something before does so.

    Whoever switches it on, nothing that goes wrong is raised: OpenTelemetry's loader would leave
    all other libraries alone too. A library that is absent is left alone in silence; one of a
    version outside :attr:`requires`, or whose patches fail, with one warning.
    """

    requires: ClassVar[Collection[str]]
    """Requirement strings, for example ``openai >= 2, < 4``; all must hold."""

    library: ClassVar[str] = ""
    """The import package to await; the name in the first requirement, unless said."""

    begins: ClassVar[bool] = True
    """Whether the library's import begins what is expected; not one that exporters import too."""

    _patches: Patches | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the requirements."""
        return self.requires

    @abstractmethod
    def patch(self, patches: Patches) -> None:
        """Apply this integration's patches through ``patches``; the library is imported."""

    def warmer(
        self, client: Any, url: str | None, timeout_s: float
    ) -> Warmer | UnderlyingClient | None:
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

    def instrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - OpenTelemetry's signature
        """Switch it on, where the library is installed in a version that is supported."""
        if self.is_instrumented_by_opentelemetry or not self._is_supported():
            return
        # OpenTelemetry's own check has an error to say of an absent library.
        super().instrument(skip_dep_check=True)
        when_imported(self._awaited(), self._patch)

    def uninstrument(self, **kwargs: Any) -> None:
        """Switch it off, if it is on."""
        if self.is_instrumented_by_opentelemetry:
            super().uninstrument(**kwargs)

    def _awaited(self) -> str:
        return self.library or Requirement(next(iter(self.requires))).name

    def _is_supported(self) -> bool:
        conflict = get_dependency_conflicts(self.requires)
        if conflict is None:
            return True
        if conflict.found:
            warn_once(
                f"{conflict.found} is installed and stays uninstrumented:"
                f" latspan supports {conflict.required}"
            )
        return False

    def _patch(self) -> None:
        """Patch the library that was imported, if that is still wanted."""
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
            warn_once(f"{self._awaited()} stays uninstrumented: its integration failed", error)
            return
        self._patches = patches
        if self.begins:
            _runtime.start_if_expected()

    def _instrument(self, **kwargs: Any) -> None:
        pass

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - OpenTelemetry's signature
        if self._patches is not None:
            self._patches.restore()
            self._patches = None
