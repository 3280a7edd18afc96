"""Base class of every integration: reversible patches that OpenTelemetry's loader can apply."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from latspan._base.log import warn_once
from latspan._live.instrument._discovery import note_patched, note_switched_on
from latspan._live.instrument._import_hooks import stop_awaiting, when_imported
from latspan._live.instrument._patching import Patches
from latspan._live.instrument._requirements import conflict_with, library_of
from latspan._live.process.runtime import start_if_expected

if TYPE_CHECKING:
    from latspan._live.instrument._warmer import UnderlyingClient


class Instrumentor(ABC):
    """
    Base class of an integration: it switches the instrumentation of one library on and off.

    It has the methods of OpenTelemetry's ``BaseInstrumentor`` that loaders call, and is a singleton
    as well. It does not derive from that class, whose import takes longer than all other work of
    switching an integration on.

    A second ``instrument()`` has no effect, and ``uninstrument()`` restores the identical original
    objects. The library is patched when the application imports it, or immediately if it has been
    imported. So a program that never uses the library does not import it, and a program that must
    run code before the import still can.

    Neither method raises: after an exception, OpenTelemetry's loader would skip all other libraries
    too. A library that is not installed is skipped silently. If the version of the library does not
    satisfy :attr:`requires`, or a patch fails, the library is skipped with one warning.
    """

    requires: ClassVar[Collection[str]]
    """Requirement strings, for example ``openai >= 2, < 4``; all must hold."""

    library: ClassVar[str | tuple[str, ...]] = ""
    """
    Import package whose import triggers the patches; the first requirement's name if empty.

    The import of a namespace package runs no code, so it cannot trigger the patches. Instead, the
    packages inside it that the application may import are listed; the first one that is imported
    triggers the patches.
    """

    triggers_start: ClassVar[bool] = True
    """
    Whether importing the library starts latspan in zero-code mode; false for libraries that
    exporters import.
    """

    serves: ClassVar[bool] = False
    """Whether the library serves requests; otherwise it is a client library."""

    core_module: ClassVar[str] = ""
    """
    Module inside the library's package that sends its requests, for example ``_client``. It
    identifies a copy of the library inside another package, which ``latspan doctor`` reports.
    """

    own_scopes: ClassVar[Mapping[str, Collection[str]]] = {}
    """
    Instrumentation scopes of the spans that the library itself opens for its calls.

    The values are the names of the attributes that latspan does not add to these spans, because the
    library omits them on purpose, or defines them in another way. A version number may follow the
    name of a scope.
    """

    _instance: ClassVar[Any] = None
    _is_on: bool
    _patches: Patches | None
    _patching: threading.Lock
    """Held by the thread that applies the patches. No other thread waits for this lock, because the
    thread that holds it may itself wait for a module that the other thread is importing."""

    def __new__(cls) -> Self:
        if "_instance" not in cls.__dict__:
            instance = super().__new__(cls)
            instance._is_on = False
            instance._patches = None
            instance._patching = threading.Lock()
            cls._instance = instance
        return cls._instance

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Whether the integration is on; OpenTelemetry's name for it."""
        return self._is_on

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the requirements."""
        # One requirement as a string is a collection too, of its characters.
        return (self.requires,) if isinstance(self.requires, str) else self.requires

    @abstractmethod
    def patch(self, patches: Patches) -> None:
        """Apply this integration's patches through ``patches``; the library is imported by now."""

    def underlying_client(self, client: Any) -> UnderlyingClient | None:
        """
        Return the HTTP client that ``client`` sends through, so that :func:`latspan.warm` works.

        Args:
            client: Any client.

        Returns:
            ``None`` for the client of another library, and for a client that latspan cannot warm.
        """
        del client
        return None

    def instrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - OpenTelemetry's signature
        """Switch the integration on if a supported version of the library is installed."""
        try:
            if not self._is_on and self._is_supported():
                self._is_on = True
                note_switched_on(self._package(), self)
                for trigger in triggers_of(self):
                    when_imported(trigger, self._patch)
        except Exception as error:  # noqa: BLE001 - it may be another distribution's
            self._is_on = False
            warn_once(f"{type(self).__qualname__} could not be switched on and stays off", error)

    def uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - OpenTelemetry's signature
        """Switch the integration off if it is on."""
        self._is_on = False
        for trigger in triggers_of(self):
            stop_awaiting(trigger, self._patch)
        self._restore()

    def _package(self) -> str:
        return package_of(self)

    def _is_supported(self) -> bool:
        conflict = conflict_with(tuple(self.instrumentation_dependencies()))
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
        if not self._patching.acquire(blocking=False):
            return
        try:
            if self._patches is not None or not self._is_on:
                return
            self._patches = patches = Patches(self._give_up)
            try:
                self.patch(patches)
            except BaseException as error:  # noqa: BLE001 - raised again if it is an interrupt
                self._give_up(error)
            finally:
                if self._is_on:
                    note_patched(self._package(), is_patched=True)
                else:
                    # A patch has failed, or another thread has switched the integration off.
                    patches.restore()
        finally:
            self._patching.release()
        if self._is_on and self.triggers_start:
            start_if_expected()

    def _give_up(self, error: BaseException) -> None:
        """Remove all patches because one has failed."""
        self._is_on = False
        self._restore()
        if not isinstance(error, Exception):
            raise error
        warn_once(f"{package_of(self)} is not instrumented: its integration failed", error)

    def _restore(self) -> None:
        patches, self._patches = self._patches, None
        if patches is not None:
            patches.restore()
            note_patched(self._package(), is_patched=False)


def triggers_of(integration: Instrumentor) -> tuple[str, ...]:
    """Return the modules that trigger an integration's patches: the first one imported does."""
    library = integration.library or library_of(
        next(iter(integration.instrumentation_dependencies()))
    )
    return (library,) if isinstance(library, str) else library


def package_of(integration: Instrumentor) -> str:
    """
    Return the import package of an integration's library.

    The name of the integration ends with this package. It is the top-level package, unless the
    distribution is named after a package inside a namespace package, as ``google-genai`` is named
    after ``google.genai``.
    """
    trigger = triggers_of(integration)[0]
    requirement = next(iter(integration.instrumentation_dependencies()))
    named = library_of(requirement).replace("-", ".")
    return named if f"{trigger}.".startswith(f"{named}.") else trigger.partition(".")[0]
