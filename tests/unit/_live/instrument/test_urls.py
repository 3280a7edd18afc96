"""The variables that exclude URLs are read as OpenTelemetry's own instrumentations read them."""

from __future__ import annotations

import pytest
from opentelemetry.util.http import get_excluded_urls

from latspan._live.instrument import is_excluded
from latspan.testing import capture

URLS = ["https://api.test/health", "https://api.test/v1/chat?x=health", "http://10.0.0.1:8080/"]
ALL = "OTEL_PYTHON_EXCLUDED_URLS"
ONE = "OTEL_PYTHON_HTTPX_EXCLUDED_URLS"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {ALL: ""},
        {ALL: "health"},
        {ALL: "/health$, ^http://"},
        {ALL: "api", ONE: "chat"},
        {ALL: "api", ONE: ""},
        {ONE: r"\d+\.0"},
    ],
)
def test_the_same_is_excluded(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    """By the library's own variable if it is set, even to nothing, and else by the general one."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    official = get_excluded_urls("HTTPX")
    with capture():
        excluded = [is_excluded(lambda url=url: url, "HTTPX") for url in URLS]
    assert excluded == [official.url_disabled(url) for url in URLS]


def test_an_integration_that_stands_for_two_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is excluded for one is excluded for both."""
    monkeypatch.setenv("OTEL_PYTHON_REQUESTS_EXCLUDED_URLS", "health")
    monkeypatch.setenv(ALL, "chat")
    with capture():
        excluded = [is_excluded(lambda url=url: url, "REQUESTS", "URLLIB3") for url in URLS]
    assert excluded == [True, True, False]


def test_what_is_no_pattern_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of the list still counts, and an empty entry excludes nothing."""
    monkeypatch.setenv(ALL, "(,health$,")
    with capture():
        assert [is_excluded(lambda url=url: url, "HTTPX") for url in URLS] == [True, True, False]
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{ALL} is partly ignored: '(' is not a pattern")


def test_nothing_is_looked_up_before_latspan_is_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then nothing is recorded either."""
    monkeypatch.setenv(ALL, "health")
    assert not is_excluded(lambda: URLS[0], "HTTPX")
