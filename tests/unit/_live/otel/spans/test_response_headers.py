"""Response headers that name a replica are recorded, and nothing that may be a secret."""

from __future__ import annotations

import pytest

from latspan._live.otel.spans import header_attributes, is_recordable


def _recorded(name: str, value: str) -> str | None:
    attributes = header_attributes({name: value}, frozenset({name}))
    if not attributes:
        return None
    ((key, values),) = attributes.items()
    assert key == f"http.response.header.{name}"
    assert isinstance(values, tuple)
    return str(values[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-served-by", "cache-iad-kiad7000123-IAD, cache-fra-etou8220099-FRA"),
        ("x-cache", "HIT, MISS"),
        ("x-cache", "MISS from proxy.example:3128"),
        ("x-envoy-upstream-cluster", "outbound|8080||vllm.models.svc.cluster.local"),
        ("x-envoy-decorator-operation", "vllm.models.svc.cluster.local:8000/*"),
        ("x-envoy-upstream-host-address", "10.0.0.5:9211"),
        ("x-pod", "vllm-llama-70b-6b8f9d7c5d-x7k2p"),
        ("x-replica", "sky-gateway-1"),
        ("x-instance", "1f0c2f9e-7d55-4b6e-9c62-0a8d3c0f1c11"),
        ("x-amz-cf-pop", "FRA56-P5"),
        ("x-ms-region", "East US"),
    ],
)
def test_what_names_a_place_is_recorded(name: str, value: str) -> None:
    """As it was received."""
    assert _recorded(name, value) == value


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        ("8f3b5c2d1e0a4b6c-FRA", "FRA"),
        ("8f3b5c2d1e0a4b6c", None),
        ("8f3b5c2d1e0a4b6c-secret", None),
        ("FRA", None),
    ],
)
def test_only_the_data_centre_of_a_ray_is_recorded(value: str, recorded: str | None) -> None:
    """The rest identifies the request."""
    assert _recorded("cf-ray", value) == recorded


@pytest.mark.parametrize(
    "value",
    [
        "",
        "   ",
        "sk-5f3a9c0d7e1b4a62",
        "eyJhbGciOiJIUzI1NiJ9.e30.x",
        "Bearer abcdefghijkl",
        "d41d8cd98f00b204e9800998ecf8427e",
        "http://user:password@replica-1",
        "https://replica-1/?signature=a",
        "api_key=abcdef",
        "replica\x1b[31m",
        "replica-\u202e1",
        "répliqué",
        "replica-1" * 1000,
    ],
)
def test_what_may_be_a_secret_is_not_recorded(value: str) -> None:
    """Nor is text that a terminal would obey."""
    assert _recorded("x-served-by", value) is None


def test_a_long_value_is_cut() -> None:
    """A chain of caches may be long."""
    value = ", ".join(f"cache-{number}" for number in range(50))
    assert _recorded("x-served-by", value) == value[:64]


def test_a_value_that_is_not_text_is_not_recorded() -> None:
    """A client library may have headers of its own types."""
    headers: dict[str, object] = {"x-served-by": b"replica-1", "x-pod": 5}
    assert header_attributes(headers, frozenset()) == {}  # pyright: ignore[reportArgumentType]


def test_other_headers_are_not_recorded() -> None:
    """Times are evidence, and ids name requests."""
    headers = {"x-envoy-upstream-service-time": "5", "x-request-id": "a", "server": "envoy"}
    assert header_attributes(headers, frozenset()) == {}


@pytest.mark.parametrize(
    "name",
    [
        *("authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"),
        *("www-authenticate", "x-auth", "x-amz-security-token", "x-secret", "location", "link"),
        *("", "two words", "x" * 65, "x-served-by:", "X-Upper"),
    ],
)
def test_a_header_that_may_hold_a_secret_cannot_be_configured(name: str) -> None:
    """Whatever its value is."""
    assert not is_recordable(name)


def test_a_header_of_the_application_can_be_configured() -> None:
    """The name of a header is a token of HTTP."""
    assert is_recordable("x-worker")
