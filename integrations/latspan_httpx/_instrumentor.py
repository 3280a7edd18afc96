"""What is patched in httpx and in httpx2, which have the same shape."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from latspan.integrations import Instrumentor, Patches, Warmer

__all__ = ["HTTPX2Instrumentor", "HTTPXInstrumentor"]


class _TransportInstrumentor(Instrumentor):
    library: ClassVar[str]
    core: ClassVar[str]
    official: ClassVar[str]

    def patch(self, patches: Patches) -> None:
        """Patch where a client hands a request to its transport, and a transport to a pool."""
        from latspan_httpx import _bodies, _pools, _transport

        module = import_module(self.library)
        patches.wrap(module.Client, "_send_single_request", _transport.send(self.official))
        patches.wrap(
            module.AsyncClient,
            "_send_single_request",
            _transport.send_async(self.official, self.core),
        )
        _pools.patch_pools(patches, import_module(self.core))
        _bodies.patch_bodies(patches, module)

    def warmer(self, client: Any, url: str | None, timeout_s: float) -> Warmer | None:
        """Return what opens connections of a client of this library's."""
        module = import_module(self.library)
        if not isinstance(client, module.Client | module.AsyncClient):
            return None
        from latspan_httpx._warm import warmer_of

        return warmer_of(client, url, timeout_s)


class HTTPXInstrumentor(_TransportInstrumentor):
    """Switches the instrumentation of httpx on and off."""

    requires = ("httpx >= 0.27, < 1",)
    library = "httpx"
    core = "httpcore"
    official = "HTTPXClientInstrumentor"


class HTTPX2Instrumentor(_TransportInstrumentor):
    """Switches the instrumentation of httpx2, which the OpenAI SDK 3 sits on, on and off."""

    requires = ("httpx2 >= 2, < 3",)
    library = "httpx2"
    core = "httpcore2"
    official = "HTTPX2ClientInstrumentor"
