"""What every backend is read back with: JSON over HTTP, and OTLP's own JSON."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any, Final

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

__all__ = ["get_json", "traces_from_json"]

_DEADLINE_S: Final = 30.0


def get_json(url: str) -> Any:
    """Return what is there; an answer that is no success raises ``HTTPError``."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=_DEADLINE_S) as answer:
        return json.load(answer)


def traces_from_json(resource_spans: Any) -> TracesData:
    """Return traces from OTLP's JSON, whose ids are in hexadecimal; protobuf's has base64."""
    for resource in resource_spans:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for each in (span, *span.get("links", ())):
                    for key in ("traceId", "spanId", "parentSpanId"):
                        raw = bytes.fromhex(each.get(key, ""))
                        each[key] = base64.b64encode(raw).decode()
    return ParseDict({"resourceSpans": resource_spans}, TracesData())
