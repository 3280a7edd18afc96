"""Reasons for which a snapshot is empty, each with the next step; a snapshot carries one."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "NOTHING_INSTRUMENTED",
    "NOT_CONFIGURED",
    "NO_CALL",
    "SDK_DISABLED",
    "SHUT_DOWN",
    "EmptyReason",
]


class EmptyReason(NamedTuple):
    """
    Why nothing was recorded.

    Args:
        cause: Cause, as the second half of a sentence.
        hint: Next step.
        is_mistake: Whether the cause is most likely a mistake, so that an answer of zero is logged.
    """

    cause: str
    hint: str
    is_mistake: bool = True


NOT_CONFIGURED: Final = EmptyReason(
    "latspan.configure() was not called in this process",
    "call latspan.configure() before the first call; export_enabled=False records without"
    " exporting",
)
SHUT_DOWN: Final = EmptyReason(
    "latspan.shutdown() was called, and a snapshot shows only the current configuration",
    "take the snapshot before latspan.shutdown()",
)
SDK_DISABLED: Final = EmptyReason(
    "latspan is off, because OTEL_SDK_DISABLED is true", "remove OTEL_SDK_DISABLED"
)
NOTHING_INSTRUMENTED: Final = EmptyReason(
    "no client library is instrumented, and nothing was recorded by hand",
    "call latspan.auto_instrument(); `latspan doctor` shows which libraries it instruments",
)
NO_CALL: Final = EmptyReason(
    "no call of an instrumented library and no request has ended in this process yet",
    "make a call and read its response to the end; `latspan doctor -- COMMAND` shows what a program"
    " was seen to do",
    is_mistake=False,
)
