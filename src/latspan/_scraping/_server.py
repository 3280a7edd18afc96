"""One scraped server and its pages; not every server has all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from latspan._runtime import handle_internal_errors
from latspan._scraping._scrape_target import ScrapeTarget
from latspan._warn_once import warn_once

__all__ = ["Server"]


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
