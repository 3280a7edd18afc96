"""Requests that reach the client without a patched method of a resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from latspan.integrations import Call
from latspan_instrumentation.openai._endpoints import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    RESPONSES,
    ApiEndpoint,
)
from latspan_instrumentation.stainless._clients import requested_body

_BY_PATH: Final = {
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    "/completions": COMPLETIONS,
    "/embeddings": EMBEDDINGS,
}


def open_request(client: Any, kwargs: Mapping[str, Any]) -> Call | None:
    """Open a call for a client's ``request``, unless the request is not for a model."""
    endpoint = _endpoint_of(kwargs)
    return None if endpoint is None else endpoint.open_for(client, _request_of(kwargs))


def with_usage_requested(kwargs: dict[str, Any]) -> dict[str, Any]:
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


def _endpoint_of(kwargs: Mapping[str, Any]) -> ApiEndpoint | None:
    options = kwargs.get("options")
    if getattr(options, "method", None) != "post":
        return None
    return _BY_PATH.get(str(getattr(options, "url", "")).partition("?")[0])


def _request_of(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    request = dict(requested_body(kwargs["options"]))
    if kwargs.get("stream"):
        request["stream"] = True
    return request
