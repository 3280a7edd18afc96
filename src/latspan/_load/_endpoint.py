"""Address of an OpenAI-compatible endpoint: URLs, credentials, TLS, and the list of its models."""

from __future__ import annotations

import base64
import json
import re
import ssl
from dataclasses import dataclass, field
from typing import Any, Final, Self, cast
from urllib.parse import quote, urlsplit

from latspan._base.shown import HIDDEN, address, without_repeats
from latspan._version import __version__
from latspan.errors import ConfigError

_CHAT: Final = "/chat/completions"
_PORTS: Final = {"http": 80, "https": 443}
_LIKE_A_KEY: Final = re.compile(r"\b(?:sk|gsk|pk|Bearer)[-_ ][\w.*-]{6,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """
    Address of an OpenAI-compatible endpoint.

    Args:
        scheme: ``http`` or ``https``.
        host: Name or address of the server.
        port: Its port.
        base_path: Path of the API, for example ``/v1``; without a slash at its end.
        api_key: Value of the ``Authorization`` header; it is never shown or recorded.
    """

    scheme: str
    host: str
    port: int
    base_path: str
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def from_url(cls, url: str, *, api_key: str | None = None) -> Self:
        """
        Return the endpoint at ``url``, with or without ``/chat/completions`` at its end.

        Raises:
            ConfigError: It is not an HTTP URL, or contains credentials.
        """
        shown = address(url)
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"'{shown}' is not a URL: {error}", hint=_EXAMPLE) from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ConfigError(f"'{shown}' is not an http or https URL", hint=_EXAMPLE)
        if parts.username is not None or set(url) & set("?#;"):
            raise ConfigError(
                f"the URL '{shown}' has credentials, a query, path parameters or a fragment",
                hint="pass the key in the variable OPENAI_API_KEY, or name another variable with"
                " --api-key-env",
            )
        if not parts.path.isascii():
            raise ConfigError(
                f"the path of the URL '{shown}' has characters that HTTP does not allow",
                hint="percent-encode them, for example é as %C3%A9",
            )
        return cls(
            scheme=parts.scheme,
            host=parts.hostname,
            port=_PORTS[parts.scheme] if port is None else port,
            base_path=parts.path.rstrip("/").removesuffix(_CHAT),
            api_key=api_key,
        )

    @property
    def chat_url(self) -> str:
        """URL of the chat completions."""
        return f"{self.url}{_CHAT}"

    @property
    def models_url(self) -> str:
        """URL of the list of models."""
        return f"{self.url}/models"

    @property
    def url(self) -> str:
        """URL of the API."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.base_path}"

    @property
    def shown(self) -> str:
        """URL of the API as messages and recordings show it, without keys in its path."""
        return address(self.url)

    def without_key(self, text: str) -> str:
        """Return the text of a server without the parts of the key that it repeats."""
        if self.api_key is not None:
            for form in (self.api_key, _base64(self.api_key), quote(self.api_key, safe="")):
                text = without_repeats(text, form)
        return _LIKE_A_KEY.sub(HIDDEN, text)

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS settings, ``None`` for plain HTTP; ``SSL_CERT_FILE`` applies."""
        return ssl.create_default_context() if self.scheme == "https" else None

    def headers(self) -> dict[str, str]:
        """Return the headers that all requests share."""
        headers = {
            "User-Agent": f"latspan/{__version__}",
            "Accept": "text/event-stream, application/json",
            # A compressed stream could delay chunks until a block is full.
            "Accept-Encoding": "identity",
        }
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return headers


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode().rstrip("=")


_EXAMPLE: Final = "for example: latspan measure http://localhost:8000/v1"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """
    A complete response.

    Args:
        status: HTTP status.
        body: Its body.
    """

    status: int
    body: bytes

    @property
    def model_ids(self) -> list[str]:
        """Models that the list contains; empty if the body is not such a list."""
        try:
            data: Any = json.loads(self.body)["data"]
            return [str(each["id"]) for each in cast("list[dict[str, Any]]", data)]
        except (ValueError, LookupError, TypeError):
            return []
