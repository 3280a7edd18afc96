"""Where a server is asked: which of its pages, by the address that somebody configured."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

__all__ = ["Address", "address_of"]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_PAGES: Final = ("/metrics", "/slots")


class Address(NamedTuple):
    """
    A server to sample.

    Args:
        server: Its host, in lower case, and its port: what a call's span says of where it went.
        pages: The URLs to ask.
    """

    server: tuple[str, int]
    pages: tuple[str, ...]


def address_of(text: str) -> Address:
    """
    Return the server and the pages that an address means.

    Args:
        text: An ``http://`` or ``https://`` URL; without a path both known pages.

    Raises:
        ValueError: It is none, or holds a user or a password, which would not be sent.
    """
    parts = urlsplit(text)
    default_port = _DEFAULT_PORTS.get(parts.scheme)
    if default_port is None or not parts.hostname or parts.username is not None:
        raise ValueError("no http:// or https:// address without a user")
    server = parts.hostname, parts.port or default_port
    if parts.path.strip("/"):
        return Address(server, (text,))
    base = f"{parts.scheme}://{parts.netloc}"
    return Address(server, tuple(base + page for page in _PAGES))
