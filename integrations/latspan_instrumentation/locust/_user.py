"""
The user class, and the recording of its process.

**Processes.** Locust imports the user's file in every process, also in the master of a distributed
run, which sends no requests. A recording begins with the event ``test_start`` of a process that
runs users, and ends with its event ``quitting``. A test that is started again in the web interface
continues the recording.

Locust replaces the standard library's threads by greenlets, also those of latspan. They run when
a user waits for its server.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import locust
from locust.runners import MasterRunner

import latspan

_events: Final[Any] = locust.events
"""Locust's events, which have no types."""

_MS_PER_S: Final = 1000.0
_NAME: Final = "latspan"
"""Type of the requests in Locust's own tables."""


class LatspanUser(locust.User):
    """
    User whose requests are recorded; a base class like ``locust.HttpUser``.

    Tasks call a client library as an application does, inside ``with self.request("name"):``.
    """

    abstract = True

    @contextmanager
    def request(self, name: str) -> Generator[latspan.OpenScope]:
        """
        Record the block as one request of this user, also in Locust's tables.

        An exception counts as a failure, and does not stop the user: Locust catches the exceptions
        of a task.

        Args:
            name: Name of the request.

        Yields:
            The open request, to which attributes can be added.
        """
        began = time.perf_counter()
        try:
            with latspan.request(name) as scope:
                yield scope
        except Exception as error:
            self._count(name, began, error)
            raise
        # A user that Locust stops is interrupted in its request, which does not count.
        self._count(name, began, None)

    def _count(self, name: str, began: float, error: Exception | None) -> None:
        """Add a request to Locust's own tables."""
        _events.request.fire(
            request_type=_NAME,
            name=name,
            response_time=(time.perf_counter() - began) * _MS_PER_S,
            response_length=0,
            exception=error,
            context={},
        )


@_events.init_command_line_parser.add_listener
def _add_option(parser: ArgumentParser, **_: Any) -> None:
    parser.add_argument(
        "--latspan-record",
        metavar="FOLDER",
        default="",
        help="Folder of the recording; every worker process adds its files. Without it, nothing is"
        " recorded.",
    )


@_events.test_start.add_listener
def _begin(environment: Any, **_: Any) -> None:
    folder = getattr(environment.parsed_options, "latspan_record", "")
    if not folder or isinstance(environment.runner, MasterRunner):
        return
    latspan.configure(record_dir=folder, record_rate_limit=None, export_enabled=False)
    latspan.auto_instrument()


@_events.quitting.add_listener
def _end(**_: Any) -> None:
    latspan.shutdown()
