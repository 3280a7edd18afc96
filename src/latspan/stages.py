"""Stages: named parts of the application's own time, or of a server's."""

from __future__ import annotations

from latspan import semconv
from latspan.errors import UnknownNameError
from latspan.instrument._by_hand import WorkScope
from latspan.segments import STAGE_KINDS, Kind

__all__ = ["stage"]


def stage(name: str, *, kind: str | None = None) -> WorkScope:
    """
    Name a part of the work: ``with latspan.stage("retrieve"):``.

    A stage is a span, and a segment under its own name: its own time, without the calls and the
    stages inside it.

    Args:
        name: One of the standard stages, or a name of your own.
        kind: The standard stage that a name of your own counts as, for example
            ``stage("rerank", kind="retrieve")``.

    Raises:
        UnknownNameError: ``kind`` is not a standard stage.
    """
    counts_as = name if kind is None and name in STAGE_KINDS else kind
    if counts_as is None:
        return WorkScope(Kind.STAGE, name)
    if counts_as not in STAGE_KINDS:
        raise UnknownNameError(
            f"no standard stage '{kind}'", hint=f"one of {', '.join(sorted(STAGE_KINDS))}"
        )
    return WorkScope(Kind.STAGE, name, {semconv.LATSPAN_STAGE_KIND: counts_as})
