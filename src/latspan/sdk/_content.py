"""What calls say in words: whether spans carry it, and how its tokens are counted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from latspan._log import logger
from latspan.tokens import UNKNOWN_TOKENS, TokenCounts

if TYPE_CHECKING:
    from latspan.sdk._worker import Worker
    from latspan.tokens import Encoding
    from latspan.wire import Content

__all__ = ["captures_content", "token_counter"]


_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class _Capture(StrEnum):
    """Where content goes; OpenTelemetry's names for it."""

    NO_CONTENT = "NO_CONTENT"
    SPAN_ONLY = "SPAN_ONLY"
    EVENT_ONLY = "EVENT_ONLY"
    SPAN_AND_EVENT = "SPAN_AND_EVENT"


def captures_content(environment: Mapping[str, str] = os.environ) -> bool:
    """
    Return whether spans carry what is asked and answered, as OpenTelemetry's variable says.

    What cannot be done, or is none of its values, is said once, in the log.

    Args:
        environment: Where the variable is looked up.
    """
    said = environment.get(_VARIABLE, "").strip()
    try:
        capture = _Capture(said.upper() or _Capture.NO_CONTENT)
    except ValueError:
        logger.warning(
            "%s is '%s', and not one of %s: no content is captured",
            _VARIABLE,
            said,
            ", ".join(_Capture),
        )
        return False
    if capture in {_Capture.EVENT_ONLY, _Capture.SPAN_AND_EVENT}:
        logger.warning(
            "%s is %s: latspan puts content on spans, and emits no events", _VARIABLE, capture
        )
    return capture in {_Capture.SPAN_ONLY, _Capture.SPAN_AND_EVENT}


def token_counter(
    found: Mapping[str, Encoding], worker: Worker
) -> Callable[[Content, str | None], TokenCounts] | None:
    """
    Return what counts tokens, ``None`` where there is no encoding, which the log is told.

    Where ``worker`` is overwhelmed, callers do the arithmetic of their own requests. Counting is
    left out of that: it is no work for a caller's thread.

    Args:
        found: The encodings that are on this machine.
        worker: On whose thread tokens are counted, and on no other.
    """
    if not found:
        logger.warning(
            "count_tokens is on, but no encoding of tiktoken's is on this machine: no tokens are"
            " counted; hint: pip install 'latspan[tokens]'"
        )
        return None
    from latspan.tokens import Estimator

    estimator = Estimator(found)

    def count(content: Content, model: str | None) -> TokenCounts:
        return estimator.counts(content, model=model) if worker.runs_here() else UNKNOWN_TOKENS

    return count
