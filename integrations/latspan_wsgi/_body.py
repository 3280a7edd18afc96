"""The body of a response, tracked as the server reads it part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from latspan._instrument import ServerRequest

__all__ = ["Body", "SizedBody"]


class Body:
    """
    Wrapper of the body that the application returned.

    Args:
        parts: The application's own body.
        served: The request that the body belongs to.
    """

    def __init__(self, parts: Iterable[bytes], served: ServerRequest) -> None:
        self._parts = parts
        self._served = served
        self._begun = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield the parts; the server writes each part before it requests the next."""
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
        """Close the application's body and end the request; the server calls this method last."""
        close: Any = getattr(self._parts, "close", None)
        try:
            if close is not None:
                close()
        finally:
            # If the body was read to its end, the request has ended already, and this call has
            # no effect.
            if self._begun:
                self._served.disconnected()
            else:
                # The server did not read the body, for example because the request is a HEAD.
                self._served.sent()
            self._served.leave()


class SizedBody(Body):
    """Wrapper of a body that has a length, its number of parts."""

    def __len__(self) -> int:
        """Return the number of parts; servers call this method if a body has it."""
        return len(self._parts)  # type: ignore[arg-type]
