"""
Instrumentation of the Anthropic SDK: messages, streamed or not, synchronous and asynchronous.

The client, its responses and its streams remain the SDK's own objects.
"""

from __future__ import annotations

from typing import Any, ClassVar

from latspan import semconv
from latspan.integrations import Instrumentor, Patches, UnderlyingClient

__all__ = ["AnthropicInstrumentor"]


class AnthropicInstrumentor(Instrumentor):
    """Instrumentor that switches the instrumentation of the Anthropic SDK on and off."""

    requires = ("anthropic >= 0.43, < 3",)
    core_module = "_client"
    # The SDK does not record sampling parameters, and treats stop sequences as content. It records
    # the stop reason under a name of its own. Its first chunk is the first delta.
    own_scopes: ClassVar = {
        "com.anthropic.sdk.python": (
            semconv.GEN_AI_REQUEST_STOP_SEQUENCES,
            semconv.GEN_AI_REQUEST_TEMPERATURE,
            semconv.GEN_AI_REQUEST_TOP_K,
            semconv.GEN_AI_REQUEST_TOP_P,
            semconv.GEN_AI_RESPONSE_FINISH_REASONS,
            semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        )
    }

    def patch(self, patches: Patches) -> None:
        """
        Patch the ``request`` method of clients, and the streams that it returns.

        The methods of ``messages`` are not patched, for two reasons: the SDK's helpers bypass
        them, and their warnings name the line of the caller, which an additional frame of latspan
        would shift.
        """
        from anthropic.lib import streaming

        from latspan_instrumentation.anthropic._messages import open_messages
        from latspan_instrumentation.stainless._methods import patch_client, patch_helpers

        patch_client(patches, "anthropic", open_messages)
        for name in ("MessageStream", "BetaMessageStream"):
            for helper in (name, name.replace("Message", "AsyncMessage")):
                if hasattr(streaming, helper):
                    patch_helpers(patches, getattr(streaming, helper))

    def underlying_client(self, client: Any) -> UnderlyingClient | None:
        """Return the HTTP client that ``client``, a client of the SDK, sends through."""
        from anthropic._base_client import AsyncAPIClient, SyncAPIClient

        from latspan_instrumentation.stainless._clients import underlying_client

        if not isinstance(client, SyncAPIClient | AsyncAPIClient):
            return None
        return underlying_client(client, "messages")
