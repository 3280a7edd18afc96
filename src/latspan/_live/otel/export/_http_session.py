"""HTTP session of the OTLP exporters, which records the last response."""

from __future__ import annotations

import os
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, Literal

import requests
from requests.adapters import HTTPAdapter

from latspan._base import shown as _shown
from latspan._base.slices import give_way

PASSING_STATUSES: Final = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""
Retryable HTTP statuses: the same message is sent again.

Source: OTLP specification 1.9, "Retryable Response Codes".
"""

TOO_LARGE: Final = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
"""
Status for a message above the size limit of a receiver or a gateway, which may accept a part of it.
"""

_ELSEWHERE: Final = range(HTTPStatus.MULTIPLE_CHOICES, HTTPStatus.BAD_REQUEST)


class _PacedAdapter(HTTPAdapter):
    """Adapter that gives way before it sends a request, and around its reading of the response."""

    def add_headers(self, *_arguments: Any, **_options: Any) -> None:
        """Add nothing: requests calls this method before it sends a request."""
        give_way()

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return the response to a request."""
        give_way()
        response = super().build_response(req, resp)
        give_way()
        return response


class HttpSession(requests.Session):
    """
    Session that records the result of the last request.

    The SDK's exporter only returns whether a request succeeded, not why it failed. This session
    also keeps its own ``verify`` setting: in a plain ``requests.Session``, ``REQUESTS_CA_BUNDLE``
    and ``CURL_CA_BUNDLE`` take precedence over the certificate that its creator set.

    A request takes more than a millisecond in requests and urllib3, so the session gives way
    between their steps.
    """

    def __init__(self) -> None:
        super().__init__()
        for scheme in ("https://", "http://"):
            self.mount(scheme, _PacedAdapter())
        self.forget()

    def forget(self) -> None:
        """Clear the recorded result, before a message is sent."""
        self.tried = False
        """Whether a request was started since the result was cleared."""
        self._status: int | None = None
        self._retry_after: str | None = None
        self.body = b""
        """Body of the last response."""

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Prepare a request."""
        give_way()
        prepared = super().prepare_request(request)
        give_way()
        return prepared

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """
        Send a request and record the response.

        Raises:
            RequestException: The request failed, or the response is a redirect.
        """
        self.forget()
        self.tried = True
        give_way()
        response = super().send(request, **options)
        give_way()
        self._status = response.status_code
        self._retry_after = response.headers.get("Retry-After")
        self.body = response.content
        if response.status_code in _ELSEWHERE:
            # The SDK's exporters would treat a redirect as a success.
            target = _shown.address(response.headers.get("Location", "")) or "no address"
            raise requests.RequestException(f"HTTP {response.status_code}: redirect to {target}")
        return response

    def merge_environment_settings(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Return the settings, with the session's ``verify`` instead of requests' variables."""
        settings = super().merge_environment_settings(*arguments, **named)
        if self.verify is not True:
            settings["verify"] = self.verify
        return settings

    @property
    def passing(self) -> bool:
        """
        Whether the last message may be accepted if it is sent again.

        True if it was sent and either no response arrived or the status is retryable. A message
        that the receiver refused would be refused again. A message that was never sent could not be
        encoded or is too long, so it would fail again too.
        """
        return self.tried and (self._status is None or self._status in PASSING_STATUSES)

    @property
    def too_large(self) -> bool:
        """Whether the last response reported that the message exceeds the receiver's limit."""
        return self._status == TOO_LARGE

    @property
    def retry_after_s(self) -> float:
        """
        Pause that the receiver requested, in seconds; 0 if it requested none.

        Source: RFC 9110, section 10.2.3, ``Retry-After`` as seconds or a date.
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
    """
    Return a session for the exporter of a signal.

    ``None`` if a variable names a credential provider, whose session the exporter uses instead.
    """
    for whose in ("", f"{signal}_"):
        if os.environ.get(f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{whose}CREDENTIAL_PROVIDER"):
            return None
    return HttpSession()
