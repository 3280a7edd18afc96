"""A call of a model, and its interval for the timelines of the requests and stages around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from latspan._base.text import text_of
from latspan._live.operations._context import series_attributes, span_attributes
from latspan._live.operations._enclosing import active_scope
from latspan._live.operations._operation import Operation
from latspan._live.operations._response_parts import ResponseParts
from latspan._live.otel.spans import AttributeValue
from latspan._model.metrics import TIME_TO_FIRST_VISIBLE_TOKEN
from latspan._model.segments import CUT, Kind, Mark, Source
from latspan._model.timeline import Activity
from latspan._model.wire import ApiFormat

if TYPE_CHECKING:
    from latspan._live.operations._http_exchange import HttpExchange


class ModelCall(Operation):
    """One logical call of a model; its HTTP requests are its attempts."""

    __slots__ = ()

    kind = Kind.CALL

    @classmethod
    def taking_over(
        cls,
        exchange: HttpExchange,
        api_format: ApiFormat,
        *,
        name: str,
        attributes: Mapping[str, AttributeValue],
        series: Mapping[str, str],
        choices: int,
    ) -> Self:
        """
        Return the call that an open exchange turned out to be; see :meth:`HttpExchange.promoted`.

        It has the exchange's span, attempts, reads and response, and is not registered yet.
        """
        call = cls.__new__(cls)
        for slot in (*ResponseParts.__slots__, *Operation.__slots__):
            setattr(call, slot, getattr(exchange, slot))
        call.api_format, call.name, call.choices = api_format, text_of(name), choices
        call.series = series_attributes(call._runtime, series)
        call._started_with = {
            **call._started_with,
            **attributes,
            **span_attributes(call.kind, call.series),
        }
        call._renamed = call.spanned
        call._convention_metrics = True
        return call

    def join(self) -> None:
        """Open a span if the exchange had none, and join the requests and stages around it."""
        if not self.spanned:
            # The parent is the span that was current when the exchange started.
            self._open_span(self._runtime.sink(), self.span.context)
        self._join_enclosing_scopes()

    def _join_enclosing_scopes(self) -> None:
        super()._join_enclosing_scopes()
        scope = active_scope()
        if scope is not None:
            scope.add(self.activity)

    def activity(self) -> Activity:
        """Return the call as an activity of the request or stage around it."""
        timeline, left = self._timeline, self.left
        if timeline is None and left is not None:
            # The caller stopped reading inside the request or stage and may resume after its end:
            # the activity covers the call so far.
            observed = self._observed()
            timeline = observed.timeline(observed.summary(), left.outcome, left.done_ns)
        if timeline is None:
            return Activity(
                self.kind,
                self.name,
                self.start_ns,
                streamed=self.streamed,
                start_other_ns=self._start_other_ns,
            )
        visible = timeline.metrics.get(TIME_TO_FIRST_VISIBLE_TOKEN)
        outcome = self.outcome if left is None else left.outcome
        return Activity(
            kind=self.kind,
            name=self.name,
            start_ns=timeline.start_ns,
            done_ns=timeline.done_ns,
            was_cut=outcome in CUT,
            segments=timeline.segments,
            streamed=self.streamed,
            first_visible_ns=timeline.marks.get(Mark.FIRST_VISIBLE),
            first_visible_source=Source.MEASURED if visible is None else visible.source,
            start_other_ns=self._start_other_ns,
            done_other_ns=self._done_other_ns,
        )
