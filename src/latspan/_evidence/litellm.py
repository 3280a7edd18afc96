"""
LiteLLM's proxy: its headers, in milliseconds.

``x-litellm-overhead-duration-ms`` is what the proxy took for itself: its total less the call of
the provider, so before that call and after it. ``x-litellm-response-duration-ms`` is the total,
from when it received the request; of a stream, up to the head. Where the proxy does not know one
it says so in a word, which is no number. Its wait for a process that takes the request is in
neither.

Could not be exercised against the real proxy.
Source: LiteLLM documentation, "Response Headers" and "Latency Overhead Troubleshooting"; LiteLLM,
``litellm_core_utils/llm_response_utils/response_metadata.py``.
"""

from __future__ import annotations

from typing import Final

from latspan._evidence._numbers import in_head, in_header, ns
from latspan._segments import ReportedTimings
from latspan._wire import Answer

__all__ = ["TOLD_BY", "read"]

_OVERHEAD: Final = "x-litellm-overhead-duration-ms"
_TOTAL: Final = "x-litellm-response-duration-ms"

TOLD_BY: Final = frozenset({_OVERHEAD, _TOTAL})
"""What an answer of its has at least one of: fields of a body, or headers."""


def read(answer: Answer) -> ReportedTimings | None:
    """Return the proxy's times, or ``None`` where the headers tell none."""
    said = {
        name: value
        for name in (_OVERHEAD, _TOTAL)
        if (value := in_header(answer, name)) is not None
    }
    if not said:
        return None
    head_ns, total_ns = in_head(answer, ns(said.get(_TOTAL), "ms"))
    return ReportedTimings(
        system="litellm",
        gateway_ns=ns(said.get(_OVERHEAD), "ms"),
        head_ns=head_ns,
        total_ns=total_ns,
        raw=said,
    )
