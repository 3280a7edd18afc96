"""
latspan's private tracer provider: sink and export of spans while the application has no provider.

The SDK, which the provider belongs to, is imported with the first request, or before that by the
loader thread. It is imported at once only if something needs the provider at once, or if a variable
is set whose value the SDK may reject: ``configure`` must raise then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from latspan._base.fork import run_before_a_child_ends
from latspan._live.otel.spans import NoSink, SpanSink
from latspan._live.process.per_process import PerProcess
from latspan._live.sdk._config import Config, is_exported
from latspan._live.sdk._exporters import span_exporter

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    from latspan._live.sdk._span_export import SpanExport

_READ_BY_THE_SDK: Final = re.compile(r"OTEL_(\w+_LIMIT|TRACES_SAMPLER\w*|EXPERIMENTAL_\w+)")
"""Variables that the SDK reads for a provider; it raises if it cannot use a value."""


class PrivateSpans(NamedTuple):
    """
    Parts of the private provider that the pipeline uses.

    Args:
        sink: Returns the sink of spans while the application has no provider.
        export: Exports the spans; ``None`` if spans are not exported.
        provider: The provider, if it is to become the global one.
    """

    sink: Callable[[], SpanSink]
    export: SpanExport | None
    provider: TracerProvider | None


def private_spans(
    config: Config,
    resource: Callable[[], Resource],
    at_end: Callable[[], None],
    undo: ExitStack,
    environment: Mapping[str, str] = os.environ,
) -> PrivateSpans:
    """
    Return the parts of the private provider.

    Args:
        config: Validated configuration.
        resource: Returns this process's resource.
        at_end: Last action of a child that exits without ``atexit``.
        undo: Closes what was created, if a later part of the pipeline fails.
        environment: Source of the ``OTEL_*`` variables.

    Raises:
        ConfigError: The exporter cannot be created with this configuration.
        ValueError: The SDK rejects a variable.
    """
    if not is_exported(config, "traces"):
        nothing = NoSink()
        return PrivateSpans(lambda: nothing, None, None)
    from latspan._live.sdk._span_export import SpanExport

    at_once = (
        config.set_global_provider
        or config.tail_sampling_ratio != 1
        or any(map(_READ_BY_THE_SDK.fullmatch, environment))
    )
    make_exporter = span_exporter(config)
    # Before any thread is started, because the SDK may reject a variable. No reference to the
    # provider is kept unless it becomes the global one: in a forked child, a provider immediately
    # starts threads that look up its resource.
    providers = [_provider(resource)] if at_once else []
    to_be_global = providers[0] if config.set_global_provider else None
    spans = SpanExport(
        make_exporter, resource=resource, on_start=lambda: run_before_a_child_ends(at_end)
    )
    undo.callback(lambda: spans.closing()(0))

    def make(inherited: SpanSink | None) -> SpanSink:
        if inherited is not None:
            return inherited
        from latspan._live.otel.export import PrivateSink

        return PrivateSink(providers.pop() if providers else _provider(resource), spans.take)

    sink = PerProcess[SpanSink](make, at_once=at_once)
    return PrivateSpans(sink, spans, to_be_global)


def _provider(resource: Callable[[], Resource]) -> TracerProvider:
    from opentelemetry.sdk.trace import TracerProvider

    return TracerProvider(resource=resource(), shutdown_on_exit=False)
