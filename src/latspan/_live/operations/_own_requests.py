"""
Rules that determine which requests on a transport are attempts of the open call.

A call is open for transports until its client library's method returns. A request sent later, by
a task that was started inside the call and inherited its context, is not part of it. While the
call is open, a request is an attempt of it in three cases.

1. *The client library sends it.* An SDK's integration registers each request that the call's
   client builds, and the transport compares object identity: a URL that a hook rewrote does not
   matter, and the token request of an ``httpx.Auth`` or a credential is another object. If the
   SDK's own HTTP library is not instrumented, another HTTP library may send the registered
   request in an object of its own; :meth:`SentRequest.carries` recognizes it. A request that is
   sent before the client has built one is not an attempt. If the client that builds the requests
   is unknown, every request to the call's server is an attempt.
2. *It follows a redirect* that was the response to an attempt.
3. *It is sent inside an attempt in progress and forwards it*: a transport inside a transport.
   In the task or thread of the call it may have another body if the method and path are the same.

Every other request is an HTTP exchange of its own, for example a request of another task, or a
token request of a transport, regardless of the server.

One request that forwards an attempt is part of that attempt. A second such request, after the first
or at the same time, is another attempt: see :meth:`latspan._live.instrument.Exchange.send_begins`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote, urljoin, urlsplit

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
"""HTTP status codes of a response that names another URL for the request."""


class SentRequest(NamedTuple):
    """
    A request as a transport receives it.

    Args:
        request: Request object of the HTTP library, ``None`` if it has none.
        method: HTTP method.
        scheme: ``http`` or ``https``.
        host: Host name or address.
        port: Port.
        path: Path, without the query.
        body: Body, ``None`` if it is not available as bytes.
    """

    request: object
    method: str
    scheme: str
    host: str
    port: int
    path: str
    body: bytes | None

    def carries(self, other: SentRequest) -> bool:
        """
        Return whether it forwards ``other``.

        The methods must be equal, and the bodies too. If a body is empty or unknown, the paths are
        compared instead.
        """
        if self.method != other.method:
            return False
        if self.body and other.body:
            return self.body == other.body
        return self.path == other.path

    def target_of(self, location: str) -> tuple[str, str | None, str]:
        """Return scheme, host and path of the target of a redirect of this request."""
        target = urlsplit(urljoin(self.url, location))
        return target.scheme, target.hostname, unquote(target.path) or "/"

    @property
    def url(self) -> str:
        """URL, without credentials and query."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    @property
    def target(self) -> tuple[str, str | None, str]:
        """Scheme, host and path of the request, to compare with :meth:`target_of`."""
        return self.scheme, self.host.lower(), unquote(self.path) or "/"


class UnderWay(Protocol):
    """A request in progress on a transport."""

    @property
    def sent(self) -> SentRequest:
        """The request."""
        ...


class OwnRequests:
    """
    Requests that belong to a call or an exchange.

    Args:
        server: Host and port of its requests; ``None`` if unknown.
        client: Client object of the client library, whose requests are registered.
    """

    __slots__ = ("_built", "_client", "_describe", "_server", "redirected_to", "under_way")

    def __init__(self, server: tuple[str, int] | None, client: object = None) -> None:
        self._server = server
        self._client = client
        self._built: object = None
        self._describe: Callable[[object], SentRequest] | None = None
        self.redirected_to: tuple[str, str | None, str] | None = None
        """Target of the redirect that was the latest response, if it was one."""
        self.under_way: UnderWay | None = None
        """Outermost request in progress."""

    def note(self, client: object, request: object, describe: Callable[[Any], SentRequest]) -> None:
        """
        Register a request that will be sent, if the call's client built it.

        Args:
            client: Client that built the request.
            request: Request object of the HTTP library.
            describe: Function that returns ``request`` as a :class:`SentRequest`, for a transport
                that receives another object.
        """
        if client is self._client:
            self._built, self._describe = request, describe

    def redirected(self, sent: SentRequest, status: int, headers: Any) -> None:
        """Record a redirect response, or the response to a request that followed a redirect."""
        location = headers.get("location") if status in REDIRECTS else None
        self.redirected_to = None
        if location is not None:
            # Clients do not follow a location that is not a URL.
            with suppress(ValueError):
                self.redirected_to = sent.target_of(str(location))

    def include(self, sent: SentRequest, *, in_this_context: Callable[[], bool]) -> bool:
        """
        Return whether ``sent`` belongs to the call or exchange.

        Args:
            sent: Request that a transport received.
            in_this_context: Function that returns whether the call was entered in the current
                context itself. It is false in a copy of that context, as a task or thread inherits.
        """
        built = self._built
        if built is not None and sent.request is built:
            return True
        if self.redirected_to is not None and sent.target == self.redirected_to:
            return True
        if self.under_way is not None:
            outer = self.under_way.sent
            return sent.carries(outer) or (
                (sent.method, sent.path) == (outer.method, outer.path) and in_this_context()
            )
        if self._describe is not None:
            return sent.carries(self._describe(built))
        # A client that has not built a request yet may send one for another purpose, for example
        # to get a token.
        return self._client is None and self._server in {None, (sent.host, sent.port)}

    def let_go(self) -> None:
        """Drop references that are not needed once no more requests are sent."""
        self._client = self._built = self._describe = self.under_way = None
