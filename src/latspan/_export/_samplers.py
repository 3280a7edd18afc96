"""What is known of the SDK's samplers without asking them about each span."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from opentelemetry.sdk.trace.sampling import (
    Decision,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    StaticSampler,
    TraceIdRatioBased,
)

__all__ = ["Standing", "looks_at_the_trace_alone", "standing"]

_BY_TRACE: Final = frozenset({StaticSampler, TraceIdRatioBased})
"""The SDK's samplers that look at nothing but the trace."""

_BY_PARENT: Final = frozenset({ParentBased, ParentBasedTraceIdRatio})
"""Those that leave it to a sampler for each kind of parent."""

_BELOW: Final = {
    (is_remote, is_sampled): f"_{'remote' if is_remote else 'local'}_parent{said}_sampled"
    for is_remote in (False, True)
    for is_sampled, said in ((False, "_not"), (True, ""))
}
"""Which sampler of such a one decides beneath which parent."""


class Standing(NamedTuple):
    """
    What a sampler says of all spans that begin in one place; ``None`` where that depends on more.

    Args:
        at_root: Whether traces that begin here are sampled.
        below: Whether spans beneath a parent are, by whether it is remote and whether sampled.
    """

    at_root: bool | None
    below: Mapping[tuple[bool, bool], bool | None]


def standing(sampler: Sampler) -> Standing:
    """Return what ``sampler`` says in any case. A subclass of the SDK's may say anything."""
    if type(sampler) not in _BY_PARENT:
        always = _says_always(sampler)
        return Standing(always, dict.fromkeys(_BELOW, always))
    return Standing(
        _says_always(getattr(sampler, "_root", None)),
        {parent: _says_always(getattr(sampler, part, None)) for parent, part in _BELOW.items()},
    )


def _says_always(sampler: Sampler | None) -> bool | None:
    if type(sampler) is not StaticSampler:
        return None
    decision: Decision | None = getattr(sampler, "_decision", None)
    return None if decision is None else decision.is_sampled()


def looks_at_the_trace_alone(sampler: Sampler) -> bool:
    """Return whether a sampler says the same of all children of a span of this process."""
    if type(sampler) in _BY_PARENT:
        below = cast("Any", sampler)
        return all(
            type(each) in _BY_TRACE
            for each in (below._local_parent_sampled, below._local_parent_not_sampled)
        )
    return type(sampler) in _BY_TRACE
