"""What is patched in httpx and in httpx2, which have the same shape."""

from __future__ import annotations

from importlib import import_module
from typing import ClassVar

from latspan.instrument import Instrumentor, Patches

__all__ = ["HTTPX2Instrumentor", "HTTPXInstrumentor"]


class _TransportInstrumentor(Instrumentor):
    library: ClassVar[str]
    core: ClassVar[str]

    def patch(self, patches: Patches) -> None:
        """Patch the transports that talk to a network; mounted and mock ones are left alone."""
        from latspan_httpx import _transport

        module = import_module(self.library)
        patches.wrap(module.HTTPTransport, "handle_request", _transport.handle_request)
        patches.wrap(
            module.AsyncHTTPTransport,
            "handle_async_request",
            _transport.handle_async_request(self.core),
        )


class HTTPXInstrumentor(_TransportInstrumentor):
    """Switches the instrumentation of httpx on and off."""

    requires = ("httpx >= 0.27, < 1",)
    library = "httpx"
    core = "httpcore"


class HTTPX2Instrumentor(_TransportInstrumentor):
    """Switches the instrumentation of httpx2, which the OpenAI SDK 3 sits on, on and off."""

    requires = ("httpx2 >= 2, < 3",)
    library = "httpx2"
    core = "httpcore2"
