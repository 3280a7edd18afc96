"""
Conversion of a finished timeline to spans, and the interface through which they are exported.

A *sink* opens and ends spans: through an application's provider, with the OpenTelemetry API, or in
latspan's private provider. This package does not depend on which of them is in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._base.lazy import lazy_getattr
from latspan._live.otel.spans._api import ApiSink, start_and_end
from latspan._live.otel.spans._encodable import (
    MAX_TEXT_LENGTH,
    SPAN_BYTES,
    encodable,
    encodable_data,
    measured,
    size_of_attributes,
    size_of_parts,
    size_of_text,
)
from latspan._live.otel.spans._enriching import EnrichingSink
from latspan._live.otel.spans._given import given_attributes
from latspan._live.otel.spans._span import (
    AttributeValue,
    ChildSpan,
    DecidedAtStart,
    EndChildren,
    FinishedSpan,
    NoSink,
    OpenSpan,
    SpanSink,
)

if TYPE_CHECKING:
    from latspan._live.otel.spans._attributes import (
        gen_ai_latency,
        latency_attributes,
        metric_attributes,
        only_missing,
        spanless_attributes,
        token_attributes,
    )
    from latspan._live.otel.spans._children import attempt_spans, segment_spans
    from latspan._live.otel.spans._response_headers import header_attributes, is_recordable

__all__ = [
    "MAX_TEXT_LENGTH",
    "SPAN_BYTES",
    "ApiSink",
    "AttributeValue",
    "ChildSpan",
    "DecidedAtStart",
    "EndChildren",
    "EnrichingSink",
    "FinishedSpan",
    "NoSink",
    "OpenSpan",
    "SpanSink",
    "attempt_spans",
    "encodable",
    "encodable_data",
    "gen_ai_latency",
    "given_attributes",
    "header_attributes",
    "is_recordable",
    "latency_attributes",
    "measured",
    "metric_attributes",
    "only_missing",
    "segment_spans",
    "size_of_attributes",
    "size_of_parts",
    "size_of_text",
    "spanless_attributes",
    "start_and_end",
    "token_attributes",
]

# These are needed only at the end of a call or request, and are loaded then.
_ON_FIRST_USE: Final = {
    "attempt_spans": "_children",
    "gen_ai_latency": "_attributes",
    "header_attributes": "_response_headers",
    "is_recordable": "_response_headers",
    "latency_attributes": "_attributes",
    "metric_attributes": "_attributes",
    "only_missing": "_attributes",
    "segment_spans": "_children",
    "spanless_attributes": "_attributes",
    "token_attributes": "_attributes",
}

__getattr__ = lazy_getattr(__name__, _ON_FIRST_USE)
