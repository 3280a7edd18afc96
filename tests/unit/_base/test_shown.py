"""Foreign text is shown without credentials and control characters, and with a limited length."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._base.shown import address, foreign, location, printable, setting, without_repeats
from latspan.errors import ConfigError, ServerStartError

SECRET = "S3CRET"
letters = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("http://collector:4318/v1/traces", "http://collector:4318/v1/traces"),
        ("http://[::1]:4318", "http://[::1]:4318"),
        ("localhost:4318", "localhost:4318"),
        ("collector", "collector"),
        ("htps://user:S3CRET@host/x", "htps://***@host/x"),
        ("/:S3CRET@host:4318/x", "***@host:4318/x"),
        ("user:S3CRET@host", "***@host"),
        ("S3CRET@host", "***@host"),
        ("http://user:S3/CRET@host:4318", "http://***@host:4318"),
        ("http://user:S3?CRET@host:4318", "http://***@host:4318"),
        ("user:S3//CRET@host", "***@host"),
        ("http://user%3AS3CRET%40host", "http://***@host"),
        ("http://user:S3 CRET@host", "http://***@host"),
        ("http://user:S3CRET", "http://user:***"),
        ("http:\\\\user:S3CRET@host", "***@host"),
        ("http://host/?token=S3CRET", "http://host/"),
        ("http://host/#token=S3CRET", "http://host/"),
        ("http://host/v1/" + "a1" * 16 + "/traces", "http://host/v1/***/traces"),
        ("http://host/v1;key=S3CRET", "http://host/v1"),
        ("http://host/my-secret-4711/v1", "http://host/***/v1"),
        ("http://host/sk-S3CRETKEY/v1", "http://host/***/v1"),
        ("http://host/v1/gpt-4o-2024-11-20", "http://host/v1/gpt-4o-2024-11-20"),
        ("http://host/\x1b]0;x\x07", "http://host/\\x1b]0;x\\x07"),
    ],
)
def test_an_address_is_shown_without_credentials(written: str, shown: str) -> None:
    """Even if it is not a valid address: such addresses are shown in errors."""
    assert shown == address(written)
    assert shown == address(shown)


@given(letters, letters)
def test_no_password_of_an_address_is_shown(user: str, rest: str) -> None:
    """With any characters before and after it."""
    written = f"http://{user}:{rest}{SECRET}@host:4318/path"

    assert SECRET not in address(written)
    assert SECRET not in address(written.removeprefix("http://"))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("503 Service Unavailable", "503 Service Unavailable"),
        ("cannot write to /home/me@work/a.hlog", "cannot write to /home/me@work/a.hlog"),
        ("parsing http://user:S3 CRET@host", "parsing http://user:*** ***@host"),
        ("url: /v1/traces?api_key=S3CRET (Caused by …)", "url: /v1/traces (Caused by …)"),
        ("invalid api-key: S3CRET.", "invalid api-key: ***"),
        ('{"access_token": "S3 CRET", "b": 1}', '{"access_token": ***, "b": 1}'),
        ("Authorization: Basic S3CRET is wrong", "Authorization: *** is wrong"),
        ("it sent Bearer S3CRETS3CRET twice", "it sent Bearer *** twice"),
        ("it sent 'Bearer\\nS3CRETS3CRET'", "it sent 'Bearer ***'"),
        ("it sent Bearer%0aS3CRETS3CRET", "it sent Bearer ***"),
        (
            "return character(s) in header value: 'Bearer a\\nS3CRET'",
            "return character(s) in header value: ***",
        ),
    ],
)
def test_a_text_is_shown_without_its_credentials(written: str, shown: str) -> None:
    """Other parts of the text are not changed."""
    assert shown == foreign(written)
    assert shown == foreign(shown)


@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("OTEL_RESOURCE_ATTRIBUTES", "a=1,api_key=S3CRET two,b=2", "a=1,api_key=***,b=2"),
        ("OTEL_RESOURCE_ATTRIBUTES", "api%5Fkey=S3CRET", "api%5Fkey=***"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "S3CRET", "set, not shown"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "user:S3 CRET@host", "***@host"),
        ("OTEL_PROPAGATORS", "tracecontext,baggage", "tracecontext,baggage"),
    ],
)
def test_a_variable_is_shown_without_secrets(variable: str, value: str, shown: str) -> None:
    """Each entry of a list is handled separately."""
    assert shown == setting(variable, value)


@given(st.text(), st.integers(3, 50))
def test_shown_text_has_no_control_characters(text: str, longest: int) -> None:
    """No C0 or C1 control character, line end or bidirectional mark, and no more than the limit."""
    shown = printable(text, max_length=longest)

    assert len(shown) <= longest
    assert {unicodedata.category(each) for each in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"} == set()
    assert shown == printable(shown, max_length=longest)
    if text.isprintable() and len(text) <= longest:
        assert shown == text


@given(st.text())
def test_foreign_text_is_limited_and_printable(text: str) -> None:
    shown = foreign(text * 20, max_length=40)

    assert shown.isprintable()
    assert len(shown) <= 40


def test_a_long_text_is_not_cut_inside_a_password() -> None:
    """The search for credentials ends at a maximum length, which may be inside an address."""
    for length in range(16_330, 16_390):
        text = "b=" + "x" * length + f" http://user:{SECRET}{SECRET}@host/"
        squeezed = foreign("api_key=" + text, max_length=1_000)
        assert SECRET[:2] not in squeezed


@pytest.mark.parametrize("text", ["a" * 100_000, "a=" * 50_000, 'a="' * 40_000, "//a@" * 40_000])
def test_a_hostile_text_is_searched_in_linear_time(text: str) -> None:
    """The patterns need only one pass."""
    assert len(foreign(text)) <= 1_000


def test_an_error_is_printable_with_any_quoted_text() -> None:
    """So is its hint; lines of a server's log remain separate lines."""
    error = ConfigError("no tag '\x1b]0;x\x07\n\u202e'", hint="say \x9b2J")
    failed = ServerStartError("it said:", log=["one\x1b[2J", "two"])

    assert str(error) == "no tag '\\x1b]0;x\\x07\\n\\u202e'\nhint: say \\x9b2J"
    assert str(failed) == "it said:\none\\x1b[2J\ntwo"
    assert len(str(ConfigError("a" * 10_000))) == 2_000


def test_a_path_is_shown_whole_and_an_address_is_not() -> None:
    """A command may get an address where it needs a path."""
    assert location("/srv/a@b/recording") == "/srv/a@b/recording"
    assert location("ftp://user:S3CRET@host/x") == "ftp://***@host/x"


@pytest.mark.parametrize(
    ("text", "secret", "shown"),
    [
        ("bad key 12345678", "12345678", "bad key ***"),
        ("bad key 123456789", "0123456789abcdef", "bad key ***"),
        ("bad key 1234567", "1234567", "bad key 1234567"),
        ("", "12345678", ""),
    ],
)
def test_what_a_text_repeats_of_a_secret_is_hidden(text: str, secret: str, shown: str) -> None:
    """From eight characters in a row on."""
    assert without_repeats(text, secret) == shown
