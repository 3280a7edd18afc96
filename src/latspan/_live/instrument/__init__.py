"""
Public instrumentation API for integrations and for applications that instrument their own code.

An SDK integration opens a call and tracks its stream; a transport integration adds attempts to
the open call, or opens a standalone exchange if no call is open. A client library on top of an
HTTP library therefore counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan._base.internal_errors import handle_internal_errors, log_internal_error
from latspan._base.lazy import lazy_getattr
from latspan._live.instrument._decorators import ScopeManager, named_scope, scope_entering
from latspan._live.instrument._discovery import (
    DISABLING_VARIABLES,
    Integration,
    IntegrationStatus,
    auto_instrument,
    disabled_by,
    instrumented,
    instrumented_libraries,
    integrations,
    loaded_clients,
    uninstrument,
)
from latspan._live.instrument._manual import OpenScope, OperationScope, attributes, request
from latspan._live.instrument._outcomes import error_type_of, outcome_of, outcome_of_status
from latspan._live.instrument._traced import traced

if TYPE_CHECKING:
    from latspan._live.instrument._bodies import (
        BODIES_ARE_FOLLOWED,
        BodyTracker,
        body_tracker,
        track_body,
    )
    from latspan._live.instrument._body_iterators import aiter_tracked_body, iter_tracked_body
    from latspan._live.instrument._close_hooks import aclosing_of, closing_of
    from latspan._live.instrument._coexistence import (
        has_global_provider,
        is_instrumented,
        track_inside,
    )
    from latspan._live.instrument._exchange import Exchange
    from latspan._live.instrument._first_streams import aiter_watched, iter_watched
    from latspan._live.instrument._hooks import (
        Call,
        is_switched_on,
        open_call,
        patch_request_builder,
        requests_usage,
    )
    from latspan._live.instrument._instrumentor import Instrumentor
    from latspan._live.instrument._methods import (
        ModelMethod,
        patch_method,
        unless_inside,
        with_names,
    )
    from latspan._live.instrument._patching import Patches, Wrapper, impersonate
    from latspan._live.instrument._responses import track_http_response, track_response
    from latspan._live.instrument._served import ServerRequest
    from latspan._live.instrument._stream_classes import (
        patch_stream,
        patch_stream_holder,
        track_stream,
    )
    from latspan._live.instrument._streams import StreamTracker, aiter_tracked, iter_tracked
    from latspan._live.instrument._timings import ServerTimingHeader
    from latspan._live.instrument._urls import is_excluded, port_of, sent_request
    from latspan._live.instrument._warm import WarmupResult, warm
    from latspan._live.instrument._warmer import UnderlyingClient, Warmer
    from latspan._live.operations import SentRequest, inside
    from latspan._model.timeline import Attempt

__all__ = [
    "BODIES_ARE_FOLLOWED",
    "DISABLING_VARIABLES",
    "Attempt",
    "BodyTracker",
    "Call",
    "Exchange",
    "Instrumentor",
    "Integration",
    "IntegrationStatus",
    "ModelMethod",
    "OpenScope",
    "OperationScope",
    "Patches",
    "ScopeManager",
    "SentRequest",
    "ServerRequest",
    "ServerTimingHeader",
    "StreamTracker",
    "UnderlyingClient",
    "Warmer",
    "WarmupResult",
    "Wrapper",
    "aclosing_of",
    "aiter_tracked",
    "aiter_tracked_body",
    "aiter_watched",
    "attributes",
    "auto_instrument",
    "body_tracker",
    "closing_of",
    "disabled_by",
    "error_type_of",
    "handle_internal_errors",
    "has_global_provider",
    "impersonate",
    "inside",
    "instrumented",
    "instrumented_libraries",
    "integrations",
    "is_excluded",
    "is_instrumented",
    "is_switched_on",
    "iter_tracked",
    "iter_tracked_body",
    "iter_watched",
    "loaded_clients",
    "log_internal_error",
    "named_scope",
    "open_call",
    "outcome_of",
    "outcome_of_status",
    "patch_method",
    "patch_request_builder",
    "patch_stream",
    "patch_stream_holder",
    "port_of",
    "request",
    "requests_usage",
    "scope_entering",
    "sent_request",
    "traced",
    "track_body",
    "track_http_response",
    "track_inside",
    "track_response",
    "track_stream",
    "uninstrument",
    "unless_inside",
    "warm",
    "with_names",
]

# These names are imported on first access, because they import the operations, wrapt and
# OpenTelemetry. An application that only decorates its own functions needs none of these until it
# is configured.
_FOR_INTEGRATIONS = {
    "Attempt": "latspan._model.timeline",
    "BODIES_ARE_FOLLOWED": "_bodies",
    "BodyTracker": "_bodies",
    "Call": "_hooks",
    "Exchange": "_exchange",
    "Instrumentor": "_instrumentor",
    "ModelMethod": "_methods",
    "Patches": "_patching",
    "SentRequest": "latspan._live.operations",
    "ServerRequest": "_served",
    "ServerTimingHeader": "_timings",
    "StreamTracker": "_streams",
    "UnderlyingClient": "_warmer",
    "Warmer": "_warmer",
    "WarmupResult": "_warm",
    "Wrapper": "_patching",
    "aclosing_of": "_close_hooks",
    "aiter_tracked": "_streams",
    "aiter_tracked_body": "_body_iterators",
    "aiter_watched": "_first_streams",
    "requests_usage": "_hooks",
    "body_tracker": "_bodies",
    "closing_of": "_close_hooks",
    "impersonate": "_patching",
    "inside": "latspan._live.operations",
    "is_excluded": "_urls",
    "has_global_provider": "_coexistence",
    "is_instrumented": "_coexistence",
    "is_switched_on": "_hooks",
    "iter_tracked": "_streams",
    "iter_tracked_body": "_body_iterators",
    "iter_watched": "_first_streams",
    "open_call": "_hooks",
    "patch_method": "_methods",
    "patch_request_builder": "_hooks",
    "patch_stream": "_stream_classes",
    "patch_stream_holder": "_stream_classes",
    "track_http_response": "_responses",
    "track_response": "_responses",
    "port_of": "_urls",
    "sent_request": "_urls",
    "track_body": "_bodies",
    "track_inside": "_coexistence",
    "track_stream": "_stream_classes",
    "unless_inside": "_methods",
    "warm": "_warm",
    "with_names": "_methods",
}

__getattr__ = lazy_getattr(__name__, _FOR_INTEGRATIONS)
