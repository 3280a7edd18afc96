"""Stages: named parts of the time of the application or of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from latspan import semconv
from latspan._base.text import text_of
from latspan._live.instrument import OpenScope, OperationScope, ScopeManager, named_scope
from latspan._model.segments import STAGE_KINDS, Kind, SegmentName, Stage
from latspan.errors import UnknownNameError

if TYPE_CHECKING:
    from latspan._live.otel.spans import AttributeValue

_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def stage(name: str, *, kind: str | None = None) -> ScopeManager[OpenScope]: ...
@overload
def stage(function: _F, /) -> _F: ...
def stage(name: Any, *, kind: str | None = None) -> Any:
    """
    Record a part of the work as a stage: ``with latspan.stage("retrieve"):``.

    A stage creates a span and a segment with its name. The segment is the stage's own time, without
    the calls and the stages inside it. The result is also a decorator:
    ``@latspan.stage("tokenize")``. A bare ``@latspan.stage`` uses the function's name. The stage of
    a decorated generator lasts from the generator's first step to its end, and is current only
    while a step runs.

    Args:
        name: One of the standard stages (``parse``, ``auth``, ``retrieve``, ``tool``, ``tokenize``,
            ``route``, ``queue``, ``model_load``, ``prefill``, ``decode``, ``safety``,
            ``postprocess``, ``send_stream``), or a name of your own.
        kind: The standard stage that a name of your own counts as, for example
            ``stage("rerank", kind="retrieve")``.

    Returns:
        A context manager and decorator; the value of the ``with`` statement is the open stage.

    Raises:
        UnknownNameError: ``kind`` is not a standard stage.
    """
    return _stage_of(name, kind)


@overload
def tool(name: str) -> ScopeManager[OpenScope]: ...
@overload
def tool(function: _F, /) -> _F: ...
def tool(name: Any) -> Any:
    """
    Record the run of a tool of an agent: ``@latspan.tool``, or ``with latspan.tool("search"):``.

    It is :func:`stage` with the kind ``tool``. A bare ``@latspan.tool`` uses the function's name.

    Args:
        name: Name of the tool, as the model knows it.

    Returns:
        A context manager and decorator; the value of the ``with`` statement is the open stage.
    """
    return _stage_of(name, Stage.TOOL)


def _stage_of(name: Any, kind: str | None) -> Any:
    attributes = kind_of(kind)
    return named_scope(
        name, lambda name: OperationScope(Kind.STAGE, unambiguous(name, kind), attributes)
    )


def unambiguous(name: str, kind: str | None) -> str:
    """
    Return the name of a stage that no segment of another kind has.

    A tool that is called ``decode`` is ``decode (tool)``: the times of segments with one name add
    up, and ``decode`` is that of the calls.

    Args:
        name: Name that the application gave.
        kind: Kind that it gave; ``None`` if the name is the kind.
    """
    name = text_of(name)
    return f"{name} ({kind})" if kind not in (None, name) and name in _TAKEN else name


_TAKEN: Final = frozenset(map(str, SegmentName)) | STAGE_KINDS
"""Names of segments that a stage of another kind does not have."""


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
