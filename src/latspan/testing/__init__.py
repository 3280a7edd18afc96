"""
Tools for tests: a scripted model server, and access to what latspan recorded.

Everything is imported on first use, so a test suite that only loads this package does not pay for
a client library or OpenTelemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._lazy import lazy_getattr

if TYPE_CHECKING:
    from latspan._clock import ManualClock
    from latspan._recording import RequestRecord
    from latspan.testing._capture import Captured, capture
    from latspan.testing._fixture import LatspanCapture
    from latspan.testing._llama import LlamaServer
    from latspan.testing._script import Ending, PayloadPart, Script, ServerFlavor, Step
    from latspan.testing._served import ServedRequest, WriteRecord
    from latspan.testing._server import ScriptedServer
    from latspan.testing._span_dicts import spans_as_dict
    from latspan.testing._transport import scripted_transport

__all__ = [
    "Captured",
    "Ending",
    "LatspanCapture",
    "LlamaServer",
    "ManualClock",
    "PayloadPart",
    "RequestRecord",
    "Script",
    "ScriptedServer",
    "ServedRequest",
    "ServerFlavor",
    "Step",
    "WriteRecord",
    "capture",
    "scripted_transport",
    "spans_as_dict",
]

_HOMES: Final = {
    "LatspanCapture": "_fixture",
    "ManualClock": "latspan._clock",
    "RequestRecord": "latspan._recording",
    "Captured": "_capture",
    "ServerFlavor": "_script",
    "Ending": "_script",
    "LlamaServer": "_llama",
    "PayloadPart": "_script",
    "Script": "_script",
    "ScriptedServer": "_server",
    "ServedRequest": "_served",
    "Step": "_script",
    "WriteRecord": "_served",
    "capture": "_capture",
    "scripted_transport": "_transport",
    "spans_as_dict": "_span_dicts",
}

__getattr__ = lazy_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
