"""
Items that a receiver rejected from a message that it accepted.

Source: OTLP specification 1.9, "Partial Success". Rejected items must not be sent again.

The SDK's exporters drop the receiver's response. Over HTTP, the session keeps it (`_http_session`).
Over gRPC, :class:`ResponseKeeper` keeps it: the exporter calls its client, which the attribute
``_client`` refers to, and the class puts itself in between. A release of the SDK that names the
client in another way is used as before, but partial successes over gRPC are then not noticed.
"""

from __future__ import annotations

from typing import Any

from latspan._base.log import warn_once


class ResponseKeeper:
    """Base of the SDK's gRPC exporters, before the SDK's class, that keeps the last response."""

    body: bytes = b""
    """The last response, encoded."""
    _keeping: _KeepingClient | None = None

    @property
    def _client(self) -> Any:
        return self._keeping

    @_client.setter
    def _client(self, client: Any) -> None:
        self._keeping = None if client is None else _KeepingClient(self, client)


class _KeepingClient:
    __slots__ = ("_client", "_keeper")

    def __init__(self, keeper: ResponseKeeper, client: Any) -> None:
        self._keeper = keeper
        self._client = client

    def Export(self, *arguments: Any, **options: Any) -> Any:  # noqa: N802 - gRPC's name
        self._keeper.body = b""
        response = self._client.Export(*arguments, **options)
        self._keeper.body = response.SerializeToString()
        return response


def rejected_items(body: bytes, items: str) -> int:
    """
    Return the number of items that the receiver rejected, and log the first rejection.

    Args:
        body: Response to an accepted message.
        items: Name of the items, for the log.
    """
    if not body:
        return 0
    # Imported by the threads that export; the first request must not wait for it.
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        # The responses for metrics and logs have the same fields under the same numbers.
        partial = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:
        return 0
    if partial.rejected_spans > 0:
        warn_once(
            f"the receiver refused {partial.rejected_spans} {items}: {partial.error_message}",
            about=f"refused {items}",
        )
    return max(partial.rejected_spans, 0)
