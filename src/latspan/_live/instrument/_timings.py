"""``Server-Timing`` response header with the duration of each stage."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Self

from latspan._live.instrument._served import ServerRequest
from latspan._model.segments import STAGE_KINDS
from latspan._model.wire import server_timing


@dataclass(frozen=True, slots=True)
class ServerTimingHeader:
    """
    Standard response header that reports the durations of stages.

    Args:
        reveals: Names of the stages to report.
    """

    reveals: frozenset[str]

    header: ClassVar[str] = server_timing.HEADER
    """The header's name, in lower case."""

    @classmethod
    def of(cls, stages: bool | Collection[str]) -> Self:
        """
        Return the header that a setting configures.

        Args:
            stages: ``True`` for the standard stages and ``total``, ``False`` for no stage, or the
                names of the stages to report.
        """
        if isinstance(stages, bool):
            return cls(STAGE_KINDS | {server_timing.TOTAL} if stages else frozenset())
        # A string is a collection too: of its letters.
        return cls(frozenset({stages} if isinstance(stages, str) else stages))

    def of_answer(self, served: ServerRequest) -> str:
        """Return the header's value so far, empty if there is no stage to report."""
        if not self.reveals:
            return ""
        revealed = [each for each in served.took_ns() if each[0] in self.reveals]
        # The client can measure the total itself; it is useful only together with stages, for
        # the time that they do not cover.
        if all(name == server_timing.TOTAL for name, _ in revealed):
            return ""
        return server_timing.written(revealed)
