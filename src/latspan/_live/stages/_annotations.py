"""Annotations of the open request: what it is about, its result, and the state of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, get_args

from latspan import semconv
from latspan._base.internal_errors import handle_internal_errors
from latspan._base.log import warn_once
from latspan._base.text import text_of
from latspan._live.operations import Annotations, LocalScope, enclosing_scopes
from latspan._live.otel.spans import given_attributes
from latspan._model.metrics import MetricValue
from latspan._model.segments import Kind, Outcome, Side
from latspan.errors import UnknownNameError

if TYPE_CHECKING:
    from latspan._live.otel.spans import AttributeValue

Degradation = Literal["fallback_model", "feature_off", "output_cut"]
"""Ways in which a response can be degraded."""

_PROVIDER_OTHER: Final = "_OTHER"
"""The conventions' name for a provider that they do not list."""


def annotations_here() -> list[Annotations]:
    """
    Return the annotations of the request that is open in this context.

    Returns:
        The annotations of the innermost request, and of the served request around it, because both
        are parts of one unit of work. In a process that handles only a part of the request, those
        of the innermost stage. Empty if neither is open.
    """
    scopes = [each for each in enclosing_scopes() if isinstance(each, LocalScope)]
    requests = [each for each in scopes if each.kind in (Kind.REQUEST, Kind.INNER_REQUEST)]
    served = [each for each in requests if each.kind is Kind.REQUEST and each.side is Side.SERVER]
    reached = dict.fromkeys((*(requests or scopes)[:1], *served[:1]))
    return [each.annotations for each in reached]


def annotate(
    custom: Mapping[str, AttributeValue] | None = None,
    /,
    *,
    inference_path: str | None = None,
    route: str | None = None,
    traffic_class: str | None = None,
    tenant: str | None = None,
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
    Set attributes of the request that is open in this context: ``latspan.annotate(tenant="acme")``.

    Use it if a value is known only after the request has begun. It applies to the innermost request
    and to the served request around it, but not to the calls inside. For those, use
    :func:`latspan.attributes`, whose arguments have the same meaning. A value set here has priority
    over one that :func:`latspan.attributes` has set around the request.

    The ``model`` becomes an attribute of the request's histograms. A served request with a model is
    also recorded in the server metrics of the OpenTelemetry GenAI conventions:
    ``gen_ai.server.request.duration``, and the token times that :func:`latspan.track_tokens`
    records. ``provider`` and ``operation`` have an effect only together with ``model``. If no
    request is open in this process, the attributes are set on the innermost open stage. If no stage
    is open either, no argument has an effect. Omitted arguments keep their earlier values. A value
    out of range is not recorded, and latspan logs one warning per argument.

    Args:
        custom: Attributes of your own, as for :func:`latspan.attributes`.
        inference_path: Name of the combination of route, model, prompt template and traffic
            profile.
        route: Application's route, for example ``/chat``.
        traffic_class: Class of traffic, for example ``interactive`` or ``background``.
        tenant: Customer for whom the request is made.
        model: Your own name for the model that generates the response. Each name creates a series,
            so never pass a name that a client sent.
        provider: Provider of the model, for example ``vllm``.
        operation: Operation, as the GenAI conventions name it: ``chat``, ``text_completion``,
            ``embeddings`` …
        input_tokens: Tokens of the prompt, cached ones included.
        cached_tokens: Tokens of the prompt that were in the prefix cache.
        batch_size: Number of requests processed together.
        batch_window_s: Time for which requests are collected into a batch, in seconds.
        requests_running: Number of requests in progress.
        requests_waiting: Number of queued requests.
        cache_hit_ratio: Fraction of the prompt that was in the prefix cache, 0 to 1.
        kv_usage: Fraction of the key-value cache in use, 0 to 1.
        speculative_acceptance: Fraction of the drafted tokens that were accepted, 0 to 1.

    Source of the conventions' names: OpenTelemetry GenAI conventions, the revision in
    ``semconv.GENAI_REVISION``.
    """
    open_requests = annotations_here()
    if not open_requests:
        return
    named = {
        "inference_path": inference_path,
        "route": route,
        "traffic_class": traffic_class,
        "tenant": tenant,
    }
    # Client libraries often have types of their own for model and provider.
    series = {name: text_of(value) for name, value in named.items() if value is not None}
    attributes: dict[str, AttributeValue] = {}
    if model is not None:
        series |= {"model": text_of(model), "provider": text_of(provider or _PROVIDER_OTHER)}
        attributes[semconv.GEN_AI_OPERATION_NAME] = text_of(operation)
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
    attributes |= {
        name: value
        for name, value in numbers.items()
        if value is not None and _is_in_range(name, value)
    }
    given = given_attributes(custom)
    for each in open_requests:
        each.add_series(series)
        each.attributes.update(attributes)
        each.add_custom(given)


_RATIOS: Final = frozenset(
    {
        semconv.LATSPAN_CACHE_HIT_RATIO,
        semconv.LATSPAN_KV_USAGE,
        semconv.LATSPAN_SPECULATIVE_ACCEPTANCE,
    }
)

_MAX_INTEGER: Final = 2**63 - 1
"""Largest integer that OTLP can represent."""


def _is_in_range(name: str, value: object) -> bool:
    most = 1 if name in _RATIOS else _MAX_INTEGER
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most:
        return True
    with handle_internal_errors("an annotation that is not valid"):
        warn_once(f"not recorded: {name} has the invalid value {value!r:.40}", about=name)
    return False


def mark_degraded(*how: Degradation) -> None:
    """
    Mark the response as degraded: ``latspan.mark_degraded("fallback_model")``.

    Degradation is not an outcome, because the client receives a response.
    ``latspan.snapshot().metric("degraded").count()`` returns the number of degraded requests.

    Args:
        how: ``fallback_model``: another model than the requested one answered. ``feature_off``: a
            step was skipped, for example a safety check or retrieval. ``output_cut``: fewer output
            tokens were allowed than the client requested.

    Raises:
        UnknownNameError: A value of ``how`` is not one of these.
    """
    for each in how:
        if each not in get_args(Degradation):
            raise UnknownNameError(
                f"'{each}' is not a degradation",
                hint=f"one of {', '.join(get_args(Degradation))}",
            )
    for each in annotations_here() if how else ():
        each.degraded += how
        each.metrics["degraded"] = MetricValue(1)


def mark_rejected(*, retry_after_s: float | None = None) -> None:
    """
    Mark the request that is open in this context as rejected; call this before its work begins.

    Its outcome becomes ``rejected``. A response with status 429, or 503 with ``Retry-After``, is
    recognised without this function; call it for a rejection inside a stream or without HTTP.

    Args:
        retry_after_s: Seconds after which the client may try again.
    """
    for each in annotations_here():
        each.outcome = Outcome.REJECTED
        if retry_after_s is not None and _is_in_range(semconv.LATSPAN_RETRY_AFTER, retry_after_s):
            each.attributes[semconv.LATSPAN_RETRY_AFTER] = float(retry_after_s)
