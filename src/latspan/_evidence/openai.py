"""
OpenAI and Azure OpenAI: the header ``openai-processing-ms``.

It is the time that processing the request took, in milliseconds; Azure's has decimals. Of an
answer in one piece that is all of the server's time. The head of a stream leaves before its
tokens, so of a stream it is the time up to the head. Servers that speak OpenAI's API send it too,
llama-cpp-python for example, and LiteLLM hands it on as ``llm_provider-openai-processing-ms``.

Could not be exercised against the real servers.
Source: OpenAI API reference, "Debugging requests"; recorded answers of Azure's.
"""

from __future__ import annotations

from typing import Final

from latspan._evidence._numbers import in_head, in_header, ns
from latspan._segments import ReportedTimings
from latspan._wire import Answer

__all__ = ["TOLD_BY", "read"]

_HEADER: Final = "openai-processing-ms"
_BEHIND_LITELLM: Final = f"llm_provider-{_HEADER}"

TOLD_BY: Final = frozenset({_HEADER, _BEHIND_LITELLM})
"""What an answer of its has at least one of: fields of a body, or headers."""


def read(answer: Answer) -> ReportedTimings | None:
    """Return the time of processing, or ``None`` where the header does not tell it."""
    said = in_header(answer, _HEADER)
    if said is None:
        said = in_header(answer, _BEHIND_LITELLM)
    if said is None:
        return None
    head_ns, total_ns = in_head(answer, ns(said, "ms"))
    return ReportedTimings(system="openai", head_ns=head_ns, total_ns=total_ns, raw={_HEADER: said})
