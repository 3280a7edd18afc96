"""
Hook on requests that reach the client without a patched method of a resource.

An application may have stored a method before the SDK was instrumented: in a variable, or in
``with_raw_response``, which stores the methods of its resource at its first use. Such a method is
not the patched one, but it still sends through the ``request`` method of its client, which is
patched too. Inside a call that a patched method has opened, the hook does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from latspan.integrations import Call, MethodWrappers, requested_body, unless_inside, with_names
from latspan_openai._endpoints import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, Endpoint

__all__ = ["async_request", "request"]

_BY_POSITION: Final = ("cast_to", "options")
"""The arguments of a client's ``request`` that the client's other methods pass by position."""

_BY_PATH: Final = {
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    "/completions": COMPLETIONS,
    "/embeddings": EMBEDDINGS,
}


def request(wrappers: MethodWrappers) -> Callable[..., Any]:
    """Return the replacement for ``SyncAPIClient.request``."""
    return unless_inside(with_names(wrappers.wrapper(_open, _with_usage_requested), *_BY_POSITION))


def async_request(wrappers: MethodWrappers) -> Callable[..., Any]:
    """Return the replacement for ``AsyncAPIClient.request``."""
    return unless_inside(
        with_names(wrappers.async_wrapper(_open, _with_usage_requested), *_BY_POSITION)
    )


def _open(client: Any, kwargs: Mapping[str, Any]) -> Call | None:
    endpoint = _endpoint_of(kwargs)
    return None if endpoint is None else endpoint.open_for(client, _request_of(kwargs))


def _with_usage_requested(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``request``, changed to request token counts for the stream."""
    endpoint = _endpoint_of(kwargs)
    if endpoint is None or endpoint.rewrite_request is None:
        return kwargs
    request = _request_of(kwargs)
    more = endpoint.rewrite_request(request)
    options = kwargs["options"]
    sent: object = options.json_data
    if more is request or not isinstance(sent, Mapping):
        return kwargs
    body = {**cast("Mapping[str, Any]", sent), **more}
    return {**kwargs, "options": options.model_copy(update={"json_data": body})}


def _endpoint_of(kwargs: Mapping[str, Any]) -> Endpoint | None:
    options = kwargs.get("options")
    if getattr(options, "method", None) != "post":
        return None
    return _BY_PATH.get(str(getattr(options, "url", "")).partition("?")[0])


def _request_of(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    request = dict(requested_body(kwargs["options"]))
    if kwargs.get("stream"):
        request["stream"] = True
    return request
