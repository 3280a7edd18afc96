"""The body of an answer as the server takes it, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from latspan.integrations import ServerRequest

__all__ = ["Body", "SizedBody"]


class Body:
    """
    What stands in for the body that the application returned.

    Args:
        parts: The application's own.
        served: The request that it answers.
    """

    def __init__(self, parts: Iterable[bytes], served: ServerRequest) -> None:
        self._parts = parts
        self._served = served
        self._begun = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield the parts; until it is asked for the next, the server writes one."""
        served = self._served
        self._begun = True
        try:
            for part in self._parts:
                before_ns = served.now()
                yield part
                streams = "content-length" not in served.headers
                served.wrote(before_ns, begins_a_stream=streams and bool(part))
        except GeneratorExit:
            served.disconnected()
            raise
        except BaseException as error:
            served.failed(error)
            raise
        served.sent()

    def close(self) -> None:
        """Hear that the server is done with it, and close the application's own."""
        close: Any = getattr(self._parts, "close", None)
        try:
            if close is not None:
                close()
        finally:
            # Where it was read to its end, that was the end already.
            if self._begun:
                self._served.disconnected()
            else:
                # There is none to send: to a HEAD, say.
                self._served.sent()
            self._served.leave()


class SizedBody(Body):
    """The same where the application's own body knows how many parts it has."""

    def __len__(self) -> int:
        """Return how many parts there are; servers ask whoever has this method."""
        return len(self._parts)  # type: ignore[arg-type]
