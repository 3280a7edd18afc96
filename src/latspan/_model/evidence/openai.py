"""
OpenAI and Azure OpenAI: the header ``openai-processing-ms``.

The header is the time of processing the request, in milliseconds; Azure's has decimals. For a
response that is not streamed, that is the total time of the server. A stream sends its head before
its tokens, so for a stream it is the time to the head. Servers with OpenAI's API send the header
too, for example llama-cpp-python, and LiteLLM passes it on as
``llm_provider-openai-processing-ms``.

Not tested against the real servers.
Source: OpenAI API reference, "Debugging requests"; recorded responses of Azure.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import in_head, in_header, ns
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

_HEADER: Final = "openai-processing-ms"
_BEHIND_LITELLM: Final = f"llm_provider-{_HEADER}"

MARKERS: Final = frozenset({_HEADER, _BEHIND_LITELLM})
"""Body fields and headers; a response with the time of processing has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the time of processing, or ``None`` if the header does not report it."""
    total_ms = in_header(response, _HEADER)
    if total_ms is None:
        total_ms = in_header(response, _BEHIND_LITELLM)
    if total_ms is None:
        return None
    head_ns, total_ns = in_head(response, ns(total_ms, "ms"))
    return ReportedTimings(
        system="openai", head_ns=head_ns, total_ns=total_ns, raw={_HEADER: total_ms}
    )
