"""Server addresses are parsed into the server of a call and the pages to scrape."""

from __future__ import annotations

import pytest

from latspan._live.scraping import Address, address_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "http://127.0.0.1:8080",
            Address(
                ("127.0.0.1", 8080),
                ("http://127.0.0.1:8080/metrics", "http://127.0.0.1:8080/slots"),
            ),
        ),
        ("http://GPU1/", Address(("gpu1", 80), ("http://GPU1/metrics", "http://GPU1/slots"))),
        ("https://gpu1/metrics", Address(("gpu1", 443), ("https://gpu1/metrics",))),
        ("http://gpu1:1/a/slots?x=1", Address(("gpu1", 1), ("http://gpu1:1/a/slots?x=1",))),
        (
            "http://[::1]:8080",
            Address(("::1", 8080), ("http://[::1]:8080/metrics", "http://[::1]:8080/slots")),
        ),
    ],
)
def test_an_address_without_a_path_means_both_pages(text: str, expected: Address) -> None:
    """A path selects one page; the server is written as in the span of a call."""
    assert address_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpu1:8080",
        "ftp://gpu1",
        "http://",
        "http://gpu1:x",
        "http://me:secret@gpu1",
        "file:///",
    ],
)
def test_invalid_addresses_are_refused(text: str) -> None:
    """So are addresses with credentials, because these would not be sent."""
    with pytest.raises(ValueError, match=r"address|[Pp]ort"):
        address_of(text)
