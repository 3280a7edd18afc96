"""The instrumentor of the Anthropic SDK and the list of its patches."""

from __future__ import annotations

from typing import Any

from latspan.integrations import (
    Instrumentor,
    MethodWrappers,
    Patches,
    UnderlyingClient,
    patch_request_builder,
    patch_stream_classes,
    patch_stream_wrappers,
)

__all__ = ["AnthropicInstrumentor"]


class AnthropicInstrumentor(Instrumentor):
    """Instrumentor that switches the instrumentation of the Anthropic SDK on and off."""

    requires = ("anthropic >= 0.43, < 3",)

    def patch(self, patches: Patches) -> None:
        """
        Patch the ``request`` method of clients, and the streams that it returns.

        The methods of ``messages`` are not patched, for two reasons: the SDK's helpers bypass
        them, and their warnings name the line of the caller, which an additional frame of latspan
        would shift.
        """
        from anthropic import AsyncStream, Stream
        from anthropic._base_client import AsyncAPIClient, BaseClient, SyncAPIClient
        from anthropic.lib import streaming

        from latspan_anthropic import _messages

        wrappers = MethodWrappers(streams=(Stream, AsyncStream))
        patches.wrap_innermost(SyncAPIClient, "request", _messages.request(wrappers))
        patches.wrap_innermost(AsyncAPIClient, "request", _messages.async_request(wrappers))
        patch_request_builder(patches, BaseClient)
        patch_stream_classes(patches, Stream, AsyncStream)
        for prefix in ("", "Beta"):
            wrapper = getattr(streaming, f"{prefix}MessageStream", None)
            async_wrapper = getattr(streaming, f"{prefix}AsyncMessageStream", None)
            if wrapper is not None and async_wrapper is not None:
                patch_stream_wrappers(patches, wrapper, async_wrapper)

    def warmer(self, client: Any, url: str | None, timeout_s: float) -> UnderlyingClient | None:
        """Return the HTTP client that ``client``, a client of the SDK, sends through."""
        del url, timeout_s
        from latspan_anthropic._warm import underlying_client

        return underlying_client(client)
