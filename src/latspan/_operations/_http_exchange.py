"""An HTTP exchange outside any call, which may turn out to be a call of a model."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from opentelemetry.context import Context

from latspan import semconv
from latspan._operations._call import ModelCall
from latspan._operations._open_operations import open_operations
from latspan._operations._operation import Operation
from latspan._runtime import Runtime, handle_internal_errors
from latspan._segments import Kind
from latspan._spans import AttributeValue, NoSink
from latspan._wire import ApiFormat

__all__ = ["HttpExchange"]


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

    __slots__ = ("path",)

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
        self.finished = True
        with handle_internal_errors("the span of a promoted call"):
            call.join()
        # The application may keep the response, and the response an exchange that has ended.
        self.free()
        return call
