"""
Handoff of a request or stage to another thread, task or process.

A handoff has at most one wait, which becomes a stage of the request. While the wait lasts, its name
is the only item of ``_waiting``. Three events can end it, on any thread: the handoff is attached in
this process (``_attached``), the caller reports the stages of another process (``merge_remote``),
or the request ends first (``_dropped``). Removing an item is atomic, so only the first of them
records the stage. If the handoff was turned into headers and the request ends without a report, the
length of the wait is unknown and no stage is recorded.

While the wait lasts, the request refers to the handoff, so that it can end the wait. The reference
is removed with the wait, because a request may hand over thousands of jobs.

A forked child has a copy of the object, but the scope belongs to the parent. There the scope is
replaced by a :class:`RemoteScope`, and the copy of the wait is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, Final
from urllib.parse import quote, unquote

from opentelemetry import context, trace
from opentelemetry.context import Context

from latspan._base.fork import this_process
from latspan._base.internal_errors import handle_internal_errors
from latspan._base.log import warn_once
from latspan._live.operations._context import (
    Entered,
    ambient_attributes,
    custom_attributes,
    replaced_attributes,
)
from latspan._live.operations._enclosing import (
    RemoteScope,
    Scope,
    active_scope,
    current_scope,
)
from latspan._live.operations._scope import LocalScope, request_around
from latspan._live.otel.spans import AttributeValue, given_attributes
from latspan._live.process.runtime import current_runtime
from latspan._model.metrics import MetricValue
from latspan._model.segments import Kind, Outcome, Side, Source
from latspan._model.timeline import Activity
from latspan._model.units import from_unit
from latspan._model.wire import server_timing

_SIDE: Final = "latspan-side"
_ATTRIBUTE_HEADERS: Final = {
    name: f"latspan-{name.replace('_', '-')}"
    for name in ("inference_path", "route", "traffic_class", "tenant")
}
"""Header name of each request attribute."""
_CUSTOM_HEADER: Final = "latspan-attributes"
"""Header of the further span attributes, as a JSON object."""
_MAX_HEADER_LENGTH: Final = 4_096
"""
Maximum number of characters of the header ``latspan-attributes``.

