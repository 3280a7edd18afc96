"""One page of a server: asked once an interval, unless the server is not there."""

from __future__ import annotations

import socket
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, IncompleteRead
from typing import Final
from urllib.error import HTTPError, URLError

from latspan._scraping._prometheus import read_metrics
from latspan._scraping._sample_buffer import Reading, SampleBuffer
from latspan._scraping._slots import read_slots
from latspan._shown import address, foreign
from latspan._units import NS_PER_S

__all__ = ["ScrapeTarget"]

_LONGEST: Final = 4 * 1024 * 1024
"""Bytes of a page: ten times what a server with many models says."""

_PIECE: Final = 64 * 1024
_LONGEST_REASON: Final = 200
_LONGEST_PAUSE_S: Final = 30.0
_SHARE_OF_INTERVAL: Final = 0.8
"""How much of the interval there is for an answer; the rest is for reading it."""


_HANDLERS: Final = (
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.HTTPDefaultErrorHandler,
)
"""No proxy, whatever the environment says, and nobody is followed to where nobody asked to go."""


class ScrapeTarget:
    """
    A page that says something about a server.

    Args:
        url: Its address.
        interval_s: Seconds between two polls, more than 0.
        now: The clock's monotonic reading, in nanoseconds.
    """

    def __init__(self, url: str, *, interval_s: float, now: Callable[[], int]) -> None:
        self.history = SampleBuffer(interval_s)
        self.trouble: str | None = None
        """Why it said nothing when it was asked last."""

        self._url = url
        self._interval_s = interval_s
        self._now = now
        self._refused = 0
        self._not_before_ns: int | None = None
        self._opener = urllib.request.OpenerDirector()
        for handler in _HANDLERS:
            self._opener.add_handler(handler())

    def poll(self) -> None:
        """Ask once, and keep what is said; do nothing where it is too early to ask again."""
        if self._not_before_ns is not None and self._now() < self._not_before_ns:
            return
        try:
            reading = _read(self._fetch())
        except TimeoutError:
            # It is there and has others to do: just then the next sample is worth having.
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
        Return the page's text.

        Raises:
            TimeoutError: It began to answer, or took the question, and was not done in time.
            OSError: There is no answer, or it is no page.
            HTTPException: What answers does not speak HTTP.
            ValueError: The page is too long.
        """
        timeout_s = self._interval_s * _SHARE_OF_INTERVAL
        deadline = time.monotonic() + timeout_s
        body = bytearray()
        with self._opener.open(self._url, timeout=timeout_s) as answer:
            while piece := answer.read1(_PIECE):
                body += piece
                if len(body) > _LONGEST:
                    raise ValueError(f"longer than {_LONGEST} bytes")
                # The timeout is of one read: who sends byte by byte would be read for ever.
                if time.monotonic() > deadline:
                    raise TimeoutError
            if answer.length:
                raise IncompleteRead(bytes(body), answer.length)
        return body.decode("utf-8", errors="replace")

    def _pause(self) -> None:
        self._refused += 1
        pause_s = min(self._interval_s * 2.0 ** min(self._refused - 1, 30), _LONGEST_PAUSE_S)
        # Half an interval less, so that the poll that is due then is not just too early.
        self._not_before_ns = self._now() + round((pause_s - self._interval_s / 2) * NS_PER_S)

    def _failed(self, what: str) -> None:
        self.history.interrupted()
        self.trouble = f"{address(self._url)} {foreign(what, longest=_LONGEST_REASON)}"


def _read(text: str) -> Reading:
    """Return what a page says, whichever it is."""
    return read_slots(text) if text.lstrip()[:1] in ("[", "{") else read_metrics(text)


def _reason(error: Exception) -> str:
    """Return why, in the words of whoever said so."""
    if isinstance(error, URLError) and isinstance(error.reason, TimeoutError | socket.gaierror):
        return "no connection" if isinstance(error.reason, TimeoutError) else "no such host"
    return str(error) or type(error).__name__
