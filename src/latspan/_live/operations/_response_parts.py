"""
Parts of a response that are kept until its call has ended, and the reads of its stream.

The application may change a chunk or a response as soon as it has it, so what is needed later is
copied when it arrives. For a stream, the first part and the last ones are enough: the first names
the model, the last hold finish reasons, usage and the server's times.
"""

from __future__ import annotations

from typing import Any, Final

from latspan._base.internal_errors import handle_internal_errors, log_internal_error
from latspan._model.timeline import Reads
from latspan._model.wire import ApiFormat, copied, has_finish_reason

_LAST_PARTS: Final = 3
"""Parts kept after the first: finish reason, usage and server timings may be in three parts."""


class ResponseParts:
    """
    Parts of the response of a call that are kept.

    Args:
        api_format: API format of the response; ``None`` if the response is not read.
        streamed: Whether the response is a stream of chunks.
        choices: Number of choices requested.
        reads_content: Whether the text of the response is kept too.
    """

    __slots__ = (
        "_most_parts",
        "api_format",
        "choices",
        "end_marked",
        "gathered",
        "parts",
        "reads",
        "request",
        "streamed",
    )

    def __init__(
        self, api_format: ApiFormat | None, *, streamed: bool, choices: int, reads_content: bool
    ) -> None:
        self.api_format: ApiFormat | None = api_format
        self.choices = choices
        # Passing `[]` takes a third of the time of the field's default factory, `list[int]`.
        self.streamed = streamed
        """Whether the response is a stream of chunks."""
        self.reads = Reads([]) if streamed else None
        self.parts: list[Any] = []
        """
        First part of the response and its last parts, in order of arrival.

        A part is bytes, or a plain mapping copied from an SDK's object before the application
        received it, so later changes by the application have no effect. Chunks that hold only text
        are not kept.
        """
        # Each choice may end in a part of its own.
        self._most_parts = _LAST_PARTS + choices
        self.end_marked = False
        """Whether the end mark of the stream was read."""
        self.gathered: list[Any] | None = [] if reads_content else None
        """Text of the response in fragments, ``None`` if it is not kept."""
        self.request: Any = None
        """Content of the request: its fields, or the bytes of its body; ``None`` if not kept."""

    def expect_stream(self) -> None:
        """Record reads from now on: the response is a stream, even if none was requested."""
        if self.reads is None:
            self.reads = Reads([])

    def forget_reads(self) -> None:
        """Drop the reads, which show nothing about the chunks of the response."""
        self.reads = None

    def keep_response(self, response: Any) -> None:
        """
        Record a complete response before the application receives it and may change it.

        Args:
            response: Response object of the client library, or the bytes of the body; ``None`` has
                no effect.
        """
        api_format = self.api_format
        if api_format is None or response is None:
            return
        self.keep_copy(api_format, response)
        if self.gathered is not None and api_format.content is not None:
            with handle_internal_errors("the text of a response"):
                whole = isinstance(response, bytes)
                self.gathered.extend(
                    (response,) if whole else api_format.content.fragments(response)
                )

    def keep_copy(self, api_format: ApiFormat | None, response: Any) -> None:
        """
        Keep a copy of the fields of a chunk or a response, except its text.

        If the limit is reached, the oldest part is dropped except the first and one that has a
        finish reason.

        Args:
            api_format: API format of the response, not needed for bytes.
            response: Object of the client library, or bytes, which are read when the call has
                ended.
        """
        # Not `with handle_internal_errors(…)`: it would cost half as much as several chunks.
        try:
            part = response
            if api_format is not None and not isinstance(response, bytes):
                part = api_format.to_mapping(response)
                if not hasattr(response, "model_dump"):
                    # The application may change a mapping that the SDK returns, so a copy is kept.
                    part = copied(part)
            if part:
                parts = self.parts
                parts.append(part)
                if len(parts) > self._most_parts:
                    # Any number of parts may follow the finish reason.
                    del parts[2 if has_finish_reason(parts[1]) else 1]
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, "the fields of a response")
