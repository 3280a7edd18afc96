"""
Sanitising of foreign text, which latspan did not write, before it is displayed.

Responses of receivers, names in files, environment variables and addresses pass through here before
they reach a terminal, a log or an error. Three rules hold for every function:

- If a text is ambiguous, more of it is hidden rather than less. The part before an ``@`` is treated
  as a user and a password, and a port that is not a number as the start of a password.
- Credentials are hidden before the text is cut, so that a cut never leaves half of one behind.
- Every function is idempotent: applying it to its own result changes nothing.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"
"""Replacement for a credential."""

MAX_SHOWN: Final = 1_000
"""Maximum number of characters of one foreign text that are shown."""

_CUT: Final = "..."
_MAX_SEARCHED: Final = 16 * 1024
"""Number of characters searched for credentials; the text after them is never shown."""

_MAX_PART: Final = 31
"""Longest part of a path that is shown, in characters; a 16-byte key has 32 in hexadecimal."""

_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]*:")
_SCHEME_AT_END: Final = re.compile(r"(?:^|[^\w+.:-])[A-Za-z][\w+.-]*:$")
_AT: Final = re.compile("@|%40", re.IGNORECASE)
_WORD: Final = re.compile(r"""[^\s"'<>()]+""")
_PAIR: Final = re.compile(
    r"(?<![\w.%-])(?P<name>[\w.%-]+)(?P<is>[\"']?\s*[=:]\s*)"
    r"(?:(?:Bearer|Basic|Digest|Token|ApiKey)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(
    # A line end may be in the text, or stand there as an escape of Python or of an address.
    r"\b(Bearer|Basic)(?:\s|\\[nrt]|%0[ad]|%20)+[^\s\"',;&<>]{8,}",
    re.IGNORECASE,
)
_HEADER_VALUE: Final = re.compile(r"(header value:?\s*)(?:\"[^\"]*\"|'[^']*'|\S+)", re.IGNORECASE)
"""An HTTP library's quotation of a header that it does not accept, as ``repr`` writes it."""
_SECRET: Final = re.compile(
    r"api[._-]?key|secret|token|passw|passphrase|credential|authorization|bearer|cookie|signature"
    r"|(?:^|[._-])(?:key|auth|sig|pass|pwd|pw)(?:$|[._-])",
    re.IGNORECASE,
)
"""Parts of the names of values that are hidden."""

_LIKE_A_KEY: Final = re.compile(r"(?:sk|gsk|pk)[-_][\w.-]{6,}")
_PARAMETERS: Final = re.compile(r";[\w.%-]+=")
_MIN_REPEATED: Final = 8
"""Least number of characters in a row that are recognised as a repeated part of a secret."""

_SECRET_VARIABLE: Final = re.compile("HEADERS|KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_ADDRESS_VARIABLE: Final = re.compile("ENDPOINT|URL|PROXY")


def printable(text: str, *, max_length: int = MAX_SHOWN) -> str:
    """
    Return a text on one line, without characters that move a cursor or reverse the text.

    Control characters of both sets (C0, C1), line ends, bidirectional and other invisible
    characters, and lone surrogates are replaced by Python's escapes. A text that is too long ends
    in ``...``.

    Args:
        text: Text from any source.
        max_length: Maximum number of characters to return, at least 3.
    """
    shown = text[: max_length + 1]
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)
    return shown if len(shown) <= max_length else shown[: max_length - len(_CUT)] + _CUT


def foreign(text: str, *, max_length: int = MAX_SHOWN) -> str:
    """
    Return a foreign text in printable form, without the credentials recognised in it.

    Recognised are users and passwords in addresses, queries of addresses, values whose name is
    that of a secret (``api_key=…``, ``Authorization: …``), and bearer tokens.

    Args:
        text: A server's response, an exception's message, or a value.
        max_length: Maximum number of characters to return, at least 3.
    """
    whole = text[:_MAX_SEARCHED]
    if len(text) > _MAX_SEARCHED:
        # The last word may be half of an address, and its password would not be recognised.
        head, space, _ = whole.rpartition(" ")
        whole = head + space + _CUT
    hidden = _WORD.sub(lambda word: _without_credentials(word[0]), whole)
    hidden = _HEADER_VALUE.sub(rf"\1{HIDDEN}", hidden)
    hidden = _BEARER.sub(rf"\1 {HIDDEN}", _PAIR.sub(_without_secret, hidden))
    return printable(hidden, max_length=max_length)


