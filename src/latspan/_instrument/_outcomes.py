"""Outcome and error type of an exception that a client library raised."""

from __future__ import annotations

import sys
from collections.abc import Container
from typing import cast

from latspan._runtime import handle_internal_errors
from latspan._segments import Outcome

__all__ = ["FIRST_ERROR_STATUS", "error_type_of", "is_error", "outcome_of", "outcome_of_status"]

FIRST_ERROR_STATUS = 400
"""Lowest HTTP status code of an error."""
_TOO_MANY_REQUESTS = 429
_SERVICE_UNAVAILABLE = 503
_CANCELLATIONS = (
    ("asyncio", "CancelledError"),
    ("trio", "Cancelled"),
    # Raised by gevent to end a greenlet. Its timeouts are recognised by class name, like all
    # others.
    ("greenlet", "GreenletExit"),
)


def outcome_of(error: BaseException) -> Outcome:
    """
    Return the outcome of a call that ended with ``error``.

    Exceptions of client libraries are recognised without importing the library: by the attributes
    ``status_code`` and ``response.headers``, and a timeout by its class name.
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
    if status is None:
        return Outcome.ERROR
    return outcome_of_status(status, _headers_of(error))


def is_error(status: int) -> bool:
    """Return whether an HTTP status code is an error status."""
    return status >= FIRST_ERROR_STATUS


def outcome_of_status(status: int | None, headers: object) -> Outcome:
    """
    Return the outcome of a response.

    Args:
        status: The HTTP status code, ``None`` if unknown.
        headers: The response's headers, in any container.
    """
    if status is None or not is_error(status):
        return Outcome.COMPLETED
    if status == _TOO_MANY_REQUESTS:
        return Outcome.REJECTED
    if status == _SERVICE_UNAVAILABLE and _has_retry_after(headers):
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
    # A library that the program has not imported cannot have cancelled it, so none is imported.
    return any(
        isinstance(error, cancellation)
        for module, name in _CANCELLATIONS
        if isinstance(cancellation := getattr(sys.modules.get(module), name, None), type)
    )


def _status_of(error: BaseException) -> int | None:
    with handle_internal_errors("the status of an exception"):
        status = getattr(error, "status_code", None)
        # The exception for an error inside a stream may have the successful status of its
        # response.
        return status if isinstance(status, int) and is_error(status) else None
    return None


def _headers_of(error: BaseException) -> object:
    with handle_internal_errors("the headers of an exception"):
        return getattr(getattr(error, "response", None), "headers", None)
    return None


def _has_retry_after(headers: object) -> bool:
    try:
        return "retry-after" in cast("Container[str]", headers)
    except TypeError:
        return False
