"""What is known of a sampler without asking it is what it says when it is asked."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_OFF,
    DEFAULT_ON,
    Decision,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    StaticSampler,
    TraceIdRatioBased,
)
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from latspan._live.otel.samplers import constant_decisions

ROOT = Context()
PARENTS = [(is_remote, is_sampled) for is_remote in (False, True) for is_sampled in (False, True)]
UPSIDE_DOWN = ParentBased(
    ALWAYS_OFF,
    remote_parent_sampled=ALWAYS_OFF,
    remote_parent_not_sampled=ALWAYS_ON,
    local_parent_sampled=StaticSampler(Decision.RECORD_ONLY),
    local_parent_not_sampled=ALWAYS_ON,
)


class Moody(ParentBased):
    """May say anything, as it is not the SDK's own."""


def below(*, is_remote: bool, is_sampled: bool) -> Context:
    """Return a context in which such a parent is current."""
    flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else 0)
    parent = SpanContext(1, 2, is_remote=is_remote, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(parent), ROOT)


def asked(sampler: Sampler, parent_context: Context) -> bool:
    """Return what the sampler says of a span that begins there."""
    return sampler.should_sample(parent_context, 1, "x").decision.is_sampled()


@pytest.mark.parametrize(
    "sampler",
    [ALWAYS_ON, ALWAYS_OFF, DEFAULT_ON, DEFAULT_OFF, UPSIDE_DOWN],
    ids=["on", "off", "parent or on", "parent or off", "upside down"],
)
def test_a_static_sampler_is_evaluated_without_a_call(sampler: Sampler) -> None:
    """At the root and beneath each kind of parent."""
    known = constant_decisions(sampler)

    assert known.at_root == asked(sampler, ROOT)
    assert known.below == {
        (is_remote, is_sampled): asked(sampler, below(is_remote=is_remote, is_sampled=is_sampled))
        for is_remote, is_sampled in PARENTS
    }


@pytest.mark.parametrize(
    "sampler", [ParentBasedTraceIdRatio(0.5), ParentBased(TraceIdRatioBased(0.5))]
)
def test_a_ratio_is_asked_where_it_decides(sampler: Sampler) -> None:
    """Beneath a parent it does not."""
    known = constant_decisions(sampler)

    assert known.at_root is None
    assert known.below == {parent: parent[1] for parent in PARENTS}


@pytest.mark.parametrize("sampler", [TraceIdRatioBased(0.5), Moody(ALWAYS_ON)])
def test_an_unknown_sampler_is_called_each_time(sampler: Sampler) -> None:
    """A subclass may say anything."""
    assert constant_decisions(sampler) == (None, dict.fromkeys(PARENTS))
