"""
Patches of the methods that send a request, and of raw responses.

A method returns a raw response if it is called on ``with_raw_response`` or
``with_streaming_response``. The SDK marks such a request with a header of its own. The body of a
raw response is read by the application, so the call ends with the body.

Every method of a resource sends through the ``request`` method of its client. An application may
have stored a method before the SDK was instrumented: in a variable, or in ``with_raw_response``,
which stores the methods of its resource at its first use. Such a method is not the patched one, so
``request`` is patched too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from latspan._live.instrument import (
    ModelMethod,
    patch_request_builder,
    patch_stream_holder,
    track_http_response,
    unless_inside,
    with_names,
)
from latspan.integrations import Call, Patches, patch_stream, track_response
from latspan_instrumentation.stainless._own_tracing import (
    hide_current_span,
    hide_current_span_async,
)

_RAW: Final = "x-stainless-raw-response"
_INSIDE_WITH: Final = "stream"
"""Value of the header ``_RAW`` for raw responses that are only available inside ``with``."""

_BY_POSITION: Final = ("cast_to", "options")
"""The arguments of a client's ``request`` that the client's other methods pass by position."""

_OpenCall = Callable[[Any, Mapping[str, Any]], Call | None]
_RewriteRequest = Callable[[dict[str, Any]], dict[str, Any]]


def patch_client(
    patches: Patches,
    package: str,
    open_call: _OpenCall,
    rewrite_request: _RewriteRequest | None = None,
    *,
    inside_methods: bool = False,
) -> None:
    """
    Patch the ``request`` methods of an SDK's clients, and the streams that they return.

    Args:
        patches: Applies and removes the patches.
        package: Import package of the SDK.
        open_call: Opens the calls.
        rewrite_request: As for :func:`patch_sdk_method`.
        inside_methods: Whether patched methods of resources open the calls of nearly all requests,
            which ``request`` then leaves alone.
    """
    sdk, clients = import_module(package), import_module(f"{package}._base_client")
    method = _method(open_call, rewrite_request)
    for cls, hide in (
        (clients.SyncAPIClient, hide_current_span),
        (clients.AsyncAPIClient, hide_current_span_async),
    ):
        wrapper = with_names(_hiding(method.wrapper(cls.request), hide), *_BY_POSITION)
        patches.wrap_innermost(
            cls, "request", unless_inside(wrapper) if inside_methods else wrapper
        )
    patch_request_builder(patches, clients.BaseClient)
    patch_stream(patches, sdk.Stream)
    patch_stream(patches, sdk.AsyncStream)


def patch_sdk_method(
    patches: Patches,
    cls: type,
    name: str,
    open_call: _OpenCall,
    rewrite_request: _RewriteRequest | None = None,
    *,
    positional: tuple[str, ...] = (),
) -> None:
    """
    Patch a method of a resource, synchronous or asynchronous.

    Args:
        patches: Applies and removes the patch.
        cls: Class of the resource.
        name: Name of the method.
        open_call: Opens the calls.
        rewrite_request: Returns the keyword arguments to send if ``request_stream_usage`` is
            configured; if not given, the caller's own arguments are sent.
        positional: Names of the arguments that may be passed by position.
    """
    wrapper = _method(open_call, rewrite_request).wrapper(getattr(cls, name, None))
    patches.wrap_innermost(cls, name, with_names(wrapper, *positional) if positional else wrapper)


def patch_helpers(patches: Patches, *classes: type) -> None:
    """Hook the ``close`` of helper classes that hold a stream and close its response directly."""
    for cls in classes:
        patch_stream_holder(patches, cls, "_raw_stream")


def _method(open_call: _OpenCall, rewrite_request: _RewriteRequest | None) -> ModelMethod:
    return ModelMethod(
        open_call,
        respond=_respond,
        rewrite_request=rewrite_request,
        # Of a response that the SDK cannot parse, because it is cut off.
        response_in=lambda error: getattr(error, "completion", None),
    )


def _hiding(
    wrapper: Callable[..., Any], hide: Callable[[Any, Callable[..., Any]], Callable[..., Any]]
) -> Callable[..., Any]:
    def call_request(
        wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return wrapper(hide(instance, wrapped), instance, args, kwargs)

    return call_request


def _respond(call: Call, result: Any) -> Any:
    """Track the body of a raw response; any other result as every integration does."""
    response = getattr(result, "http_response", None)
    if response is None:
        return track_response(call, result)
    is_entered = response.request.headers.get(_RAW) == _INSIDE_WITH
    track_http_response(call, response, is_entered=is_entered)
    return result
