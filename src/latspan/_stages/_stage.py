"""Stages: named parts of the time of the application or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan import semconv
from latspan._instrument import OpenScope, OperationScope, ScopeManager
from latspan._segments import STAGE_KINDS, Kind
from latspan.errors import UnknownNameError

if TYPE_CHECKING:
    from latspan._spans import AttributeValue

__all__ = ["kind_of", "stage"]


def stage(name: str, *, kind: str | None = None) -> ScopeManager[OpenScope]:
    """
    Record a part of the work as a stage: ``with latspan.stage("retrieve"):``.

    A stage creates a span and a segment with its name. The segment is the stage's own time, without
    the calls and the stages inside it. The result is also a decorator:
    ``@latspan.stage("tokenize")``. The stage of a decorated generator lasts from the generator's
    first step to its end, and is current only while a step runs.

    Args:
        name: One of the standard stages (``parse``, ``auth``, ``retrieve``, ``tokenize``,
            ``route``, ``queue``, ``model_load``, ``prefill``, ``decode``, ``safety``,
            ``postprocess``, ``send_stream``), or a name of your own.
        kind: The standard stage that a name of your own counts as, for example
            ``stage("rerank", kind="retrieve")``.

    Returns:
        A context manager and decorator; the value of the ``with`` statement is the open stage.

    Raises:
        UnknownNameError: ``kind`` is not a standard stage.
    """
    return OperationScope(Kind.STAGE, name, kind_of(kind))


def kind_of(kind: str | None) -> dict[str, AttributeValue]:
    """
    Return the attributes that record a stage's kind; empty if ``kind`` is ``None``.

    Args:
        kind: The standard stage that the stage counts as.

    Raises:
        UnknownNameError: ``kind`` is not a standard stage.
    """
    if kind is None:
        return {}
    if kind not in STAGE_KINDS:
        raise UnknownNameError(
            f"no standard stage '{kind}'", hint=f"one of {', '.join(sorted(STAGE_KINDS))}"
        )
    return {semconv.LATSPAN_STAGE_KIND: kind}
