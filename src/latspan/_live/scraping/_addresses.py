"""Parsing of configured server addresses: the server and the pages to scrape."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_PAGES: Final = ("/metrics", "/slots")


class Address(NamedTuple):
    """
    Address of a server to scrape.

    Args:
        server: Host, in lower case, and port, as in the attributes of a call's span.
        pages: The URLs to scrape.
    """

    server: tuple[str, int]
    pages: tuple[str, ...]


def address_of(text: str) -> Address:
    """
    Return the server and the pages that a configured address refers to.

    Args:
        text: An ``http://`` or ``https://`` URL; without a path it refers to both known pages.

    Raises:
        ValueError: It is not such a URL, or contains a user name or password, which latspan would
            not send.
    """
    parts = urlsplit(text)
    default_port = _DEFAULT_PORTS.get(parts.scheme)
    if default_port is None or not parts.hostname or parts.username is not None:
        raise ValueError("not an http:// or https:// address without a user name")
    server = parts.hostname, parts.port or default_port
    if parts.path.strip("/"):
        return Address(server, (text,))
    base = f"{parts.scheme}://{parts.netloc}"
    return Address(server, tuple(base + page for page in _PAGES))
