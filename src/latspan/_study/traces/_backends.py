"""
Traces of a service from Jaeger or Tempo: which of both it is, is found out by asking.

A search is bounded by a window of time and a number of traces. A backend does not state which of
the traces in the window it chose if there are more, so the result states that it was cut.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, cast

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._base.shown import foreign
from latspan._model.text import count
from latspan._study.traces._http import JsonServer
from latspan._study.traces._imported import Imported
from latspan._study.traces._otlp import requests_in
from latspan._study.traces._spans import spans_of
from latspan.errors import ConfigError

_HINT: Final = (
    "use the address of the query API: for example http://localhost:16686 of Jaeger, or"
    " http://localhost:3200 of Tempo"
)
_AT_ONCE: Final = 4
"""Number of traces that are read from Tempo at the same time."""

_MAX_NAMES: Final = 10
_EMPTY: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """
    Traces to read.

    Args:
        service: Name of the service; if not given, the only one that the backend has.
        route: Route of the requests; all if not given.
        since_s: Length of the window up to now, in seconds, more than 0.
        limit: Maximum number of traces, at least 1.
        headers: Headers of each request to the backend.

    Raises:
        ConfigError: A value is not in its range.
    """

    service: str | None = None
    route: str | None = None
    since_s: float = 3600.0
    limit: int = 1_000
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if not 0 < self.since_s < 10**9:
            raise ConfigError("the window of time has no length", hint="for example --since 1h")
        if self.limit < 1:
            raise ConfigError(f"a limit of {self.limit} traces", hint="use a number of at least 1")


class _Found(NamedTuple):
    """
    Answer of a backend.

    Args:
        messages: OTLP messages as JSON.
        traces: Number of traces.
        notes: Sentences on what is missing.
    """

    messages: Sequence[Mapping[str, Any]]
    traces: int
    notes: tuple[str, ...] = ()


class _Window(NamedTuple):
    """A window of time, as Unix nanoseconds."""

    start_ns: int
    end_ns: int


def read_backend(url: str, query: TraceQuery, *, now_ns: int | None = None) -> Imported:
    """
    Return the requests in the traces of Jaeger or Tempo.

    Args:
        url: Address of the query API, with the path under which it is, if any.
        query: Traces to read.
        now_ns: Unix time of the end of the window in nanoseconds; now if not given.

    Raises:
        ConfigError: The server is neither of both, does not answer, or does not have the service.
        RecordingError: Its answer is not OTLP/JSON.
    """
    server = JsonServer(url, "Jaeger or Tempo", _HINT, query.headers)
    backend = _backend_at(server)
    end_ns = time.time_ns() if now_ns is None else now_ns
    window = _Window(end_ns - round(query.since_s * NS_PER_S), end_ns)
    try:
        query = replace(query, service=_service_of(backend, query.service))
        found = backend.find(query, window)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise server.error(f"does not answer as {backend.name} does") from error
    spans = spans_of(found.messages, server.name, hint=_HINT)
    imported = requests_in(spans, service=query.service, route=query.route)
    return replace(
        imported,
        format=backend.name.lower(),
        about=tuple(_about(backend.name, query, window, found)),
    )


def _about(name: str, query: TraceQuery, window: _Window, found: _Found) -> Iterable[str]:
    of_route = "" if query.route is None else f", route {foreign(query.route)}"
    yield (
        f"Read {count(found.traces, 'trace')} of {foreign(query.service or '')}{of_route} from"
        f" {name}, {_shown(window.start_ns)} to {_shown(window.end_ns)}."
    )
    if not found.traces:
        yield "There is none in this window: use a longer one with --since."
        return
    if found.traces >= query.limit:
        yield (
            f"{name} returned as many traces as were asked for: there may be more in this window,"
            " and which ones it left out is unknown. Use a shorter --since or a larger --limit."
        )
    yield "Traces that sampling left out are missing, so percentiles are those of kept traces."
    yield from found.notes


def _shown(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _backend_at(server: JsonServer) -> _Jaeger | _Tempo:
    listed = server.has("/api/services")
    if listed is not None and _is_mapping_with(listed, "data"):
        return _Jaeger(server)
    if (server.has("/api/echo") or b"").strip() == b"echo":
        return _Tempo(server)
    raise server.error("is neither Jaeger nor Tempo")


def _is_mapping_with(text: bytes, name: str) -> bool:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and name in found


def _service_of(backend: _Jaeger | _Tempo, service: str | None) -> str:
    """Return the service to read, which the backend has."""
    known = backend.services()
    if service is None and len(known) == 1:
        return known[0]
    if service is not None and service in known:
        return service
    shown = ", ".join(foreign(name) for name in known[:_MAX_NAMES])
    more = ", ..." if len(known) > _MAX_NAMES else ""
    if not known:
        raise backend.server.error(
            "has no traces of any service", "send traces to it first: see latspan doctor"
        )
    if service is None:
        raise backend.server.error(
            "has the traces of several services", f"use --service with one of {shown}{more}"
        )
    raise backend.server.error(f"has no service '{foreign(service)}'", f"it has {shown}{more}")


class _Jaeger:
    """
    Jaeger's query API, version 3, which answers in OTLP/JSON.

    Tested with Jaeger v1.76.0 (the program of Jaeger 2). It ignores conditions on attributes.
    """

    name: Final = "Jaeger"

    def __init__(self, server: JsonServer) -> None:
        self.server = server

    def services(self) -> list[str]:
        """Return the names of all services that have traces."""
        answer: Any = self.server.get("/api/services")
        return sorted(str(name) for name in answer["data"] or ())

    def find(self, query: TraceQuery, window: _Window) -> _Found:
        """Return the traces."""
        answer: Any = self.server.get(
            "/api/v3/traces",
            query__service_name=query.service or "",
            query__start_time_min=_rfc3339(window.start_ns),
            query__start_time_max=_rfc3339(window.end_ns),
            # The name changed with the releases; an unknown one is ignored.
            query__num_traces=query.limit,
            query__search_depth=query.limit,
        )
        if answer is None:
            # Jaeger answers 404 if no trace is found.
            return _Found((), 0)
        message = cast("Mapping[str, Any]", answer["result"])
        traces = {
            span["traceId"]
            for resource in message.get("resourceSpans") or ()
            for scope in resource.get("scopeSpans") or ()
            for span in scope.get("spans") or ()
        }
        return _Found((message,), len(traces))


class _Tempo:
    """Tempo's API: a search in TraceQL for the identifiers, and then each trace."""

    name: Final = "Tempo"

    def __init__(self, server: JsonServer) -> None:
        self.server = server

    def services(self) -> list[str]:
        """Return the names of all services that have traces."""
        answer: Any = self.server.get("/api/v2/search/tag/resource.service.name/values")
        return sorted(str(each["value"]) for each in (answer or _EMPTY).get("tagValues") or ())

    def find(self, query: TraceQuery, window: _Window) -> _Found:
        """Return the traces."""
        condition = f"resource.service.name = {json.dumps(query.service)}"
        if query.route is not None:
            route = json.dumps(query.route)
            condition += (
                f" && (span.{semconv.LATSPAN_ROUTE} = {route} || span.http.route = {route})"
            )
        answer: Any = self.server.get(
            "/api/search",
            q=f"{{ {condition} }}",
            start=window.start_ns // NS_PER_S,
            end=-(-window.end_ns // NS_PER_S),
            limit=query.limit,
            spss=1,
        )
        ids = [str(each["traceID"]) for each in (answer or _EMPTY).get("traces") or ()]
        messages: list[Mapping[str, Any]] = []
        partial = 0
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for message, is_partial in pool.map(self._trace, ids[: query.limit]):
                partial += is_partial
                if message is not None:
                    messages.append(message)
        notes: list[str] = []
        if partial:
            notes.append(f"Tempo returned {count(partial, 'trace')} without all of its spans.")
        lost = len(ids[: query.limit]) - len(messages)
        if lost:
            notes.append(f"Tempo found {count(lost, 'trace')} that it could not return.")
        return _Found(messages, len(messages), tuple(notes))

    def _trace(self, trace_id: str) -> tuple[Mapping[str, Any] | None, bool]:
        """Return a trace, ``None`` if it is gone, and whether spans are missing."""
        answer: Any = self.server.get(f"/api/v2/traces/{trace_id}")
        if not answer:
            return None, False
        trace = answer.get("trace")
        return trace, answer.get("status") == "PARTIAL"


def _rfc3339(time_ns: int) -> str:
    seconds, rest_ns = divmod(time_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns:09}Z"
