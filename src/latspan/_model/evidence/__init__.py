"""
Timings that servers and gateways report about themselves, with one small adapter per source.

An adapter is a function that takes an :class:`~latspan._model.wire.ResponseMetadata` and returns
:class:`~latspan._model.segments.ReportedTimings`, or ``None`` if the response is not from its
system. An adapter only reads. Another module checks, for all sources, if the reported parts fit the
times that the client measured. To add a source, write ``evidence/<system>.py`` and list it here.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import Final

from latspan._model.evidence import (
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
from latspan._model.evidence._sources import Adapter, EvidenceSource, installed_sources
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

__all__ = ["GATEWAYS", "SERVERS", "Adapter", "EvidenceSource", "read"]

_INSTALLED: Final = installed_sources()

SERVERS: Final = tuple(each for each in _INSTALLED if not each.is_gateway) + tuple(
    EvidenceSource(each.MARKERS, each.read)
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
Model servers, in the order in which their adapters are tried.

The first adapter that recognises a response is used, so systems that report the parts come before
systems that report only a total, and the sources of other distributions before latspan's own.
"""

GATEWAYS: Final = (
    *(each for each in _INSTALLED if each.is_gateway),
    EvidenceSource(server_timing.MARKERS, server_timing.read_gateway, is_gateway=True),
    EvidenceSource(litellm.MARKERS, litellm.read, is_gateway=True),
    EvidenceSource(envoy.MARKERS, envoy.read, is_gateway=True),
)
"""Gateways in front of a model server, tried in the same way and in addition to ``SERVERS``."""

_ANYTHING: Final = frozenset[str]().union(*(each.markers for each in (*SERVERS, *GATEWAYS)))


def read(response: ResponseMetadata) -> tuple[ReportedTimings, ...]:
    """Return the reported timings of a response, gateway first; empty if there are none."""
    # Most responses report no timings, and most of the others have one source.
    there = _ANYTHING.intersection(chain(response.headers, *response.bodies))
    if not there:
        return ()
    reports: list[ReportedTimings] = []
    for adapters in _adapters_for(there):
        for adapter in adapters:
            reported = adapter(response)
            if reported is not None:
                reports.append(reported)
                break
    return tuple(reports)


# Responses of one server have the same fields, so few combinations recur. The limit bounds the
# memory if a server sends arbitrary fields.
@lru_cache(maxsize=128)
def _adapters_for(there: frozenset[str]) -> tuple[tuple[Adapter, ...], ...]:
    """Return the adapters to try for a response with these fields, those of gateways first."""
    return tuple(
        tuple(each.read for each in sources if not each.markers.isdisjoint(there))
        for sources in (GATEWAYS, SERVERS)
    )
