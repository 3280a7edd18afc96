"""Outcome and error type of an exception that a client library raised."""

from __future__ import annotations

import sys
from collections.abc import Container
from typing import TYPE_CHECKING, Any, cast

from latspan._base.internal_errors import handle_internal_errors
from latspan._model.segments import Outcome

if TYPE_CHECKING:
    from latspan._model.timeline import Attempt

FIRST_ERROR_STATUS = 400
"""Lowest HTTP status code of an error."""
_TOO_MANY_REQUESTS = 429
_SERVICE_UNAVAILABLE = 503
_LAST_ERROR_STATUS = 599
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
    ``status_code``, ``status`` or ``code``, and ``response.headers`` or ``headers``, or botocore's
    mapping ``response``, and a timeout by its class name.
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


def failure_of(
    error: BaseException, attempt: Attempt | None, headers: object
) -> tuple[Outcome, str]:
    """
    Return the outcome and the error type of a call that raised ``error``.

    Args:
        error: The exception. If it has no status code, the one of the response counts.
        attempt: The attempt whose response the client library used; ``None`` if no transport
            reported one.
        headers: Headers of that response, in any container.
    """
    outcome = outcome_of(error)
    status = None if attempt is None else attempt.status
    if outcome is not Outcome.ERROR or status is None or not is_error(status):
        return outcome, error_type_of(error)
    if _status_of(error) is not None:
        return outcome, error_type_of(error)
    return outcome_of_status(status, headers), str(status)


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
    Return ``error.type``: the status code, a code, or the exception's name; never its message.

    The code is that of an error inside a stream of AWS. The name is qualified.

    Source: OpenTelemetry semantic conventions, "Recording errors on spans".
    """
    status = _status_of(error)
    if status is not None:
        return str(status)
    # botocore's exception for an event inside a stream, which has no status of its own.
    code = _in_botocores(error, "Error", "Code")
    if isinstance(code, str) and code:
        return code
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
        # The other names are read only from the object itself: as a property of a class, they may
        # be deprecated, and reading one would warn the application.
        own = vars(error)
        for status in (
            getattr(error, "status_code", None),
            own.get("status"),
            # Without a response, it is the code of an event inside a stream.
            own.get("code") if "response" in own else None,
            _in_botocores(error, "ResponseMetadata", "HTTPStatusCode"),
        ):
            # The exception for an error inside a stream may have the successful status of its
            # response, and many numbers are not HTTP status codes.
            if isinstance(status, int) and FIRST_ERROR_STATUS <= status <= _LAST_ERROR_STATUS:
                return status
    return None


def _headers_of(error: BaseException) -> object:
    with handle_internal_errors("the headers of an exception"):
        headers = getattr(getattr(error, "response", None), "headers", None)
        for found in (
            headers,
            getattr(error, "headers", None),
            _in_botocores(error, "ResponseMetadata", "HTTPHeaders"),
        ):
            if found is not None:
                return found
    return None


def _in_botocores(error: BaseException, *path: str) -> object:
    """Return a value of the response in an exception of botocore, ``None`` for any other."""
    with handle_internal_errors("the response of an exception"):
        found: Any = getattr(error, "response", None)
        for key in path:
            # Checked before use: it may be an object of an HTTP client instead.
            if not isinstance(found, dict):
                return None
            found = cast("dict[str, Any]", found).get(key)
        return found
    return None


def _has_retry_after(headers: object) -> bool:
    try:
        return "retry-after" in cast("Container[str]", headers)
    except TypeError:
        return False
