"""
Reasons for which a snapshot is empty; a snapshot carries one.

Each is two lines, like the text of an error: the cause, which can end a sentence, and a hint.
"""

from __future__ import annotations

from typing import Final

_HINT: Final = "\nhint: "

NOT_CONFIGURED: Final = (
    "latspan.configure() was not called in this process"
    f"{_HINT}call latspan.configure() before the first call; export_enabled=False records without"
    " exporting"
)
SHUT_DOWN: Final = (
    "latspan.shutdown() was called, and a snapshot shows only the current configuration"
    f"{_HINT}take the snapshot before latspan.shutdown()"
)
SDK_DISABLED: Final = (
    f"latspan is off, because OTEL_SDK_DISABLED is true{_HINT}remove OTEL_SDK_DISABLED"
)
NOTHING_INSTRUMENTED: Final = (
    "no client library is instrumented, and nothing was recorded by hand"
    f"{_HINT}call latspan.auto_instrument(); `latspan doctor` shows which libraries it instruments"
)
NO_CALL: Final = (
    "no call of an instrumented library and no request has ended in this process yet"
    f"{_HINT}make a call and read its response to the end; `latspan doctor -- COMMAND` shows what a"
    " program was seen to do"
)


def parts_of(reason: str) -> tuple[str, str]:
    """Return the cause and the hint."""
    cause, _, hint = reason.partition(_HINT)
    return cause, hint


def is_mistake(reason: str) -> bool:
    """Return whether the cause is most likely a mistake, so that a count of zero is logged."""
    return reason != NO_CALL
