"""
Instrumentation of httpx and httpx2: the transport times of a request.

Inside a call of a client library, the transport times are recorded on that call. Outside any call,
each HTTP exchange is recorded on its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from latspan.integrations import Instrumentor, Patches

if TYPE_CHECKING:
    from latspan._live.instrument import Warmer

__all__ = ["HTTPX2Instrumentor", "HTTPXInstrumentor"]


class _TransportInstrumentor(Instrumentor):
    library: ClassVar[str]  # pyright: ignore[reportIncompatibleVariableOverride] - one module
    core_module = "_client"
    _core: ClassVar[str]
    _official: ClassVar[str]

    def patch(self, patches: Patches) -> None:
        """Patch the calls from a client to its transport and from a transport to a pool."""
        from latspan_instrumentation.httpx import _bodies, _pools, _transport

        module = import_module(self.library)
        patches.wrap(module.Client, "_send_single_request", _transport.send(self._official))
        patches.wrap(
            module.AsyncClient,
            "_send_single_request",
            _transport.send_async(self._official, self._core),
        )
        # httpx2, and newer versions of httpx, import it when the first client is created.
        patches.when_imported(
            self._core, lambda: _pools.patch_pools(patches, import_module(self._core))
        )
        _bodies.patch_bodies(patches, module)

    def warmer(self, client: Any, url: str | None, timeout_s: float) -> Warmer | None:
        """Return an object that opens connections of ``client``, a client of this library."""
        module = import_module(self.library)
        if not isinstance(client, module.Client | module.AsyncClient):
            return None
        from latspan_instrumentation.httpx._warm import warmer_of

        return warmer_of(client, url, timeout_s)


class HTTPXInstrumentor(_TransportInstrumentor):
    """Instrumentor that switches the instrumentation of httpx on and off."""

    requires = ("httpx >= 0.27, < 1",)
    library = "httpx"
    _core = "httpcore"
    _official = "HTTPXClientInstrumentor"


class HTTPX2Instrumentor(_TransportInstrumentor):
    """Instrumentor that switches httpx2, which the OpenAI SDK 3 uses, on and off."""

    requires = ("httpx2 >= 2, < 3",)
    library = "httpx2"
    _core = "httpcore2"
    _official = "HTTPX2ClientInstrumentor"
