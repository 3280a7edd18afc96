"""
Texts of others, made fit to be shown: without credentials, without control characters, bounded.

Answers of a receiver, names in a file, variables of the environment and addresses pass through here
before they reach a terminal, a log or an error. Three rules hold for every function:

- Where a text is ambiguous, more of it is hidden rather than less. What stands before an ``@`` is
  taken for a user and a password, a port that is not a number for the start of a password.
- Credentials are hidden before the text is cut, so that a cut never leaves half of one behind.
- A text that was made fit once is not changed by a second pass.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["HIDDEN", "LONGEST", "address", "foreign", "printable", "setting"]

HIDDEN: Final = "***"
"""Stands in the place of a credential."""

LONGEST: Final = 1_000
"""Characters of one text of others that are shown."""

_CUT: Final = "..."
_MOST: Final = 16 * 1024
"""Characters of a text that are looked at for credentials; what follows is never shown."""

_LONGEST_PART: Final = 31
"""Characters of a part of a path that is shown: a key of 16 bytes has 32 in hexadecimal."""

_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]*:")
_SCHEME_AT_END: Final = re.compile(r"(?:^|[^\w+.:-])[A-Za-z][\w+.-]*:$")
_AT: Final = re.compile("@|%40", re.IGNORECASE)
_WORD: Final = re.compile(r"""[^\s"'<>()]+""")
_PAIR: Final = re.compile(
    r"(?<![\w.%-])(?P<name>[\w.%-]+)(?P<is>[\"']?\s*[=:]\s*)"
    r"(?:(?:Bearer|Basic|Digest|Token|ApiKey)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"\b(Bearer)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_SECRET: Final = re.compile(
    r"api[._-]?key|secret|token|passw|passphrase|credential|authorization|bearer|cookie|signature"
    r"|(?:^|[._-])(?:key|auth|sig|pass|pwd|pw)(?:$|[._-])",
    re.IGNORECASE,
)
"""What the name of a value has in it that is not shown."""

_SECRET_VARIABLE: Final = re.compile("HEADERS|KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_ADDRESS_VARIABLE: Final = re.compile("ENDPOINT|URL|PROXY")


def printable(text: str, *, longest: int = LONGEST) -> str:
    """
    Return a text on one line, without anything that moves a cursor or reverses what is read.

    Control characters of both sets (C0, C1), line ends, bidirectional and other invisible
    characters, and halves of characters stand as Python escapes them. What is too long ends in
    ``...``.

    Args:
        text: Of anybody.
        longest: Characters to return at most, at least 3.
    """
    shown = text[: longest + 1]
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)
    return shown if len(shown) <= longest else shown[: longest - len(_CUT)] + _CUT


def foreign(text: str, *, longest: int = LONGEST) -> str:
    """
    Return a text of others, printable and without the credentials that are recognised in it.

    These are users and passwords in addresses, queries of addresses, values whose name is that of
    a secret (``api_key=…``, ``Authorization: …``), and bearer tokens.

    Args:
        text: A server's answer, an exception's message, a value.
        longest: Characters to return at most, at least 3.
    """
    whole = text[:_MOST]
    if len(text) > _MOST:
        # The last word may be half of an address, whose password would not be recognised.
        head, space, _ = whole.rpartition(" ")
        whole = head + space + _CUT
    hidden = _WORD.sub(lambda word: _without_credentials(word[0]), whole)
    hidden = _BEARER.sub(rf"\1 {HIDDEN}", _PAIR.sub(_without_secret, hidden))
    return printable(hidden, longest=longest)


def address(text: str) -> str:
    """
    Return an address without the user, the password, the query and the fragment that it holds.

    A part of its path that is longer than anybody would type is taken for a token too.

    Args:
        text: What somebody wrote where an address is wanted, whether it is one or not.
    """
    return printable(_without_credentials(text.strip(), whole=True))


def setting(variable: str, value: str) -> str:
    """
    Return the value of a variable of the environment, without the secrets that it may hold.

    Args:
        variable: Its name.
        value: Its value; of a list with commas each ``name=value`` is looked at by itself.
    """
    if _SECRET_VARIABLE.search(variable):
        return "set, not shown"
    if _ADDRESS_VARIABLE.search(variable):
        return address(value)
    return foreign(",".join(map(_without_value, value.split(","))))


def _without_credentials(word: str, *, whole: bool = False) -> str:
    """
    Return a word without the credentials of the address that it may be.

    Args:
        word: Without white space, unless it is ``whole``.
        whole: It is meant as an address; otherwise only one with ``//`` has a port and a fragment.
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
    ends = "?#" if is_address else "?" if rest.startswith("/") else ""
    for mark in ends:
        rest = rest.partition(mark)[0]
    if is_address:
        host, slash, path = rest.partition("/")
        name, colon, port = host.rpartition(":")
        if colon and not host.endswith("]") and not port.isdecimal():
            host = f"{name}:{HIDDEN}" if port else host
        parts = [HIDDEN if len(part) > _LONGEST_PART else part for part in path.split("/")]
        rest = f"{host}{slash}{'/'.join(parts)}"
    return head + slashes + rest


def _without_secret(pair: re.Match[str]) -> str:
    return f"{pair['name']}{pair['is']}{HIDDEN}" if _is_secret(pair["name"]) else pair[0]


def _without_value(entry: str) -> str:
    name, equals, _ = entry.partition("=")
    return f"{name}={HIDDEN}" if equals and _is_secret(name) else entry


def _is_secret(name: str) -> bool:
    # Every error loads this module, and few texts have a name with a percent sign.
    from urllib.parse import unquote

    return _SECRET.search(unquote(name)) is not None
