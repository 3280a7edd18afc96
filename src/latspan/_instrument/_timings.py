"""What the answers of a server tell of their stages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Self

from latspan._instrument._served import ServerRequest
from latspan._segments import STAGE_KINDS
from latspan._wire import server_timing

__all__ = ["ServerTimingHeader"]


@dataclass(frozen=True, slots=True)
class ServerTimingHeader:
    """
    What answers tell of their stages, in the standard header.

    Args:
        reveals: The stages that are told.
    """

    reveals: frozenset[str]

    header: ClassVar[str] = server_timing.HEADER
    """The header's name, in lower case."""

    @classmethod
    def of(cls, told: bool | Collection[str]) -> Self:
        """
        Return what a setting says.

        Args:
            told: ``True`` for the standard stages and ``total``, ``False`` for nothing, or the
                names of some.
        """
        if isinstance(told, bool):
            return cls(STAGE_KINDS | {server_timing.TOTAL} if told else frozenset())
        # A name alone is a collection too, of letters.
        return cls(frozenset({told} if isinstance(told, str) else told))

    def of_answer(self, served: ServerRequest) -> str:
        """Return the header's value as far as the answer has come, empty for no stage to tell."""
        if not self.reveals:
            return ""
        told = [each for each in served.took_ns() if each[0] in self.reveals]
        # How long it took in all the client knows; it is there for what the stages leave over.
        if all(name == server_timing.TOTAL for name, _ in told):
            return ""
        return server_timing.written(told)
