"""
Which requests on a transport are attempts of the open call.

A call is open for transports until its client library's method returns. Whatever is sent later,
by a task that was begun inside the call and inherited its context, is no part of it. As long as
the call is open, a request is an attempt of it in three cases.

1. *The client library sends it.* An SDK's integration notes each request that the call's client
   builds, and the transport looks for that very object: an address that a hook rewrote changes
   nothing, and the token that an ``httpx.Auth`` or a credential fetches is another object. The
   request of another HTTP library, which carries the noted one where its own is not instrumented,
   is known by :meth:`SentRequest.carries`. What is sent before the client has built a request is
   no attempt. If it is unknown which client builds them, everything that goes to the call's
   server is one.
2. *It follows a redirect* with which an attempt was answered.
3. *It is sent inside an attempt under way, and carries it on*: a transport inside a transport.
   In the task or thread of the call it may have another body, as long as the path is the same.

Every other request is an HTTP exchange of its own. So the requests of another task are, and a
token that a transport fetches, whatever their server.

An attempt takes one of the requests that carry it on. A second one, after the first or at the
same time, is another attempt: see :meth:`latspan._instrument.Exchange.send_begins`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote, urljoin, urlsplit

__all__ = ["OwnRequests", "SentRequest", "UnderWay"]

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class SentRequest(NamedTuple):
    """
    One request as a transport gets it.

    Args:
        request: The HTTP library's own object, ``None`` if it has none.
        method: The HTTP method.
        scheme: ``http`` or ``https``.
        host: The host.
        port: The port.
        path: The path, without the query.
        body: The body, ``None`` if it is not at hand as bytes.
    """

    request: object
    method: str
    scheme: str
    host: str
    port: int
    path: str
    body: bytes | None

    def carries(self, other: SentRequest) -> bool:
        """Return whether it sends what ``other`` does: by method and body, or else by path."""
        if self.method != other.method:
            return False
        if self.body and other.body:
            return self.body == other.body
        return self.path == other.path

    def target_of(self, location: str) -> tuple[str, str | None, str]:
        """Return scheme, host and path that a redirect of it leads to."""
        target = urlsplit(urljoin(self.url, location))
        return target.scheme, target.hostname, unquote(target.path) or "/"

    @property
    def url(self) -> str:
        """The URL, without credentials and query."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    @property
    def target(self) -> tuple[str, str | None, str]:
        """Its own scheme, host and path, to compare with :meth:`target_of`."""
        return self.scheme, self.host.lower(), unquote(self.path) or "/"


class UnderWay(Protocol):
    """A request on its way through a transport."""

    @property
    def sent(self) -> SentRequest:
        """The request."""
        ...


class OwnRequests:
    """
    What a call or an exchange knows of the requests that are its own.

    Args:
        server: Host and port that its requests go to; ``None`` if it does not know.
        client: The client library's client, whose requests are noted.
    """

    __slots__ = ("_built", "_client", "_describe", "_redirected_to", "_server", "under_way")

    def __init__(self, server: tuple[str, int] | None, client: object = None) -> None:
        self._server = server
        self._client = client
        self._built: object = None
        self._describe: Callable[[], SentRequest] | None = None
        self._redirected_to: tuple[str, str | None, str] | None = None
        self.under_way: UnderWay | None = None
        """The outermost of the requests that are on their way."""

    def note(self, client: object, request: object, describe: Callable[[], SentRequest]) -> None:
        """
        Note a request that will be sent, if it is the call's client that built it.

        Args:
            client: The client that built it.
            request: The HTTP library's own object.
            describe: Returns what it sends, where the object is not what a transport gets.
        """
        if client is self._client:
            self._built, self._describe = request, describe

    def answered(self, sent: SentRequest, status: int, headers: Any) -> None:
        """Note the answer to an attempt: a redirect may be followed."""
        location = headers.get("location") if status in _REDIRECTS else None
        self._redirected_to = None
        if location is not None:
            # No client follows what is not a URL.
            with suppress(ValueError):
                self._redirected_to = sent.target_of(str(location))

    def include(self, sent: SentRequest, *, in_this_context: Callable[[], bool]) -> bool:
        """
        Return whether ``sent`` is one of them.

        Args:
            sent: A request that a transport is given.
            in_this_context: Whether this is the context that the call was entered in, and not
                that of a task or thread which inherited it.
        """
        built = self._built
        if built is not None and sent.request is built:
            return True
        if self._redirected_to is not None and sent.target == self._redirected_to:
            return True
        if self.under_way is not None:
            outer = self.under_way.sent
            return sent.carries(outer) or (
                (sent.method, sent.path) == (outer.method, outer.path) and in_this_context()
            )
        if self._describe is not None:
            return sent.carries(self._describe())
        # A client that has built nothing so far fetches a token, for example.
        return self._client is None and self._server in {None, (sent.host, sent.port)}

    def let_go(self) -> None:
        """Drop what is needed no longer: nothing more is sent."""
        self._client = self._built = self._describe = self.under_way = None