def address(text: str) -> str:
    """
    Return an address without its user, password, path parameters, query and fragment.

    A part of its path that is too long to have been typed, or that reads like a key, is treated as
    a token too.

    Args:
        text: Text given as an address, valid or not.
    """
    return printable(_without_credentials(text.strip(), whole=True))


def location(text: str) -> str:
    """
    Return the path of a file or a folder, or the address that was given instead of one.

    Args:
        text: A path, which is shown whole, or an address, whose credentials are hidden.
    """
    return address(text) if "://" in text else printable(text)


def without_repeats(text: str, secret: str, *, min_length: int = _MIN_REPEATED) -> str:
    """
    Return a foreign text without the parts of a secret that it repeats.

    Args:
        text: A server's response, or an exception's message.
        secret: A key or a prompt that the other side has received. If it has fewer than eight
            characters, the text is returned as it is, because any text may contain them.
        min_length: Least number of characters in a row that count as a part of the secret.
    """
    if len(secret) < _MIN_REPEATED:
        return text
    min_length = min(min_length, len(secret))
    text = text[:_MAX_SEARCHED]
    shown: list[str] = []
    at = 0
    while at < len(text):
        end = at + min_length
        if end > len(text) or text[at:end] not in secret:
            shown.append(text[at])
            at += 1
            continue
        while end < len(text) and text[at : end + 1] in secret:
            end += 1
        shown.append(HIDDEN)
        at = end
    return "".join(shown)


def setting(variable: str, value: str) -> str:
    """
    Return the value of an environment variable, without the secrets that it may hold.

    Args:
        variable: Name of the variable.
        value: Its value; in a comma-separated list, each ``name=value`` is checked separately.
    """
    if _SECRET_VARIABLE.search(variable):
        return "set, not shown"
    if _ADDRESS_VARIABLE.search(variable):
        return address(value)
    return foreign(",".join(map(_without_value, value.split(","))))


def _without_credentials(word: str, *, whole: bool = False) -> str:
    """
    Return a word without credentials, in case the word is an address.

    Args:
        word: Text without white space, unless ``whole``.
        whole: Whether the text is an address; otherwise a port and a fragment are only
            recognised after ``//``.
    """
    head, slashes, rest = word.partition("//")
    known = _SCHEME.fullmatch(head) if whole else _SCHEME_AT_END.search(head)
    if head and not known:
        # The slashes are part of a path, or of a password.
        head, slashes, rest = "", "", word
    before = 0
    if whole or slashes or not rest.startswith("/"):
        for found in _AT.finditer(rest):
            before = found.end()
    if before > 1:
        rest = f"{HIDDEN}@{rest[before:]}"
    is_address = whole or bool(slashes)
    if whole and (parameters := _PARAMETERS.search(rest)):
        rest = rest[: parameters.start()]
    ends = "?#" if is_address else "?" if rest.startswith("/") else ""
    for mark in ends:
        rest = rest.partition(mark)[0]
    if is_address:
        host, slash, path = rest.partition("/")
        name, colon, port = host.rpartition(":")
        if colon and not host.endswith("]") and not port.isdecimal():
            host = f"{name}:{HIDDEN}" if port else host
        parts = [HIDDEN if _is_token(part) else part for part in path.split("/")]
        rest = f"{host}{slash}{'/'.join(parts)}"
    return head + slashes + rest


def _is_token(part: str) -> bool:
    """Return whether a part of a path may be a key: too long, or named and numbered like one."""
    if len(part) > _MAX_PART or _LIKE_A_KEY.fullmatch(part):
        return True
    return any(map(str.isdigit, part)) and is_secret(part)


def _without_secret(pair: re.Match[str]) -> str:
    return f"{pair['name']}{pair['is']}{HIDDEN}" if is_secret(pair["name"]) else pair[0]


def _without_value(entry: str) -> str:
    name, equals, _ = entry.partition("=")
    return f"{name}={HIDDEN}" if equals and is_secret(name) else entry


def is_secret(name: str) -> bool:
    """Return whether a value of this name is hidden."""
    # Imported here because every error loads this module and few names have a percent sign.
    from urllib.parse import unquote

    return _SECRET.search(unquote(name)) is not None
