"""
Instrumentation of the Mistral SDK: chats, code completions, completions of agents and embeddings.

The client, its responses and its streams remain the SDK's own objects.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Final

from latspan.integrations import Instrumentor, Patches, patch_method, patch_stream

if TYPE_CHECKING:
    from latspan_instrumentation.mistralai._calls import ApiEndpoint

__all__ = ["MistralInstrumentor"]

_MISTRAL: Final = "mistralai.client"
_AZURE: Final = "mistralai.azure.client"
_GOOGLE: Final = "mistralai.gcp.client"

_COMPLETE: Final = ("complete", "complete_async")
_STREAM: Final = ("stream", "stream_async")
_CREATE: Final = ("create", "create_async")


class MistralInstrumentor(Instrumentor):
    """Instrumentor that switches the instrumentation of the Mistral SDK on and off."""

    requires = ("mistralai >= 2, < 4",)
    library = (_MISTRAL, _AZURE, _GOOGLE)
    own_scopes: ClassVar = {"mistralai_sdk_tracer": ()}

    def patch(self, patches: Patches) -> None:
        """
        Patch the methods that send a request to a model, and the streams that they return.

        The SDK has three clients that share no module: for Mistral's own API, Azure and Google
        Cloud. Each imports its resources on first use, and they are patched then. ``parse`` and
        ``parse_stream`` call the patched methods.
        """
        from latspan_instrumentation.mistralai._calls import AGENTS, CHAT, EMBEDDINGS, FIM

        for client, resource, endpoint, whole in (
            (_MISTRAL, "Chat", CHAT, _COMPLETE),
            (_MISTRAL, "Fim", FIM, _COMPLETE),
            (_MISTRAL, "Agents", AGENTS, _COMPLETE),
            (_MISTRAL, "Embeddings", EMBEDDINGS, _CREATE),
            (_AZURE, "Chat", CHAT, _COMPLETE),
            (_GOOGLE, "Chat", CHAT, _COMPLETE),
            (_GOOGLE, "Fim", FIM, _COMPLETE),
        ):
            module = f"{client}.{resource.lower()}"
            patch = partial(_patch_resource, patches, module, resource, endpoint, whole)
            patches.when_imported(module, patch)
        for client in self.library:
            module = f"{client}.utils.eventstreaming"
            patches.when_imported(module, partial(_patch_streams, patches, module))


def _patch_resource(
    patches: Patches, module: str, resource: str, endpoint: ApiEndpoint, whole: tuple[str, ...]
) -> None:
    cls = getattr(import_module(module), resource)
    for name in whole:
        patch_method(patches, cls, name, endpoint.open)
    if endpoint.streams:
        for name in _STREAM:
            patch_method(patches, cls, name, endpoint.open_stream)


def _patch_streams(patches: Patches, module: str) -> None:
    home = import_module(module)
    patch_stream(patches, home.EventStream)
    patch_stream(patches, home.EventStreamAsync)
