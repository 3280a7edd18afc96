"""JSON over HTTP from a backend: bounded in time and size, and with one clear error."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final

from latspan._base.shown import address, foreign
from latspan.errors import ConfigError

_TIMEOUT_S: Final = 30.0
_MAX_RESPONSE_BYTES: Final = 128 * 1024 * 1024
_MAX_REASON_LENGTH: Final = 2_000


def is_url(path: str) -> bool:
    """Return whether a source is the URL of a server."""
    return path.startswith(("http://", "https://"))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error, because the headers may hold credentials for this host only."""

    def redirect_request(self, *args: Any, **others: Any) -> None:
        """Return no request to another address."""


class JsonServer:
    """
    A server that answers in JSON.

    Args:
        url: Its address, with the path under which its API is, if any, and perhaps a user and a
            password.
        what: Name of the program that it is, for an error.
        hint: How to mend a wrong address.
        headers: Headers of each request, for example a tenant or a token.

    Raises:
        ConfigError: The URL or a header is invalid.
    """

    def __init__(
        self, url: str, what: str, hint: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._what, self._hint = what, hint
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._headers = {"Accept": "application/json", **(headers or {})}
        try:
            parts = urllib.parse.urlsplit(url)
            if not parts.hostname:
                raise ValueError("it names no host")
            if parts.username is not None:
                user = urllib.parse.unquote(parts.username)
                password = urllib.parse.unquote(parts.password or "")
                token = base64.b64encode(f"{user}:{password}".encode()).decode()
                self._headers.setdefault("Authorization", f"Basic {token}")
            host = parts.netloc.rpartition("@")[2]
            self._url = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
            for name, value in self._headers.items():
                f"{name}{value}".encode("latin-1")
        except ValueError as error:
            raise ConfigError(f"{address(url)} is not a valid URL", hint=hint) from error

    @property
    def name(self) -> str:
        """Address of the server for a message, without credentials."""
        return address(self._url)

    def get(self, path: str, **parameters: str | int) -> Any:
        """
        Return the answer of a GET request; ``None`` if the server has nothing there (404).

        Args:
            path: Path after the server's address.
            parameters: Parameters of the query; a dot in a name is written as ``__``.

        Raises:
            ConfigError: The server does not answer, or not in JSON.
        """
        named = {name.replace("__", "."): value for name, value in parameters.items()}
        query = f"?{urllib.parse.urlencode(named)}" if named else ""
        return self._json(self._request(f"{path}{query}", None, absent=True))

    def post(self, path: str, **fields: str) -> Any:
        """
        Return the answer of a POST request with the fields of a form.

        Raises:
            ConfigError: The server does not answer, or not in JSON.
        """
        return self._json(self._request(path, urllib.parse.urlencode(fields).encode()))

    def has(self, path: str) -> bytes | None:
        """
        Return the answer of a path, ``None`` if the server refuses it.

        Raises:
            ConfigError: The server does not answer at all.
        """
        return self._request(path, None, refused=True)

    def error(self, what: str, hint: str | None = None) -> ConfigError:
        """Return an error that names the server."""
        return ConfigError(f"{self.name} {what}", hint=hint or self._hint)

    def _json(self, text: bytes | None) -> Any:
        if text is None:
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.error(f"does not answer as {self._what} does") from error

    def _request(
        self, path: str, body: bytes | None, *, absent: bool = False, refused: bool = False
    ) -> bytes | None:
        try:
            request = urllib.request.Request(  # noqa: S310 - is_url() allows only http(s)
                f"{self._url}{path}", data=body, headers=self._headers
            )
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                text = response.read(_MAX_RESPONSE_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                reason = foreign(error.read(_MAX_REASON_LENGTH).decode("utf-8", "replace"))
            moved_to = error.headers.get("Location")
            if moved_to and 300 <= error.code < 400:
                raise self.error(f"redirects to {address(moved_to)}") from error
            if refused or (absent and error.code == 404):
                return None
            raise self.error(f"answered {error.code}: {reason}") from error
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise self.error(f"does not answer: {foreign(str(reason))}") from error
        if len(text) > _MAX_RESPONSE_BYTES:
            megabytes = _MAX_RESPONSE_BYTES // 1024**2
            raise self.error(
                f"answers with more than {megabytes} MiB", "ask for fewer traces or less time"
            )
        return text
