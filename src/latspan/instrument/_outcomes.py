"""How an exception that a client library raised reads as an outcome."""

from __future__ import annotations

import sys

from latspan.segments import Outcome

__all__ = ["error_type_of", "outcome_of"]

_TOO_MANY_REQUESTS = 429
_SERVICE_UNAVAILABLE = 503


def outcome_of(error: BaseException) -> Outcome:
    """
    Return the outcome of a call that ended with ``error``.

    Client libraries are known by shape, not by import: a ``status_code``, a ``response`` with
    ``headers``, a timeout by its class's name.
    """
    if isinstance(error, KeyboardInterrupt | SystemExit) or _is_cancellation(error):
        return Outcome.CANCELLED
    if isinstance(error, GeneratorExit):
        return Outcome.CLOSED_EARLY
    if isinstance(error, TimeoutError) or any(
        "Timeout" in ancestor.__name__ for ancestor in type(error).__mro__
    ):
        return Outcome.TIMEOUT
    status = _status_of(error)
    if status == _TOO_MANY_REQUESTS:
        return Outcome.REJECTED
    if status == _SERVICE_UNAVAILABLE and _has_retry_after(error):
        return Outcome.REJECTED
    return Outcome.ERROR


def error_type_of(error: BaseException) -> str:
    """
    Return ``error.type``: the status code, or the exception's qualified name; never its message.

    Source: OpenTelemetry semantic conventions, "Recording errors on spans".
    """
    status = _status_of(error)
    if status is not None:
        return str(status)
    cls = type(error)
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_cancellation(error: BaseException) -> bool:
    # A program without asyncio cannot be cancelled by it, and need not pay for its import.
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def _status_of(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _has_retry_after(error: BaseException) -> bool:
    headers = getattr(getattr(error, "response", None), "headers", None)
    try:
        return headers is not None and "retry-after" in headers
    except TypeError:
        return False
