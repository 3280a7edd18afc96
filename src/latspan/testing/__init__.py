"""
Tools for tests: a scripted model server, and access to what latspan recorded.

Everything is imported on first use, so a test suite that only loads this package does not pay for
a client library or OpenTelemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._base.lazy import lazy_getattr

if TYPE_CHECKING:
    from latspan._base.clock import Clock, ManualClock
    from latspan._model.metrics import MetricValue
    from latspan._model.recording import RequestRecord
    from latspan._model.segments import Segment, SegmentTotal, Side, Step
    from latspan._model.tokens import TokenCounts
    from latspan.testing._capture import Captured, capture
    from latspan.testing._fixture import LatspanCapture
    from latspan.testing._llama import LlamaServer, LogLine
    from latspan.testing._script import Ending, PayloadPart, Script, ScriptStep, ServerFlavor
    from latspan.testing._served import ServedRequest, WriteRecord
    from latspan.testing._server import ScriptedServer
    from latspan.testing._span_dicts import spans_as_dict
    from latspan.testing._transport import scripted_transport

__all__ = [
    "Captured",
    "Clock",
    "Ending",
    "LatspanCapture",
    "LlamaServer",
    "LogLine",
    "ManualClock",
    "MetricValue",
    "PayloadPart",
    "RequestRecord",
    "Script",
    "ScriptStep",
    "ScriptedServer",
    "Segment",
    "SegmentTotal",
    "ServedRequest",
    "ServerFlavor",
    "Side",
    "Step",
    "TokenCounts",
    "WriteRecord",
    "capture",
    "scripted_transport",
    "spans_as_dict",
]

_HOMES: Final = {
    "Captured": "_capture",
    "Clock": "latspan._base.clock",
    "Ending": "_script",
    "LatspanCapture": "_fixture",
    "LlamaServer": "_llama",
    "LogLine": "_llama",
    "ManualClock": "latspan._base.clock",
    "MetricValue": "latspan._model.metrics",
    "PayloadPart": "_script",
    "RequestRecord": "latspan._model.recording",
    "Script": "_script",
    "ScriptStep": "_script",
    "ScriptedServer": "_server",
    "Segment": "latspan._model.segments",
    "SegmentTotal": "latspan._model.segments",
    "ServedRequest": "_served",
    "ServerFlavor": "_script",
    "Side": "latspan._model.segments",
    "Step": "latspan._model.segments",
    "TokenCounts": "latspan._model.tokens",
    "WriteRecord": "_served",
    "capture": "_capture",
    "scripted_transport": "_transport",
    "spans_as_dict": "_span_dicts",
}

__getattr__ = lazy_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