Servers refuse requests with more than 8 kB of headers, and the application sends other headers too.
"""


class Handoff:
    """
    An open request or stage and its attributes, for the thread, task or process that continues it.

    :func:`latspan.handoff` returns one. A handoff can be pickled.

    Args:
        headers: Result of :meth:`headers` in another process. Names may be in any letter case.
            Other headers, and values that are not text, are ignored.
    """

    __slots__ = (
        "_attributes",
        "_context",
        "_custom",
        "_handed_off_ns",
        "_is_away",
        "_process",
        "_scope",
        "_waiting",
    )

    def __init__(self, headers: Mapping[str, str]) -> None:
        with handle_internal_errors("the headers of a handoff"):
            # The headers come from a message and may be of any type.
            given: Mapping[Any, Any] = headers if hasattr(headers, "items") else {}
            found = {
                name.lower(): value
                for name, value in given.items()
                if isinstance(name, str) and isinstance(value, str)
            }
            attributes = {
                name: unquote(found[header])
                for name, header in _ATTRIBUTE_HEADERS.items()
                if header in found
            }
            side = Side.CLIENT if found.get(_SIDE) == Side.CLIENT.value else Side.SERVER
            custom = _read_custom(found.get(_CUSTOM_HEADER))
            self._assign(
                RemoteScope(side), _propagate().extract(found, Context()), attributes, custom
            )
            return
        self._assign(RemoteScope(Side.SERVER), Context(), {}, {})

    def _assign(
        self,
        scope: Scope | None,
        otel_context: Context,
        attributes: Mapping[str, str],
        custom: Mapping[str, AttributeValue],
        waits: str | None = None,
    ) -> None:
        """
        Set the contents of a new handoff, and begin the wait.

        Args:
            scope: Innermost open scope, if any.
            otel_context: OpenTelemetry context of the scope.
            attributes: Series attributes of requests in that context.
            custom: Further span attributes of requests in that context.
            waits: Name of the stage that lasts until it is attached; ``None`` for no such stage.
        """
        self._scope = scope
        self._context = otel_context
        self._attributes = attributes
        self._custom = custom
        self._process = this_process()
        self._is_away = False
        self._handed_off_ns = 0
        # In a list so that only one thread can end it.
        self._waiting: list[str] = []
        runtime = current_runtime()
        if waits is not None and runtime is not None:
            self._handed_off_ns = runtime.clock.monotonic_ns()
            self._waiting.append(waits)
            request = request_around(scope)
            if request is not None:
                request.waits.append(self._dropped)

    def headers(self) -> dict[str, str]:
        """
        Return the handoff as headers, with names in lower case, for a message or an HTTP request.
        """
        self._is_away = True
        headers: dict[str, str] = {}
        with handle_internal_errors("the headers of a handoff"):
            _propagate().inject(headers, self._context)
            for name, value in self._attributes.items():
                headers[_ATTRIBUTE_HEADERS[name]] = quote(value, errors="replace")
            if self._custom:
                headers |= _written_custom(self._custom)
        headers[_SIDE] = (Side.CLIENT if self._scope is None else self._scope.side).value
        return headers

    def __reduce__(self) -> tuple[Callable[[Mapping[str, str]], Handoff], tuple[dict[str, str]]]:
        return Handoff, (self.headers(),)

    def __copy__(self) -> Handoff:
        return self

    def __deepcopy__(self, memo: Any) -> Handoff:
        return self

    @contextmanager
    def _attached(self) -> Generator[Handoff]:
        """Enter the context of the scope for the length of the block; this ends the wait."""
        with ExitStack() as inside:
            with handle_internal_errors("attaching a handoff"):
                if self._process is not this_process():
                    # A forked child has a copy of the object, but the scope belongs to the parent.
                    self._take_wait()
                    self._scope = RemoteScope(
                        Side.CLIENT if self._scope is None else self._scope.side
                    )
                    self._process = this_process()
                inside.enter_context(self._entered())
                self._waited(Outcome.COMPLETED)
            yield self

    @contextmanager
    def _entered(self) -> Generator[None]:
        scope, otel_context = self._scope, self._context
        while scope is not None and scope.finished:
            scope = scope.outer
        if scope is not self._scope and isinstance(scope, LocalScope):
            # The handoff was created in a stage that has ended; what follows is not part of it.
            otel_context = trace.set_span_in_context(scope.span, otel_context)
        # A generator may be closed in another context than the one in which it was started.
        with (
            replaced_attributes(self._attributes, self._custom),
            Entered(current_scope, scope, otel_context),
        ):
            yield

    def server_timing(self) -> str:
        """Return the ended stages in the format of the ``Server-Timing`` header."""
        with handle_internal_errors("the stages of a handoff"):
            return "" if self._scope is None else server_timing.written(self._scope.took_ns())
        return ""

    def merge_remote(self, header: str) -> None:
        """
        Add the stages of another process to the request; call this when that process has responded.

        The clocks of two processes are never compared: the stages are placed directly before this
        moment. The rest of the time since the handoff becomes the stage that the argument ``waits``
        of :func:`latspan.handoff` names. That stage is estimated, because it includes the
        transmission in both directions. If the stages take longer than the time since the handoff,
        they are dropped and counted in the metric ``evidence_rejected``. The method has no effect
        if the stage of the wait has already ended.

        Args:
            header: Result of :meth:`server_timing` in the other process.
        """
        if not isinstance(header, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            warn_once(
                f"merge_remote: the argument is {type(header).__name__}, not text; pass the result"
                " of server_timing() of the other process"
            )
            return
        with handle_internal_errors("merging a remote handoff"):
            took = [
                (name, from_unit(ms, "ms"))
                for name, ms in server_timing.parsed(header)
                if name != server_timing.TOTAL
            ]
            runtime = current_runtime()
            if runtime is not None and self._waiting:
                self._lay(took, runtime.clock.monotonic_ns())

    def _lay(self, took: Sequence[tuple[str, int]], now_ns: int) -> None:
        from latspan._model.timeline import fits

        took_ns = sum(duration_ns for _, duration_ns in took)
        negative = any(duration_ns < 0 for _, duration_ns in took)
        if negative or not fits(took_ns, self._handed_off_ns, now_ns):
            self._take_wait()
            request = request_around(self._scope)
            if request is not None:
                request.annotations.metrics["evidence_rejected"] = MetricValue(1)
            return
        at_ns = max(self._handed_off_ns, now_ns - took_ns)
        with self._entered():
            if not self._waited(Outcome.COMPLETED, at_ns, Source.ESTIMATED):
                return
            scope = active_scope()
        for name, duration_ns in took:
            until_ns = min(now_ns, at_ns + duration_ns)
            if scope is not None:
                source = Source.SERVER_REPORTED
                scope.add(Activity(Kind.STAGE, name, at_ns, until_ns, source=source))
            at_ns = until_ns

    def _dropped(self) -> None:
        """End the wait if the request ended and the handoff was not attached in this process."""
        if self._is_away:
            # Another process may have attached it; the length of that wait is unknown here.
            self._take_wait()
            return
        with self._entered():
            self._waited(Outcome.ABANDONED)

    def _waited(
        self,
        outcome: Outcome,
        until_ns: int | None = None,
        source: Source = Source.MEASURED,
    ) -> bool:
        """
        End the wait, as a stage of the scope that was handed off.

        Returns:
            Whether this invocation ended the wait; another thread may have ended it before.
        """
        request = request_around(self._scope)
        # The wait of an abandoned request belongs to the runtime that is being shut down.
        runtime = current_runtime() if request is None else request.runtime
        name = self._take_wait()
        if name is None:
            return False
        if runtime is not None:
            wait = LocalScope(
                runtime,
                kind=Kind.STAGE,
                name=name,
                start_ns=self._handed_off_ns,
                current=False,
            )
            wait.end(outcome, done_ns=until_ns, source=source)
        return True

    def _take_wait(self) -> str | None:
        """
        Remove the wait, and the request's reference to this handoff.

        Returns:
            Name of the stage; ``None`` if there is no wait, or if another thread has removed it.
        """
        try:
            name = self._waiting.pop()
        except IndexError:
            return None
        request = request_around(self._scope)
        if request is not None:
            with suppress(ValueError):
                # Otherwise a request with many handoffs would hold each of them until its end.
                request.waits.remove(self._dropped)
        return name


class _HandoffHere(Handoff):
    """
    Handoff of the innermost open scope of this context.

    Args:
        waits: Name of the stage that lasts until it is attached; ``None`` for no such stage.
    """

    __slots__ = ()

    def __init__(self, waits: str | None) -> None:
        self._assign(
            active_scope(), context.get_current(), ambient_attributes(), custom_attributes(), waits
        )


def _propagate() -> Any:
    # Imported here, because the import loads the propagators. That takes 5 ms, and only a handoff
    # with headers needs them.
    from opentelemetry import propagate

    return propagate


def _written_custom(custom: Mapping[str, AttributeValue]) -> dict[str, str]:
    """Return the header of further span attributes; none if it would be too long."""
    written = quote(json.dumps(custom, separators=(",", ":")))
    if len(written) <= _MAX_HEADER_LENGTH:
        return {_CUSTOM_HEADER: written}
    warn_once(
        "the attributes of latspan.attributes() are not handed to another process: they take more"
        f" than {_MAX_HEADER_LENGTH} characters"
    )
    return {}


def _read_custom(header: str | None) -> dict[str, AttributeValue]:
    """Return the further span attributes of a header, which may hold anything."""
    if header is None or len(header) > _MAX_HEADER_LENGTH:
        return {}
    try:
        return given_attributes(json.loads(unquote(header)))
    except (ValueError, RecursionError):
        return {}


def handoff_here(waits: str | None = None) -> Handoff:
    """
    Return a handoff of the innermost open scope of this context.

    Args:
        waits: Name of the stage that lasts until it is attached; ``None`` for no such stage.
    """
    return _HandoffHere(waits)


def attached(handoff: Handoff) -> AbstractContextManager[Handoff]:
    """Enter the context of the scope for the length of the block; this ends the wait."""
    return handoff._attached()  # pyright: ignore[reportPrivateUsage] - not for users
