"""The client libraries that have an integration, each asked for the same things its own way."""

from __future__ import annotations

import inspect
import ssl
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, ClassVar, Final

TIMEOUT_S: Final = 60.0
"""Time limit of a read, in seconds: no busy machine takes as long."""

_MESSAGES: Final = [{"role": "user", "content": "hello"}]
_TRUST: Final = ssl.create_default_context()
"""Made once: loading the authorities takes longer than a test."""
_OPENAI_PATH: Final = "/v1/chat/completions"


async def settled(value: Any) -> Any:
    """Return ``value``, or what it comes to where it must be awaited."""
    return await value if inspect.isawaitable(value) else value


class Client:
    """
    One client library, used synchronously or asynchronously, on a model server.

    Every method that sends or reads gives what its library gives: something to await, where the
    client is asynchronous. See :func:`settled`.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    """The packages that must be installed, the library first."""
    integrations: ClassVar[tuple[str, ...]]
    """The import packages of latspan's that instrument it."""
    path: ClassVar[str] = _OPENAI_PATH
    """Which API it asks."""
    asynchronous: ClassVar[bool] = False
    is_sdk: ClassVar[bool] = False
    """Whether it is a model's SDK, with a layer of HTTP beneath."""

    @property
    def is_installed(self) -> bool:
        """Whether this environment has it."""
        return all(find_spec(package) is not None for package in self.needs)

    @property
    def library(self) -> Any:
        """The package itself."""
        return import_module(self.needs[0])

    @abstractmethod
    def make(self, url: str, timeout_s: float = TIMEOUT_S) -> Any:
        """
        Return a client of a server.

        Args:
            url: Where the server is.
            timeout_s: The longest that a read may take, in seconds.
        """

    @abstractmethod
    def ask(self, client: Any, *, stream: bool) -> Any:
        """
        Ask for an answer.

        Args:
            client: Of :meth:`make`.
            stream: Whether it is to come in chunks, and is handed over before it is whole.
        """

    def whole(self, answer: Any) -> Any:
        """Return the content of an answer that was not asked for in chunks."""
        return answer

    @abstractmethod
    def pieces(self, answer: Any) -> Iterator[Any] | AsyncIterator[Any]:
        """Iterate an answer that was."""

    @abstractmethod
    def response(self, answer: Any) -> Any:
        """Return what has the headers of an answer that was asked for in chunks."""

    def close_answer(self, answer: Any) -> Any:
        """Close an answer that was asked for in chunks."""
        return answer.close()

    def close(self, client: Any) -> Any:
        """Close a client."""
        return client.close()

    @abstractmethod
    def misuse(self, client: Any) -> Any:
        """Ask with an argument that there is not."""

    async def refused(self, answer: Any) -> None:
        """Raise the library's error for an answer that refuses."""
        answer.raise_for_status()


class _Sdk(Client):
    is_sdk = True
    client_class: ClassVar[str]

    def make(self, url: str, timeout_s: float = TIMEOUT_S) -> Any:
        return getattr(self.library, self.client_class)(
            base_url=self.base_url(url),
            api_key="none",
            max_retries=0,
            timeout=timeout_s,
            http_client=self.http_client(timeout_s),
        )

    def http_client(self, timeout_s: float) -> Any:
        """Return what the SDK sends through."""
        kind = "Async" if self.asynchronous else ""
        make: Any = getattr(self.library, f"Default{kind}HttpxClient")
        return make(timeout=timeout_s, verify=_TRUST)

    def base_url(self, url: str) -> str:
        """Return what the SDK wants to be told."""
        return url

    def pieces(self, answer: Any) -> Iterator[Any] | AsyncIterator[Any]:
        return aiter(answer) if self.asynchronous else iter(answer)

    def response(self, answer: Any) -> Any:
        return answer.response


class _OpenAI(_Sdk):
    needs = ("openai",)
    integrations = ("latspan_openai", "latspan_httpx")

    def base_url(self, url: str) -> str:
        return f"{url}/v1"

    def ask(self, client: Any, *, stream: bool) -> Any:
        return client.chat.completions.create(model="m", messages=_MESSAGES, stream=stream)

    def misuse(self, client: Any) -> Any:
        return client.chat.completions.create(model="m", mesages=_MESSAGES)


class _SyncOpenAI(_OpenAI):
    name = "openai sync"
    client_class = "OpenAI"


class _AsyncOpenAI(_OpenAI):
    name = "openai async"
    client_class = "AsyncOpenAI"
    asynchronous = True


class _OpenAIOverAiohttp(_AsyncOpenAI):
    name = "openai over aiohttp"
    integrations = ("latspan_openai", "latspan_httpx", "latspan_aiohttp")

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        beneath = "httpx_aiohttp" if version("openai").startswith("2.") else "aiohttp"
        return ("openai", beneath)

    def http_client(self, timeout_s: float) -> Any:
        return self.library.DefaultAioHttpClient(timeout=timeout_s)


class _Anthropic(_Sdk):
    needs = ("anthropic",)
    integrations = ("latspan_anthropic", "latspan_httpx")
    path = "/v1/messages"

    def ask(self, client: Any, *, stream: bool) -> Any:
        return client.messages.create(model="m", messages=_MESSAGES, max_tokens=9, stream=stream)

    def misuse(self, client: Any) -> Any:
        return client.messages.create(model="m", mesages=_MESSAGES)


