"""The address of an endpoint, and what its errors may show."""

from __future__ import annotations

import asyncio
import socket

import pytest

from latspan._load import _endpoint_sender
from latspan._load._endpoint import Endpoint, HttpAnswer
from latspan.errors import ConfigError, MeasurementError


@pytest.mark.parametrize(
    ("url", "host", "port", "shown"),
    [
        ("http://localhost:8000/v1", "localhost", 8000, None),
        ("http://localhost:8000/v1/", "localhost", 8000, "http://localhost:8000/v1"),
        ("http://localhost:8000", "localhost", 8000, None),
        (
            "https://api.openai.com/v1/chat/completions",
            "api.openai.com",
            443,
            "https://api.openai.com/v1",
        ),
        ("http://[::1]:9/v1", "::1", 9, None),
        ("http://[::1]:80/v1", "::1", 80, "http://[::1]/v1"),
        ("https://h:443/v1", "h", 443, "https://h/v1"),
    ],
)
def test_a_url_is_taken_apart(url: str, host: str, port: int, shown: str | None) -> None:
    """With or without the path of the chat completions, and the default port."""
    endpoint = Endpoint.from_url(url)
    assert (endpoint.host, endpoint.port, endpoint.url) == (host, port, shown or url)
    assert endpoint.chat_url == f"{endpoint.url}/chat/completions"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/v1",
        "http://",
        "http://h:x/v1",
        "http://u:secret@h/v1",
        "http://h/v1?key=s3",
        "http://h/\u20ac",
        "http://h/v1#secret",
        "http://h/v1;k=secret",
    ],
)
def test_anything_else_is_refused_without_showing_a_secret(url: str) -> None:
    """Credentials belong into a variable."""
    with pytest.raises(ConfigError) as caught:
        Endpoint.from_url(url)
    assert "secret" not in str(caught.value)
    assert "s3" not in str(caught.value)


def test_the_key_is_sent_and_not_shown() -> None:
    """Neither the representation nor a text of the server has it."""
    endpoint = Endpoint.from_url("http://h/v1", api_key="abc123def456")
    assert endpoint.headers()["Authorization"] == "Bearer abc123def456"
    assert "abc123" not in repr(endpoint)
    assert endpoint.without_key("no access for abc123def456") == "no access for ***"
    assert endpoint.without_key("Incorrect key sk-proj-AbC_123***789.") == "Incorrect key ***"


@pytest.mark.parametrize(
    "response", ["no: my-Private-45…", "no: bXktUHJpdmF0ZS00NTY3", "no: my-Private-4567"]
)
def test_no_part_of_the_key_that_a_server_repeats_is_shown(response: str) -> None:
    """Neither its beginning, nor its Base64 form."""
    endpoint = Endpoint.from_url("http://h/v1", api_key="my-Private-4567")
    assert endpoint.without_key(response).startswith("no: ***")
    assert "Private" not in endpoint.without_key(response)


def test_a_key_in_the_path_is_sent_and_not_shown() -> None:
    """A part of the path that reads like a key is hidden in messages and recordings."""
    endpoint = Endpoint.from_url("http://h/my-secret-KEY-4711/v1")
    assert endpoint.chat_url == "http://h/my-secret-KEY-4711/v1/chat/completions"
    assert endpoint.shown == "http://h/***/v1"


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        (b'{"data": [{"id": "a"}, {"id": "b"}]}', ["a", "b"]),
        (b'{"data": {}}', []),
        (b"[]", []),
        (b"<html>", []),
        (b'{"data": [{"name": "a"}]}', []),
    ],
)
def test_models_are_read_from_their_list(body: bytes, ids: list[str]) -> None:
    """Anything else has none."""
    assert HttpAnswer(200, body).model_ids == ids


def test_a_server_that_does_not_list_its_models_in_time_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error has a reason, and the hint avoids the request."""
    monkeypatch.setattr(_endpoint_sender, "_MODELS_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint.from_url(f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        with pytest.raises(
            MeasurementError, match=r"did not list its models within 0\.05 s"
        ) as caught:
            asyncio.run(_endpoint_sender.find_model(endpoint))
    assert caught.value.hint is not None
    assert "--model" in caught.value.hint
