"""
Content capture: whether spans and events include content, and how its tokens are counted.

Events go to the application's logger provider if it has one, and otherwise to latspan's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from latspan._base.log import logger
from latspan._model.tokens import UNKNOWN_TOKENS, TokenCounts
from latspan._version import __version__
from latspan.semconv import SCHEMA_URL

if TYPE_CHECKING:
    from opentelemetry._logs import LogRecord
    from opentelemetry.context import Context

    from latspan._live.process.worker import Worker
    from latspan._model.tokens import Encoding
    from latspan._model.wire import Content

_T = TypeVar("_T")


_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


_EVENTS_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"


class Capture(NamedTuple):
    """
    Where the content of requests and responses is recorded, and whether events are emitted.

    Args:
        on_spans: Whether spans include content.
        in_events: Whether events include content.
        emits_events: Whether events are emitted, with or without content.
    """

    on_spans: bool = False
    in_events: bool = False
    emits_events: bool = False


_MODES: Final = {
    "NO_CONTENT": Capture(),
    "SPAN_ONLY": Capture(on_spans=True),
    "EVENT_ONLY": Capture(in_events=True, emits_events=True),
    "SPAN_AND_EVENT": Capture(on_spans=True, in_events=True, emits_events=True),
}
"""Values of OpenTelemetry's variable, and the destinations that each selects."""

_SWITCH: Final = {"true": True, "false": False}


def capture(environment: Mapping[str, str] = os.environ) -> Capture:
    """
    Return the destinations of content that OpenTelemetry's two variables select.

    An unknown value is logged and has no effect. As in OpenTelemetry's own instrumentation,
    ``OTEL_SEMCONV_STABILITY_OPT_IN`` does not affect this.

    Args:
        environment: Source of the variables.

    Source: ``opentelemetry-util-genai`` 1.3, ``get_content_capturing_mode`` and
    ``_should_emit_event``.
    """
    mode = _one_of(_MODES, environment.get(_VARIABLE, "").strip().upper(), _VARIABLE)
    wanted = mode or Capture()
    emits = environment.get(_EVENTS_VARIABLE, "").strip().lower()
    emits_events = _one_of(_SWITCH, emits, _EVENTS_VARIABLE)
    if emits_events is None:
        return wanted
    return wanted._replace(in_events=wanted.in_events and emits_events, emits_events=emits_events)


def _one_of(values: Mapping[str, _T], text: str, variable: str) -> _T | None:
    """Return the value that ``text`` stands for; ``None`` if it is empty or unknown."""
    if text and text not in values:
        logger.warning(
            "%s is '%s', not one of %s; it is ignored", variable, text, ", ".join(values)
        )
    return values.get(text)


class Events:
    """
    Emits each event through the logger provider that is global at that moment.

    As with spans, an application may set its provider before or after latspan is configured.

    Args:
        private: Receives events while the application has no provider; ``None`` drops them.
    """

    __slots__ = ("_private",)

    def __init__(self, private: Callable[[LogRecord], None] | None) -> None:
        self._private = private

    def __call__(
        self, name: str, epoch_ns: int, attributes: Mapping[str, Any], context: Context, /
    ) -> None:
        """Emit an event; arguments as for :class:`latspan._live.process.runtime.EmitEvent`."""
        # Few applications have events, and every program that configures latspan imports this.
        from opentelemetry._logs import LogRecord, get_logger_provider

        from latspan._live.otel.providers import has_log_processors

        record = LogRecord(
            timestamp=epoch_ns, context=context, event_name=name, attributes=attributes
        )
        provider = get_logger_provider()
        if has_log_processors(provider):
            provider.get_logger("latspan", __version__, schema_url=SCHEMA_URL).emit(record)
        elif self._private is not None:
            self._private(record)


def token_counter(
    found: Mapping[str, Encoding], worker: Worker
) -> Callable[[Content, str | None], TokenCounts] | None:
    """
    Return a function that counts tokens; ``None``, with a log line, if there is no encoding.

    If the queue of ``worker`` is full, callers run the jobs of their own requests. Counting is
    skipped then, because it is too slow for a caller's thread.

    Args:
        found: Encodings that are installed on this machine, by name.
        worker: The only thread on which tokens are counted.
    """
    if not found:
        logger.warning(
            "count_tokens is on, but no tiktoken encoding is installed: no tokens are"
            " counted; hint: pip install 'latspan[tokens]'"
        )
        return None
    from latspan._model.tokens import Estimator

    estimator = Estimator(found)

    def count(content: Content, model: str | None) -> TokenCounts:
        return estimator.counts(content, model=model) if worker.runs_here() else UNKNOWN_TOKENS

    return count
