"""
Timings that servers and gateways report of themselves: one small adapter a source.

An adapter is a function from an :class:`~latspan.wire.Answer` to
:class:`~latspan.segments.ReportedTimings`, or ``None`` where the answer is not from its system.
It reads, it does not judge: whether the reported parts fit what the client measured is decided in
one place for all sources. To add one, write ``evidence/<system>.py`` and list it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from latspan.evidence.bedrock import read as _read_bedrock
from latspan.evidence.cerebras import read as _read_cerebras
from latspan.evidence.envoy import read as _read_envoy
from latspan.evidence.fireworks import read as _read_fireworks
from latspan.evidence.groq import read as _read_groq
from latspan.evidence.litellm import read as _read_litellm
from latspan.evidence.llama_cpp import read as _read_llama_cpp
from latspan.evidence.ollama import read as _read_ollama
from latspan.evidence.openai import read as _read_openai
from latspan.evidence.server_timing import read as _read_server_timing
from latspan.evidence.server_timing import read_gateway as _read_gateway
from latspan.evidence.sglang import read as _read_sglang
from latspan.evidence.tgi import read as _read_tgi
from latspan.evidence.vllm import read as _read_vllm
from latspan.segments import ReportedTimings
from latspan.wire import Answer

__all__ = ["ADAPTERS", "GATEWAYS", "Adapter", "read"]

Adapter = Callable[[Answer], ReportedTimings | None]

ADAPTERS: Final[tuple[Adapter, ...]] = (
    _read_llama_cpp,
    _read_vllm,
    _read_groq,
    _read_cerebras,
    _read_ollama,
    _read_sglang,
    _read_bedrock,
    _read_fireworks,
    _read_tgi,
    _read_server_timing,
    _read_openai,
)
"""
Of model servers. Asked in this order; the first that recognises an answer speaks for it, so who
tells the parts comes before who tells a total.
"""

GATEWAYS: Final[tuple[Adapter, ...]] = (_read_gateway, _read_litellm, _read_envoy)
"""Of what stands before a model server. Asked likewise, and beside it."""


def read(answer: Answer) -> tuple[ReportedTimings, ...]:
    """Return what was said of the answer's time, from the outside in; empty if nothing known."""
    said = (_first(adapters, answer) for adapters in (GATEWAYS, ADAPTERS))
    return tuple(reported for reported in said if reported is not None)


def _first(adapters: tuple[Adapter, ...], answer: Answer) -> ReportedTimings | None:
    for adapter in adapters:
        reported = adapter(answer)
        if reported is not None:
            return reported
    return None
