"""
The public hooks: what integrations build on, and how people instrument their own code.

An SDK integration opens a call and follows its stream; a transport integration adds attempts to
the call that is open, or opens an exchange of its own where there is none. So a client library
over an HTTP library counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan._lazy import fetched_when_used
from latspan._runtime import guarded, report_bug
from latspan.instrument._by_hand import WorkScope, attributes, request
from latspan.instrument._discovery import (
    Integration,
    Standing,
    auto_instrument,
    disabled_by,
    instrumented,
    integrations,
    uninstrument,
)
from latspan.instrument._outcomes import error_type_of, outcome_of, outcome_of_status
from latspan.instrument._traced import traced
from latspan.instrument._wrapping import Scope

if TYPE_CHECKING:
    from latspan.instrument._answers import Answers, unless_inside, with_names
    from latspan.instrument._beside import is_on
    from latspan.instrument._bodies import (
        BODIES_ARE_FOLLOWED,
        BodyWatch,
        body_watch,
        watch_body,
    )
    from latspan.instrument._body_iterators import aiterate_body, iterate_body
    from latspan.instrument._clients import body_asked, port_of, sent_request, server_of
    from latspan.instrument._closing import aclosing_of, closing_of
    from latspan.instrument._coroutines import stand_in
    from latspan.instrument._exchange import Exchange
    from latspan.instrument._excluded_urls import is_excluded
    from latspan.instrument._hooks import (
        Attempt,
        Call,
        SentRequest,
        active_call,
        asks_for_usage,
        inside,
        is_switched_on,
        open_call,
        patch_request_builder,
    )
    from latspan.instrument._instrumentor import Instrumentor
    from latspan.instrument._patching import Patches
    from latspan.instrument._served import Served
    from latspan.instrument._stream_classes import (
        follow,
        patch_stream_classes,
        patch_stream_wrappers,
    )
    from latspan.instrument._streams import Watch, aiterate, iterate, watch
    from latspan.instrument._timings import Timings
    from latspan.instrument._warm import Warmed, warm
    from latspan.instrument._warmer import Beneath, Warmer

__all__ = [
    "BODIES_ARE_FOLLOWED",
    "Answers",
    "Attempt",
    "Beneath",
    "BodyWatch",
    "Call",
    "Exchange",
    "Instrumentor",
    "Integration",
    "Patches",
    "Scope",
    "SentRequest",
    "Served",
    "Standing",
    "Timings",
    "Warmed",
    "Warmer",
    "Watch",
    "WorkScope",
    "aclosing_of",
    "active_call",
    "aiterate",
    "aiterate_body",
    "asks_for_usage",
    "attributes",
    "auto_instrument",
    "body_asked",
    "body_watch",
    "closing_of",
    "disabled_by",
    "error_type_of",
    "follow",
    "guarded",
    "inside",
    "instrumented",
    "integrations",
    "is_excluded",
    "is_on",
    "is_switched_on",
    "iterate",
    "iterate_body",
    "open_call",
    "outcome_of",
    "outcome_of_status",
    "patch_request_builder",
    "patch_stream_classes",
    "patch_stream_wrappers",
    "port_of",
    "report_bug",
    "request",
    "sent_request",
    "server_of",
    "stand_in",
    "traced",
    "uninstrument",
    "unless_inside",
    "warm",
    "watch",
    "watch_body",
    "with_names",
]

# What integrations build on brings live requests, wrapt and OpenTelemetry with it; an application
# that only decorates its own functions needs none of them until it is configured.
_FOR_INTEGRATIONS = {
    "Answers": "_answers",
    "BODIES_ARE_FOLLOWED": "_bodies",
    "Attempt": "_hooks",
    "BodyWatch": "_bodies",
    "Beneath": "_warmer",
    "Call": "_hooks",
    "Exchange": "_exchange",
    "Instrumentor": "_instrumentor",
    "Patches": "_patching",
    "SentRequest": "_hooks",
    "Served": "_served",
    "Timings": "_timings",
    "Warmed": "_warm",
    "Warmer": "_warmer",
    "Watch": "_streams",
    "active_call": "_hooks",
    "aiterate": "_streams",
    "aiterate_body": "_body_iterators",
    "asks_for_usage": "_hooks",
    "body_asked": "_clients",
    "body_watch": "_bodies",
    "follow": "_stream_classes",
    "inside": "_hooks",
    "is_excluded": "_excluded_urls",
    "is_on": "_beside",
    "is_switched_on": "_hooks",
    "iterate": "_streams",
    "iterate_body": "_body_iterators",
    "open_call": "_hooks",
    "patch_request_builder": "_hooks",
    "patch_stream_classes": "_stream_classes",
    "patch_stream_wrappers": "_stream_classes",
    "sent_request": "_clients",
    "server_of": "_clients",
    "aclosing_of": "_closing",
    "closing_of": "_closing",
    "port_of": "_clients",
    "stand_in": "_coroutines",
    "warm": "_warm",
    "watch": "_streams",
    "watch_body": "_bodies",
    "unless_inside": "_answers",
    "with_names": "_answers",
}

__getattr__ = fetched_when_used(__name__, _FOR_INTEGRATIONS)
