"""
Public instrumentation API for integrations and for applications that instrument their own code.

An SDK integration opens a call and tracks its stream; a transport integration adds attempts to
the open call, or opens a standalone exchange if no call is open. A client library on top of an
HTTP library therefore counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan._instrument._decorators import ScopeManager
from latspan._instrument._discovery import (
    Integration,
    IntegrationStatus,
    auto_instrument,
    disabled_by,
    instrumented,
    integrations,
    uninstrument,
)
from latspan._instrument._manual import OperationScope, attributes, request
from latspan._instrument._outcomes import error_type_of, outcome_of, outcome_of_status
from latspan._instrument._traced import traced
from latspan._lazy import lazy_getattr
from latspan._runtime import handle_internal_errors, log_internal_error

if TYPE_CHECKING:
    from latspan._instrument._bodies import (
        BODIES_ARE_FOLLOWED,
        BodyTracker,
        body_tracker,
        track_body,
    )
    from latspan._instrument._body_iterators import aiter_tracked_body, iter_tracked_body
    from latspan._instrument._call import Call
    from latspan._instrument._close_hooks import aclosing_of, closing_of
    from latspan._instrument._coexistence import is_instrumented
    from latspan._instrument._coroutines import impersonate
    from latspan._instrument._exchange import Exchange
    from latspan._instrument._excluded_urls import is_excluded
    from latspan._instrument._hooks import (
        Attempt,
        SentRequest,
        active_call,
        asks_for_usage,
        inside,
        is_switched_on,
        open_call,
        patch_request_builder,
    )
    from latspan._instrument._instrumentor import Instrumentor
    from latspan._instrument._method_wrappers import MethodWrappers, unless_inside, with_names
    from latspan._instrument._patching import Patches
    from latspan._instrument._served import ServerRequest
    from latspan._instrument._server_address import body_asked, port_of, sent_request, server_of
    from latspan._instrument._stream_classes import (
        patch_stream_classes,
        patch_stream_wrappers,
        track_stream,
    )
    from latspan._instrument._streams import StreamTracker, aiter_tracked, iter_tracked
    from latspan._instrument._timings import ServerTimingHeader
    from latspan._instrument._warm import WarmupResult, warm
    from latspan._instrument._warmer import UnderlyingClient, Warmer

__all__ = [
    "BODIES_ARE_FOLLOWED",
    "Attempt",
    "BodyTracker",
    "Call",
    "Exchange",
    "Instrumentor",
    "Integration",
    "IntegrationStatus",
    "MethodWrappers",
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
    "aclosing_of",
    "active_call",
    "aiter_tracked",
    "aiter_tracked_body",
    "asks_for_usage",
    "attributes",
    "auto_instrument",
    "body_asked",
    "body_tracker",
    "closing_of",
    "disabled_by",
    "error_type_of",
    "handle_internal_errors",
    "impersonate",
    "inside",
    "instrumented",
    "integrations",
    "is_excluded",
    "is_instrumented",
    "is_switched_on",
    "iter_tracked",
    "iter_tracked_body",
    "log_internal_error",
    "open_call",
    "outcome_of",
    "outcome_of_status",
    "patch_request_builder",
    "patch_stream_classes",
    "patch_stream_wrappers",
    "port_of",
    "request",
    "sent_request",
    "server_of",
    "traced",
    "track_body",
    "track_stream",
    "uninstrument",
    "unless_inside",
    "warm",
    "with_names",
]

# These names are imported on first access: they import the operations, wrapt and OpenTelemetry,
# and an application that only decorates its own functions needs none of those until it is
# configured.
_FOR_INTEGRATIONS = {
    "MethodWrappers": "_method_wrappers",
    "BODIES_ARE_FOLLOWED": "_bodies",
    "Attempt": "_hooks",
    "BodyTracker": "_bodies",
    "UnderlyingClient": "_warmer",
    "Call": "_call",
    "Exchange": "_exchange",
    "Instrumentor": "_instrumentor",
    "Patches": "_patching",
    "SentRequest": "_hooks",
    "ServerRequest": "_served",
    "ServerTimingHeader": "_timings",
    "WarmupResult": "_warm",
    "Warmer": "_warmer",
    "StreamTracker": "_streams",
    "active_call": "_hooks",
    "aiter_tracked": "_streams",
    "aiter_tracked_body": "_body_iterators",
    "asks_for_usage": "_hooks",
    "body_asked": "_server_address",
    "body_tracker": "_bodies",
    "track_stream": "_stream_classes",
    "inside": "_hooks",
    "is_excluded": "_excluded_urls",
    "is_instrumented": "_coexistence",
    "is_switched_on": "_hooks",
    "iter_tracked": "_streams",
    "iter_tracked_body": "_body_iterators",
    "open_call": "_hooks",
    "patch_request_builder": "_hooks",
    "patch_stream_classes": "_stream_classes",
    "patch_stream_wrappers": "_stream_classes",
    "sent_request": "_server_address",
    "server_of": "_server_address",
    "aclosing_of": "_close_hooks",
    "closing_of": "_close_hooks",
    "port_of": "_server_address",
    "impersonate": "_coroutines",
    "warm": "_warm",
    "track_body": "_bodies",
    "unless_inside": "_method_wrappers",
    "with_names": "_method_wrappers",
}

__getattr__ = lazy_getattr(__name__, _FOR_INTEGRATIONS)
