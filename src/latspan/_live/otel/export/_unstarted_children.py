"""
Child spans in an application's provider, ended without a start if no processor needs one.

What an application can observe must stay the same as with started spans: the
sampler's decision, the generated ids, the limits, and the spans that ``on_end`` of the processors
receives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Tracer
from opentelemetry.sdk.trace.sampling import SamplingResult
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from latspan._live.otel.export._private_spans import TRACE_FLAGS, has_random_id
from latspan._live.otel.limits import limited
from latspan._live.otel.samplers import looks_at_the_trace_alone
from latspan._live.otel.spans import AttributeValue, ChildSpan, start_and_end
from latspan._live.otel.tracers import Processors, limits_of, scope_of

_FAILED: Final = Status(StatusCode.ERROR)
_FINE: Final = Status(StatusCode.UNSET)


class UnstartedChildren:
    """
    Ends children of SDK spans without starting them.

    Starting and ending a span of the SDK takes about 15 µs on the caller's thread, and a call has
    nine children, all of which have ended when latspan creates them. So each is created directly
    in the state in which the SDK ends it: the provider's sampler is called, its ID generator and
    its limits are used, and its processors receive the same span. If a processor has a hook that
    runs before the end of a span, for example to add an attribute, the spans are started as usual.

    Args:
        tracer: A tracer of an application's provider.
        processors: The processors of that provider.
    """

    __slots__ = ("_limits", "_processors", "_scope", "_tracer")

    def __init__(self, tracer: Tracer, processors: Processors) -> None:
        self._tracer = tracer
        self._limits = limits_of(tracer)
        self._scope = scope_of(tracer)
        self._processors = processors

    def __call__(self, children: Sequence[ChildSpan], context: Context) -> None:
        """Create and end children of the span that is current in ``context``."""
        if self._processors.need_only_ends():
            parent = trace.get_current_span(context).get_span_context()
            sampler = self._tracer.sampler
            one_for_all = looks_at_the_trace_alone(sampler)
            response: SamplingResult | None = None
            flags = TraceFlags.get_default()
            for child in children:
                attributes: Mapping[str, Any] = child.attributes
                if response is None or not one_for_all:
                    response = sampler.should_sample(
                        context, parent.trace_id, child.name, child.kind, attributes, ()
                    )
                    flags = TRACE_FLAGS[response.decision.is_sampled(), has_random_id(parent)]
                if not one_for_all:
                    attributes = cast("Any", response).attributes
                # The SDK generates an ID for spans that are not sampled too.
                span_id = self._tracer.id_generator.generate_span_id()
                if response.decision.is_recording():
                    identity = SpanContext(
                        parent.trace_id,
                        span_id,
                        is_remote=False,
                        trace_flags=flags,
                        trace_state=response.trace_state,
                    )
                    self._end(child, parent, identity, attributes)
        else:
            start_and_end(self._tracer, children, context)

    def _end(
        self,
        child: ChildSpan,
        parent: SpanContext,
        identity: SpanContext,
        attributes: Mapping[str, Any],
    ) -> None:
        tracer = self._tracer
        tracer.span_processor.on_end(
            ReadableSpan(
                child.name,
                context=identity,
                parent=parent,
                resource=tracer.resource,
                attributes=self._bounded(child.attributes, attributes),
                kind=child.kind,
                instrumentation_scope=self._scope,
                status=_FAILED if child.failed else _FINE,
                start_time=child.start_epoch_ns,
                end_time=child.end_epoch_ns,
            )
        )

    def _bounded(
        self, ours: Mapping[str, AttributeValue], attributes: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the attributes within the SDK's limits; a sampler may have changed ``ours``."""
        if attributes is ours or attributes == ours:
            return limited(dict(ours), self._limits)
        return BoundedAttributes(
            self._limits.max_span_attributes,
            attributes,
            max_value_len=self._limits.max_span_attribute_length,
        )
