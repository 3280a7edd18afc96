"""
Timings that servers and gateways report of themselves: one small adapter a source.

An adapter is a function from an :class:`~latspan._wire.Answer` to
:class:`~latspan._segments.ReportedTimings`, or ``None`` where the answer is not from its system.
It reads, it does not judge: whether the reported parts fit what the client measured is decided in
one place for all sources. To add one, write ``evidence/<system>.py`` and list it here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from latspan._evidence import (
    bedrock,
    cerebras,
    envoy,
    fireworks,
    groq,
    litellm,
    llama_cpp,
    ollama,
    openai,
    server_timing,
    sglang,
    tgi,
    vllm,
)
from latspan._segments import ReportedTimings
from latspan._wire import Answer

__all__ = ["GATEWAYS", "SERVERS", "Adapter", "Source", "read"]

Adapter = Callable[[Answer], ReportedTimings | None]


class Source(NamedTuple):
    """
    Who says something of its own time.

    Args:
        told_by: What an answer of its has at least one of: fields of a body, or headers.
        read: Reads it.
    """

    told_by: frozenset[str]
    read: Adapter


SERVERS: Final = tuple(
    Source(each.TOLD_BY, each.read)
    for each in (
        llama_cpp,
        vllm,
        groq,
        cerebras,
        ollama,
        sglang,
        bedrock,
        fireworks,
        tgi,
        server_timing,
        openai,
    )
)
"""
Model servers. Asked in this order; the first that recognises an answer speaks for it, so who
tells the parts comes before who tells a total.
"""

GATEWAYS: Final = (
    Source(server_timing.TOLD_BY, server_timing.read_gateway),
    Source(litellm.TOLD_BY, litellm.read),
    Source(envoy.TOLD_BY, envoy.read),
)
"""What stands before a model server. Asked likewise, and beside it."""

_ANYTHING: Final = frozenset[str]().union(*(each.told_by for each in (*SERVERS, *GATEWAYS)))


def read(answer: Answer) -> tuple[ReportedTimings, ...]:
    """Return what was said of the answer's time, from the outside in; empty if nothing known."""
    # Most answers say nothing, and of those that do most are of one source.
    there = _ANYTHING.intersection(chain(answer.headers, *answer.bodies))
    if not there:
        return ()
    said = [_first(adapters, answer) for adapters in _adapters_for(there)]
    return tuple([reported for reported in said if reported is not None])


# Answers of one server have the same fields; those that somebody makes up are not all kept.
@lru_cache(maxsize=128)
def _adapters_for(there: frozenset[str]) -> tuple[tuple[Adapter, ...], ...]:
    """Return who is asked about an answer that has these of all fields, gateways first."""
    return tuple(
        tuple(adapter for told_by, adapter in sources if not told_by.isdisjoint(there))
        for sources in (GATEWAYS, SERVERS)
    )


def _first(adapters: tuple[Adapter, ...], answer: Answer) -> ReportedTimings | None:
    for adapter in adapters:
        reported = adapter(answer)
        if reported is not None:
            return reported
    return None
