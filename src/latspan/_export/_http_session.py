"""The session that telemetry leaves with over HTTP: it knows what it was answered."""

from __future__ import annotations

import os
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, Literal

import requests

from latspan import _shown

__all__ = ["PASSING_STATUSES", "TOO_LARGE", "HttpSession", "http_session"]

PASSING_STATUSES: Final = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""
After which the same is to be sent again, and after no other.

Source: OTLP specification 1.9, "Retryable Response Codes".
"""

TOO_LARGE: Final = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
"""A receiver's or a gateway's limit, after which a part of the same may be taken."""

_ELSEWHERE: Final = range(HTTPStatus.MULTIPLE_CHOICES, HTTPStatus.BAD_REQUEST)


class HttpSession(requests.Session):
    """
    A session that remembers what became of the last request.

    The SDK's exporter tells no more than that it failed. And its certificate is its own: a session
    of requests' believes ``REQUESTS_CA_BUNDLE`` and ``CURL_CA_BUNDLE`` rather than who made it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.forget()

    def forget(self) -> None:
        """Begin anew, before something is sent."""
        self.tried = False
        """Whether anything was sent at all."""
        self._status: int | None = None
        self._retry_after: str | None = None
        self.body = b""
        """What was answered last."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send, and remember what comes back."""
        self.forget()
        self.tried = True
        response = super().send(request, **options)
        self._status = response.status_code
        self._retry_after = response.headers.get("Retry-After")
        self.body = response.content
        if response.status_code in _ELSEWHERE:
            # The SDK's exporters would take that for a success.
            where = _shown.address(response.headers.get("Location", "")) or "nowhere"
            raise requests.RequestException(f"HTTP {response.status_code}, which leads to {where}")
        return response

    def merge_environment_settings(self, *asked: Any, **named: Any) -> dict[str, Any]:
        """Trust who OpenTelemetry's variables name, also where one of requests' names others."""
        settings = super().merge_environment_settings(*asked, **named)
        if self.verify is not True:
            settings["verify"] = self.verify
        return settings

    @property
    def passing(self) -> bool:
        """
        Whether what was sent last may be taken another time.

        It may where nobody answered. What was refused will be refused again, and so will what was
        never sent: it could not be encoded, or is too long.
        """
        return self.tried and (self._status is None or self._status in PASSING_STATUSES)

    @property
    def too_large(self) -> bool:
        """Whether the last answer was that a message is longer than is taken."""
        return self._status == TOO_LARGE

    @property
    def asked_s(self) -> float:
        """
        How long the receiver asked to be left alone, in seconds; 0 where it did not.

        Source: RFC 9110, section 10.2.3, seconds or a date.
        """
        if self._retry_after is None:
            return 0.0
        if self._retry_after.isdecimal():
            return float(self._retry_after)
        try:
            until = parsedate_to_datetime(self._retry_after)
        except (ValueError, OverflowError):
            return 0.0
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        return max(until.timestamp() - time.time(), 0.0)


def http_session(signal: Literal["TRACES", "METRICS", "LOGS"]) -> HttpSession | None:
    """Return one; ``None`` where a variable names somebody else's, who knows the credentials."""
    for whose in ("", f"{signal}_"):
        if os.environ.get(f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{whose}CREDENTIAL_PROVIDER"):
            return None
    return HttpSession()
