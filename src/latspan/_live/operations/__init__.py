"""
Open requests, stages and calls: the only code that combines timeline, spans and recorder.

While one is open, the caller's thread only reads clocks and appends. At its end, the observations
are passed to the runtime's ``enqueue``. The job reads the evidence, and creates the timeline, the
spans and the record.
"""

from __future__ import annotations

from latspan._live.operations._annotations import Annotations, Generation, Known
from latspan._live.operations._call import ModelCall
from latspan._live.operations._context import (
    Entered,
    ambient_attributes,
    inside,
    propagates_here,
    with_attribute_of,
    with_attributes,
)
from latspan._live.operations._enclosing import active_scope, enclosing_scopes, is_left_over
from latspan._live.operations._handoff import Handoff, attached, handoff_here
from latspan._live.operations._http_exchange import HttpExchange
from latspan._live.operations._open_operations import (
    abandon_open_operations,
    active_operation,
    end_left_operations,
)
from latspan._live.operations._operation import Operation
from latspan._live.operations._own_requests import REDIRECTS, SentRequest
from latspan._live.operations._scope import LocalScope, request_around

__all__ = [
    "REDIRECTS",
    "Annotations",
    "Entered",
    "Generation",
    "Handoff",
    "HttpExchange",
    "Known",
    "LocalScope",
    "ModelCall",
    "Operation",
    "SentRequest",
    "abandon_open_operations",
    "active_operation",
    "active_scope",
    "ambient_attributes",
    "attached",
    "enclosing_scopes",
    "end_left_operations",
    "handoff_here",
    "inside",
    "is_left_over",
    "propagates_here",
    "request_around",
    "with_attribute_of",
    "with_attributes",
]
