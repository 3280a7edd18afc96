"""Decisions of the SDK's samplers that are the same for all spans, found without a call."""

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

_BY_TRACE: Final = frozenset({StaticSampler, TraceIdRatioBased})
"""The SDK's samplers whose decision depends only on the trace."""

_BY_PARENT: Final = frozenset({ParentBased, ParentBasedTraceIdRatio})
"""The SDK's samplers that delegate to one sampler per kind of parent."""

_BELOW: Final = {
    (is_remote, is_sampled): f"_{'remote' if is_remote else 'local'}_parent{negation}_sampled"
    for is_remote in (False, True)
    for is_sampled, negation in ((False, "_not"), (True, ""))
}
"""Attribute of a parent-based sampler that holds the sampler for each kind of parent."""


class ConstantDecisions(NamedTuple):
    """
    Decisions of a sampler that are the same for all spans; ``None`` if they depend on more.

    Args:
        at_root: Whether traces that begin in this process are sampled.
        below: Whether spans under a parent are sampled, by whether the parent is remote and
            whether it is sampled.
    """

    at_root: bool | None
    below: Mapping[tuple[bool, bool], bool | None]


def constant_decisions(sampler: Sampler) -> ConstantDecisions:
    """Return the constant decisions of ``sampler``; a subclass of an SDK sampler has none."""
    if type(sampler) not in _BY_PARENT:
        always = _constant_decision(sampler)
        return ConstantDecisions(always, dict.fromkeys(_BELOW, always))
    return ConstantDecisions(
        _constant_decision(getattr(sampler, "_root", None)),
        {
            parent: _constant_decision(getattr(sampler, part, None))
            for parent, part in _BELOW.items()
        },
    )


def _constant_decision(sampler: Sampler | None) -> bool | None:
    if type(sampler) is not StaticSampler:
        return None
    decision: Decision | None = getattr(sampler, "_decision", None)
    return None if decision is None else decision.is_sampled()


def looks_at_the_trace_alone(sampler: Sampler) -> bool:
    """
    Return whether a sampler makes the same decision for all children of a span of this process.
    """
    if type(sampler) in _BY_PARENT:
        below = cast("Any", sampler)
        return all(
            type(each) in _BY_TRACE
            for each in (below._local_parent_sampled, below._local_parent_not_sampled)
        )
    return type(sampler) in _BY_TRACE
