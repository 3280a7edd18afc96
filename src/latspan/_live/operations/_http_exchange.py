"""
An HTTP exchange outside any call, which may turn out to be a call of a model.

Inside a request, the exchange is one of the things that the request waits for: its time is a
segment of the request, named after the host. It lasts until the body is read, or until the headers
if the caller does not read the body to its end, because the caller may do anything meanwhile. A
stage covers the exchanges inside it: its name says more than that of a host. If the exchange turns
out to be a call, the request has that call instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.context import Context

from latspan import semconv
from latspan._base.internal_errors import handle_internal_errors
from latspan._live.operations._call import ModelCall
from latspan._live.operations._enclosing import active_scope
from latspan._live.operations._open_operations import open_operations
from latspan._live.operations._operation import Operation
from latspan._live.otel.spans import AttributeValue, NoSink
from latspan._live.process.runtime import Runtime
from latspan._model.segments import NOT_READ, Kind, Outcome, exchange_segment
from latspan._model.timeline import Activity
from latspan._model.wire import ApiFormat

_MAX_HOSTS: Final = 50
"""
Maximum number of hosts with a segment of their own. A crawler contacts any number of hosts, and
each segment is a series.
"""
_OTHER_HOSTS: Final = "(other hosts)"


class HttpExchange(Operation):
    """
    One HTTP request that belongs to no call, and its response.

    Args:
        runtime: The active runtime.
        parent_context: OpenTelemetry context in which the exchange starts.
        method: HTTP method, which is the name of the span.
        path: Path of the request, without the query.
        server: Host and port of the server.
        attributes: Attributes of the span at its start.
        spanned_elsewhere: Whether another instrumentation opens a span for the exchange: latspan
            then opens none, unless the exchange is promoted.
    """

    __slots__ = ("_is_promoted", "path")

    kind = Kind.HTTP

    def __init__(
        self,
        runtime: Runtime,
        parent_context: Context,
        *,
        method: str,
        path: str,
        server: tuple[str, int],
        attributes: Mapping[str, AttributeValue],
        spanned_elsewhere: bool = False,
    ) -> None:
        self.path = path
        self._is_promoted = False
        super().__init__(
            runtime,
            parent_context,
            name=method,
            server=server,
            attributes=attributes,
            series={},
            sink=NoSink() if spanned_elsewhere else None,
        )

    @property
    def exports_path(self) -> bool:
        """Whether the span of a call has the path of the URL."""
        return self._runtime.export_url_paths

    @property
    def origin(self) -> str:
        """The URL without its path: scheme, host and port."""
        url = urlsplit(str(self._started_with.get(semconv.URL_FULL, "")))
        return f"{url.scheme}://{url.netloc}"

    def _join_enclosing_scopes(self) -> None:
        super()._join_enclosing_scopes()
        scope = active_scope()
        if scope is not None:
            scope.add_exchange(self.activity)

    def activity(self) -> Activity | None:
        """Return the exchange as an activity of its request; ``None`` if it became a call."""
        if self._is_promoted:
            return None
        return Activity(
            self.kind,
            self._segment_name(),
            self.start_ns,
            self._waited_until_ns(),
            was_cut=self.outcome is Outcome.CANCELLED,
            start_other_ns=self._start_other_ns,
            done_other_ns=self._done_other_ns,
        )

    def _segment_name(self) -> str:
        server, known = self.server or ("", None), self._runtime.exchange_segments
        if server not in known:
            if len(known) >= _MAX_HOSTS:
                return exchange_segment(_OTHER_HOSTS)
            known[server] = exchange_segment(*server)
        return known[server]

    def _waited_until_ns(self) -> int | None:
        """Return the instant until which the caller waited; ``None`` if it still waits."""
        timeline, attempt = self._timeline, self.answering
        done_ns = None if timeline is None else timeline.done_ns
        if done_ns is not None and self.outcome not in NOT_READ:
            return done_ns
        if attempt is None or attempt.headers_ns is None:
            return done_ns
        return attempt.headers_ns if done_ns is None else min(attempt.headers_ns, done_ns)

    def promoted(
        self,
        api_format: ApiFormat,
        *,
        name: str,
        attributes: Mapping[str, AttributeValue],
        series: Mapping[str, str],
        choices: int,
    ) -> ModelCall | None:
        """
        Return the call that continues the exchange, because its response comes from a model.

        The exchange has then ended without a record of its own.

        Args:
            api_format: API format of the response.
            name: New name of the span.
            attributes: Additional attributes of the span.
            series: Series attributes of the call, in addition to those of the surrounding code.
            choices: Number of choices requested.

        Returns:
            The call; ``None`` if the exchange has ended meanwhile, for example at shutdown.
        """
        call = ModelCall.taking_over(
            self, api_format, name=name, attributes=attributes, series=series, choices=choices
        )
        if not open_operations.pop(self, False):
            return None
        open_operations[call] = True
        self.finished = self._is_promoted = True
        with handle_internal_errors("the span of a promoted call"):
            call.join()
        # The application may keep the response, and the response an exchange that has ended.
        self.free()
        return call
