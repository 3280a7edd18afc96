"""
A live request: the one junction of timeline, spans and recorder.

On the caller's thread it stamps and appends. When it has ended its observations go to the
runtime's ``settle``, and what follows, evidence, timeline, spans and record, happens there.
"""

from __future__ import annotations

from latspan._request._call import LiveCall, abandon_open_calls, active_call
from latspan._request._context import ambient_attributes, with_attribute_of, with_attributes
from latspan._request._work import Known, LiveWork, active_work, is_left_over

__all__ = [
    "Known",
    "LiveCall",
    "LiveWork",
    "abandon_open_calls",
    "active_call",
    "active_work",
    "ambient_attributes",
    "is_left_over",
    "with_attribute_of",
    "with_attributes",
]
