"""
One scraped server and its pages; not every server has all of them.

A page is requested once per interval, and less often while that fails.
"""

from __future__ import annotations

import socket
import time
import urllib.request
from collections.abc import Callable, Iterable
from http.client import HTTPException, IncompleteRead
from typing import Final
from urllib.error import HTTPError, URLError

from latspan._base.internal_errors import handle_internal_errors
from latspan._base.log import warn_once
from latspan._base.nanoseconds import NS_PER_S
from latspan._base.shown import address, foreign
from latspan._live.scraping._pages import read_metrics, read_slots
from latspan._live.scraping._sample_buffer import Sample, SampleBuffer

_MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a page in bytes: ten times the page of a server with many models."""

_PIECE: Final = 64 * 1024
_MAX_REASON_LENGTH: Final = 200
_MAX_PAUSE_S: Final = 30.0
_SHARE_OF_INTERVAL: Final = 0.8
"""Fraction of the interval after which a request times out; the rest is for parsing the page."""


_HANDLERS: Final = (
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.HTTPDefaultErrorHandler,
)
"""
Handlers of urllib: without the one for proxies, which reads environment variables, and without the
one that follows redirects.
"""


class ScrapeTarget:
    """
    Page of a server that is scraped.

    Args:
        url: Address of the page.
        interval_s: Seconds between two polls, more than 0.
        now: Function that returns the clock's monotonic time, in nanoseconds.
    """

    def __init__(self, url: str, *, interval_s: float, now: Callable[[], int]) -> None:
        self.history = SampleBuffer(interval_s)
        self.trouble: str | None = None
        """Reason of the failure of the last request; ``None`` if it succeeded."""

        self._url = url
        self._interval_s = interval_s
        self._now = now
        self._refused = 0
        self._not_before_ns: int | None = None
        self._opener = urllib.request.OpenerDirector()
        for handler in _HANDLERS:
            self._opener.add_handler(handler())

    def poll(self) -> None:
        """Request the page once and add its reading; do nothing during a pause after a failure."""
        if self._not_before_ns is not None and self._now() < self._not_before_ns:
            return
        try:
            reading = _read(self._fetch())
        except TimeoutError:
            # The server is reachable but busy. The next sample is most useful then, so there is
            # no pause.
            self._failed("did not answer in time")
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()
            self._pause()
            self._failed(f"does not answer: {_reason(error)}")
        except ValueError as error:
            self._pause()
            self._failed(f"cannot be read: {error}")
        else:
            self._refused, self._not_before_ns, self.trouble = 0, None, None
            self.history.add(self._now(), reading)

    def _fetch(self) -> str:
        """
        Request the page and return its text.

        Raises:
            TimeoutError: The server accepted the request or began to respond, and did not finish
                in time.
            OSError: There is no response, or it is not a page.
            HTTPException: The response is not valid HTTP.
            ValueError: The page is too long.
        """
        timeout_s = self._interval_s * _SHARE_OF_INTERVAL
        deadline = time.monotonic() + timeout_s
        body = bytearray()
        with self._opener.open(self._url, timeout=timeout_s) as response:
            while piece := response.read1(_PIECE):
                body += piece
                if len(body) > _MAX_PAGE_BYTES:
                    raise ValueError(f"longer than {_MAX_PAGE_BYTES} bytes")
                # The timeout applies to a single read: a server that sends byte by byte would be
                # read for ever.
                if time.monotonic() > deadline:
                    raise TimeoutError
            if response.length:
                raise IncompleteRead(bytes(body), response.length)
        return body.decode("utf-8", errors="replace")

    def _pause(self) -> None:
        self._refused += 1
        pause_s = min(self._interval_s * 2.0 ** min(self._refused - 1, 30), _MAX_PAUSE_S)
        # Subtract half an interval, so that the poll that is due then is not just too early.
        self._not_before_ns = self._now() + round((pause_s - self._interval_s / 2) * NS_PER_S)

    def _failed(self, what: str) -> None:
        self.history.interrupted()
        self.trouble = f"{address(self._url)} {foreign(what, max_length=_MAX_REASON_LENGTH)}"


def _read(text: str) -> Sample:
    """Return the reading on a page, whether it contains slots or metrics."""
    return read_slots(text) if text.lstrip()[:1] in ("[", "{") else read_metrics(text)


def _reason(error: Exception) -> str:
    """Return the reason for an error, in the error's own words if it has any."""
    if isinstance(error, URLError) and isinstance(error.reason, TimeoutError | socket.gaierror):
        return "no connection" if isinstance(error.reason, TimeoutError) else "no such host"
    return str(error) or type(error).__name__


class Server:
    """
    Server that is scraped.

    Args:
        interval_s: Seconds between two polls, more than 0.
        now: Function that returns the clock's monotonic time, in nanoseconds.
    """

    def __init__(self, *, interval_s: float, now: Callable[[], int]) -> None:
        self._interval_s = interval_s
        self._now = now
        self._warned = False
        self.pages: list[ScrapeTarget] = []

    def add(self, urls: Iterable[str]) -> None:
        """Add pages to scrape."""
        self.pages += [
            ScrapeTarget(url, interval_s=self._interval_s, now=self._now) for url in urls
        ]

    def poll(self) -> None:
        """Scrape each page once; the first time that all of them fail, log a warning."""
        for page in self.pages:
            # An internal error of latspan on one page must not prevent scraping the others.
            with handle_internal_errors("reading a server's page"):
                page.poll()
        troubles = [page.trouble for page in self.pages]
        if not self._warned and None not in troubles:
            self._warned = True
            warn_once(f"no configured server can be scraped: {'; '.join(filter(None, troubles))}")
