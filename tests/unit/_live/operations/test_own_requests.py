"""Which requests are a call's own, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from latspan._live.operations._own_requests import OwnRequests, SentRequest

CLIENT = object()
SENT = SentRequest(object(), "POST", "https", "model.test", 443, "/v1/chat", b"{}")


class _UnderWay:
    """An attempt that has begun and not ended."""

    sent = SENT


def _includes(own: OwnRequests, sent: SentRequest, *, here: bool = True) -> bool:
    return own.include(sent, in_this_context=lambda: here)


def _noted() -> OwnRequests:
    own = OwnRequests(("model.test", 443), CLIENT)
    own.note(CLIENT, SENT.request, lambda _: SENT)
    return own


ELSEWHERE: Any = {"request": None, "host": "other.test", "path": "/x"}


@pytest.mark.parametrize(
    ("changes", "is_own"),
    [
        ({"host": "other.test", "path": "/x"}, True),
        ({"request": None}, True),
        (ELSEWHERE, True),
        ({"request": None, "body": None}, True),
        ({"request": None, "body": b"another"}, False),
        ({**ELSEWHERE, "body": None}, False),
        ({"request": None, "method": "GET", "body": b""}, False),
    ],
    ids=[
        "rewritten",
        "through another library",
        "the body alone",
        "the path alone",
        "another question",
        "neither body nor path",
        "another method",
    ],
)
def test_what_an_sdk_has_built(changes: dict[str, Any], is_own: bool) -> None:
    """By the object first; of another library's by what it sends."""
    assert _includes(_noted(), SENT._replace(**changes)) is is_own


def test_what_another_client_has_built_is_not_noted() -> None:
    """The call goes on to know its own."""
    own = _noted()
    other = SENT._replace(request=object(), path="/models", method="GET", body=b"")
    own.note(object(), other.request, lambda _: other)
    assert _includes(own, SENT)
    assert not _includes(own, other)


@pytest.mark.parametrize(("host", "is_own"), [("model.test", True), ("other.test", False)])
def test_without_a_note_it_is_what_goes_to_the_server(host: str, is_own: bool) -> None:
    """And everything, if the server is not known either."""
    sent = SENT._replace(host=host, path="/token")
    assert _includes(OwnRequests(("model.test", 443)), sent) is is_own
    assert _includes(OwnRequests(None), sent)


@pytest.mark.parametrize(
    ("status", "location", "is_own"),
    [
        (303, "http://other.test/x", True),
        (303, "//other.test/x", False),
        (200, "http://other.test/x", False),
        (303, "http://other.test/%78?a=b#c", True),
        (303, "http://[", False),
    ],
)
def test_where_a_redirect_leads(status: int, location: str, is_own: bool) -> None:
    """Whatever its method and body."""
    own = _noted()
    own.redirected(SENT, status, {"location": location})
    target = SentRequest(None, "GET", "http", "other.test", 80, "/x", b"")
    assert _includes(own, target) is is_own


@pytest.mark.parametrize("here", [True, False], ids=["in its task", "in another"])
def test_what_is_sent_inside_an_attempt(here: bool) -> None:
    """It carries the attempt on by its body; by its path alone in the same task only."""
    own = OwnRequests(("model.test", 443))
    own.under_way = _UnderWay()
    assert _includes(own, SENT._replace(**ELSEWHERE), here=here)
    assert _includes(own, SENT._replace(request=None, body=b"rewritten"), here=here) is here
    assert not _includes(own, SENT._replace(request=None, path="/token", body=b"a=b"), here=here)


def test_an_ipv6_address_stands_in_brackets() -> None:
    """In a URL, and so where a relative redirect is resolved."""
    sent = SENT._replace(host="::1", port=8080)
    assert sent.url == "https://[::1]:8080/v1/chat"
    assert sent.target_of("/there") == ("https", "::1", "/there")


def test_what_is_sent_before_the_client_has_built_a_request() -> None:
    """It is not the call's, whatever its server: an SDK fetches a token, for example."""
    own = OwnRequests(("model.test", 443), CLIENT)
    assert not _includes(own, SENT._replace(method="GET", path="/oauth/token"))
    assert _includes(OwnRequests(("model.test", 443)), SENT)
