"""
A live request: the one junction of timeline, spans and recorder.

On the caller's thread it stamps and appends. When it has ended its observations go to the
runtime's ``settle``, and what follows, evidence, timeline, spans and record, happens there.
"""

from __future__ import annotations

from latspan._request._call import LiveCall
from latspan._request._carried import Carried
from latspan._request._context import (
    Entered,
    ambient_attributes,
    inside,
    propagates_here,
    with_attribute_of,
    with_attributes,
)
from latspan._request._enclosing import active_work, enclosing_works, is_left_over
from latspan._request._open_calls import abandon_open_calls, active_call, settle_left_calls
from latspan._request._own_requests import SentRequest
from latspan._request._remarks import Generation, Remarks
from latspan._request._work import Known, LiveWork

__all__ = [
    "Carried",
    "Entered",
    "Generation",
    "Known",
    "LiveCall",
    "LiveWork",
    "Remarks",
    "SentRequest",
    "abandon_open_calls",
    "active_call",
    "active_work",
    "ambient_attributes",
    "enclosing_works",
    "inside",
    "is_left_over",
    "propagates_here",
    "settle_left_calls",
    "with_attribute_of",
    "with_attributes",
]
