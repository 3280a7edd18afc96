"""What a server says of the request it serves: what answers it, and in what state it is."""

from __future__ import annotations

from typing import Final, Literal, get_args

from latspan import semconv
from latspan._request import LiveWork, Remarks, enclosing_works
from latspan._runtime import guarded
from latspan._text import text_of
from latspan._warn_once import warn_once
from latspan.errors import UnknownNameError
from latspan.metrics import MetricValue
from latspan.segments import Kind, Outcome

__all__ = ["Degradation", "degraded", "describe", "rejected", "remarks_here"]

Degradation = Literal["fallback_model", "feature_off", "output_cut"]
"""How an answer may be less than it could have been."""

_PROVIDER_OTHER: Final = "_OTHER"
"""What the conventions call what has no name there."""


def remarks_here() -> Remarks | None:
    """
    Return where it is noted what is said here.

    Returns:
        That of the request that is open in this context; in a process that only does a part of
        it, of the stage. ``None`` where there is neither.
    """
    works = [each for each in enclosing_works() if isinstance(each, LiveWork)]
    if not works:
        return None
    return next((each for each in works if each.kind is Kind.REQUEST), works[0]).remarks


def describe(
    *,
    model: str | None = None,
    provider: str | None = None,
    operation: str = "chat",
    input_tokens: int | None = None,
    cached_tokens: int | None = None,
    batch_size: int | None = None,
    batch_window_s: float | None = None,
    requests_running: int | None = None,
    requests_waiting: int | None = None,
    cache_hit_ratio: float | None = None,
    kv_usage: float | None = None,
    speculative_acceptance: float | None = None,
) -> None:
    """
    Say what answers the request that is open here, and in what state the server is.

    With a ``model`` the request is a model's: its series have that key, and it counts in the
    conventions' metrics of servers (``gen_ai.server.request.duration`` and the times of the
    tokens that :func:`latspan.generated` follows). What is left out stays as it was said before.
    A value out of its range is not recorded; latspan logs that once.

    Args:
        model: The model that answers, by a name of yours: each is a series of its own, so it is
            never whatever a client calls it.
        provider: Who provides it, for example ``vllm``.
        operation: What is asked of it: ``chat``, ``text_completion``, ``embeddings`` …
        input_tokens: Of the prompt, cached ones included.
        cached_tokens: Those of them whose prefill the prefix cache spared.
        batch_size: How many requests are worked on together.
        batch_window_s: How long requests are gathered for that, in seconds.
        requests_running: How many are being worked on.
        requests_waiting: How many wait.
        cache_hit_ratio: Share of the prompt that the prefix cache held, 0 to 1.
        kv_usage: Share of the key-value cache in use, 0 to 1.
        speculative_acceptance: Share of the drafted tokens that were accepted, 0 to 1.

    Source of the conventions' names: OpenTelemetry GenAI conventions v1.41.
    """
    remarks = remarks_here()
    if remarks is None:
        return
    if model is not None:
        # A client's own types of model and provider are often no text.
        remarks.series.update(model=text_of(model), provider=text_of(provider or _PROVIDER_OTHER))
        remarks.attributes[semconv.GEN_AI_OPERATION_NAME] = text_of(operation)
    numbers: dict[str, float | None] = {
        semconv.GEN_AI_USAGE_INPUT_TOKENS: input_tokens,
        semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: cached_tokens,
        semconv.LATSPAN_BATCH_SIZE: batch_size,
        semconv.LATSPAN_BATCH_WINDOW: batch_window_s,
        semconv.LATSPAN_REQUESTS_RUNNING: requests_running,
        semconv.LATSPAN_REQUESTS_WAITING: requests_waiting,
        semconv.LATSPAN_CACHE_HIT_RATIO: cache_hit_ratio,
        semconv.LATSPAN_KV_USAGE: kv_usage,
        semconv.LATSPAN_SPECULATIVE_ACCEPTANCE: speculative_acceptance,
    }
    for name, value in numbers.items():
        if value is not None and _is_in_range(name, value):
            remarks.attributes[name] = value


_RATIOS: Final = frozenset(
    {
        semconv.LATSPAN_CACHE_HIT_RATIO,
        semconv.LATSPAN_KV_USAGE,
        semconv.LATSPAN_SPECULATIVE_ACCEPTANCE,
    }
)

_MOST: Final = 2**63 - 1
"""The most that OTLP can carry."""


def _is_in_range(name: str, value: object) -> bool:
    most = 1 if name in _RATIOS else _MOST
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most:
        return True
    with guarded("a value that cannot be"):
        warn_once(f"not recorded: {name} is {value!r:.40}, which it cannot be", about=name)
    return False


def degraded(*how: Degradation) -> None:
    """
    Say that the answer is less than it could have been: ``latspan.degraded("fallback_model")``.

    It is no outcome: the request is answered. How often that happens says
    ``latspan.snapshot().metric("degraded").count()``.

    Args:
        how: ``fallback_model``: another model than was asked for. ``feature_off``: something was
            left out, a safety check or retrieval say. ``output_cut``: fewer tokens were allowed.

    Raises:
        UnknownNameError: It is none of these.
    """
    for each in how:
        if each not in get_args(Degradation):
            raise UnknownNameError(
                f"no way to degrade '{each}'", hint=f"one of {', '.join(get_args(Degradation))}"
            )
    remarks = remarks_here()
    if remarks is not None and how:
        remarks.degraded += how
        remarks.metrics["degraded"] = MetricValue(1)


def rejected(*, retry_after_s: float | None = None) -> None:
    """
    Say that the request that is open here is turned away before its work begins.

    Its outcome is ``rejected``. An answer with status 429, or 503 with ``Retry-After``, says so
    itself; this is for what answers otherwise: in the course of a stream, or over no HTTP.

    Args:
        retry_after_s: When it may come again, in seconds from now.
    """
    remarks = remarks_here()
    if remarks is None:
        return
    remarks.outcome = Outcome.REJECTED
    if retry_after_s is not None and _is_in_range(semconv.LATSPAN_RETRY_AFTER, retry_after_s):
        remarks.attributes[semconv.LATSPAN_RETRY_AFTER] = float(retry_after_s)