class _SyncAnthropic(_Anthropic):
    name = "anthropic sync"
    client_class = "Anthropic"


class _AsyncAnthropic(_Anthropic):
    name = "anthropic async"
    client_class = "AsyncAnthropic"
    asynchronous = True


class _Http(Client):
    def body(self, *, stream: bool) -> dict[str, Any]:
        """Return what is asked."""
        return {"model": "m", "messages": _MESSAGES, "stream": stream}

    def response(self, answer: Any) -> Any:
        return answer

    def misuse(self, client: Any) -> Any:
        return client.request("POST", self.path, nonsense=True)


class _SyncHttpx(_Http):
    name = "httpx sync"
    needs = ("httpx",)
    integrations = ("latspan_httpx",)

    def make(self, url: str, timeout_s: float = TIMEOUT_S) -> Any:
        return self.library.Client(base_url=url, timeout=timeout_s, verify=_TRUST)

    def ask(self, client: Any, *, stream: bool) -> Any:
        request = client.build_request("POST", self.path, json=self.body(stream=stream))
        return client.send(request, stream=stream)

    def whole(self, answer: Any) -> Any:
        return answer.content

    def pieces(self, answer: Any) -> Iterator[Any] | AsyncIterator[Any]:
        return answer.iter_bytes()


class _AsyncHttpx(_SyncHttpx):
    name = "httpx async"
    asynchronous = True

    def make(self, url: str, timeout_s: float = TIMEOUT_S) -> Any:
        return self.library.AsyncClient(base_url=url, timeout=timeout_s, verify=_TRUST)

    def pieces(self, answer: Any) -> Iterator[Any] | AsyncIterator[Any]:
        return answer.aiter_bytes()

    def close_answer(self, answer: Any) -> Any:
        return answer.aclose()

    def close(self, client: Any) -> Any:
        return client.aclose()


class _SyncHttpx2(_SyncHttpx):
    name = "httpx2 sync"
    needs = ("httpx2",)


class _AsyncHttpx2(_AsyncHttpx):
    name = "httpx2 async"
    needs = ("httpx2",)


class _Aiohttp(_Http):
    name = "aiohttp"
    needs = ("aiohttp",)
    integrations = ("latspan_aiohttp",)
    asynchronous = True

    def make(self, url: str, timeout_s: float = TIMEOUT_S) -> Any:
        timeout = self.library.ClientTimeout(sock_read=timeout_s)
        return self.library.ClientSession(url, timeout=timeout)

    def ask(self, client: Any, *, stream: bool) -> Any:
        return client.post(self.path, json=self.body(stream=stream))

    def whole(self, answer: Any) -> Any:
        return answer.read()

    def pieces(self, answer: Any) -> Iterator[Any] | AsyncIterator[Any]:
        return answer.content.iter_any()


class _Requests(_Http):
    name = "requests"
    needs = ("requests",)
    integrations = ("latspan_requests",)

    def make(self, url: str, timeout_s: float = TIMEOUT_S) -> Any:
        session = self.library.Session()
        # A session has neither an address nor a time limit of its own.
        session.request = _bound(session.request, url, timeout_s)
        return session

    def ask(self, client: Any, *, stream: bool) -> Any:
        return client.post(self.path, json=self.body(stream=stream), stream=stream)

    def whole(self, answer: Any) -> Any:
        return answer.content

    def pieces(self, answer: Any) -> Iterator[Any] | AsyncIterator[Any]:
        return answer.iter_content(None)


def _bound(request: Callable[..., Any], url: str, timeout_s: float) -> Callable[..., Any]:
    def request_there(method: str, path: str, **kwargs: Any) -> Any:
        return request(method, url + path, timeout=timeout_s, **kwargs)

    return request_there


class _Urllib3(_Http):
    name = "urllib3"
    needs = ("urllib3",)
    integrations = ("latspan_requests",)

    def make(self, url: str, timeout_s: float = TIMEOUT_S) -> Any:
        return self.library.connection_from_url(url, timeout=timeout_s, retries=False)

    def ask(self, client: Any, *, stream: bool) -> Any:
        return client.request(
            "POST",
            self.path,
            fields={"stream": str(stream)},
            encode_multipart=False,
            preload_content=not stream,
        )

    def whole(self, answer: Any) -> Any:
        return answer.data

    def pieces(self, answer: Any) -> Iterator[Any] | AsyncIterator[Any]:
        return answer.stream()

    async def refused(self, answer: Any) -> None:
        """Do nothing: urllib3 has no error for a refusal."""


CLIENTS: Final[tuple[Client, ...]] = (
    _SyncOpenAI(),
    _AsyncOpenAI(),
    _OpenAIOverAiohttp(),
    _SyncAnthropic(),
    _AsyncAnthropic(),
    _SyncHttpx(),
    _AsyncHttpx(),
    _SyncHttpx2(),
    _AsyncHttpx2(),
    _Aiohttp(),
    _Requests(),
    _Urllib3(),
)
