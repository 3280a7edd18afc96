"""
OpenAI-style chunks: code shared by chat completions and the older text completions.

The timings that llama.cpp reports are computed from the recorded writes, not from the plan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from latspan._units import in_unit
from latspan._wire import DONE
from latspan.testing._payloads._base import StreamPayloads, encode
from latspan.testing._script import TOKEN_PARTS, Script, ServerFlavor, Step
from latspan.testing._served import Ledger

__all__ = ["OpenAIChunks"]


class OpenAIChunks(StreamPayloads):
    """Payloads of one response that consists of chunks with choices."""

    id_prefix: ClassVar[str]
    whole_object: ClassVar[str]
    chunk_object: ClassVar[str]

    def __init__(
        self, script: Script, body: Mapping[str, Any], *, number: int, created_s: int
    ) -> None:
        super().__init__(script, body, number=number, created_s=created_s)
        self._stamp = {
            "id": f"{self.id_prefix}-{number}",
            "created": created_s,
            "model": self.model,
        }

    def step(self, step: Step) -> bytes:
        """Return the chunk for ``step``."""
        return encode(self._chunk([self.choice(step)]))

    def finish(self, ledger: Ledger) -> bytes:
        """Return the chunk with the finish reason."""
        chunk = self._chunk([self.choice(None)])
        return encode(chunk if self.usage_has_a_chunk else chunk | self._timings(ledger))

    def usage(self, ledger: Ledger) -> bytes:
        """Return the chunk without choices that has the token counts."""
        return encode(self._chunk([]) | self._usage() | self._timings(ledger))

    def end_mark(self) -> bytes:
        """Return ``[DONE]``."""
        return DONE

    def whole(self, ledger: Ledger) -> dict[str, Any]:
        """Return the complete response."""
        whole = {**self._stamp, "object": self.whole_object, "choices": [self.whole_choice()]}
        return whole | self._usage() | self._timings(ledger)

    @abstractmethod
    def choice(self, step: Step | None) -> dict[str, Any]:
        """Return a chunk's choice for ``step``; for ``None``, the one with the finish reason."""

    @abstractmethod
    def whole_choice(self) -> dict[str, Any]:
        """Return the choice with the complete content."""

    @property
    def usage_has_a_chunk(self) -> bool:
        """Whether token counts were requested for the stream."""
        options = cast("dict[str, Any]", self.body.get("stream_options") or {})
        return bool(options.get("include_usage", False)) and self.script.reports_usage

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._stamp, "object": self.chunk_object, "choices": choices}

    def _usage(self) -> dict[str, Any]:
        script = self.script
        read = {"cached_tokens": script.cached_tokens}
        written = {"cache_write_tokens": script.cache_write_tokens}
        usage: dict[str, Any] = {
            "prompt_tokens": script.prompt_tokens,
            "completion_tokens": script.tokens,
            "total_tokens": script.prompt_tokens + script.tokens,
            "prompt_tokens_details": read | (written if script.cache_write_tokens else {}),
        }
        if script.flavor is ServerFlavor.PLAIN:
            usage["completion_tokens_details"] = {"reasoning_tokens": self.reasoning_tokens}
        return {"usage": usage}

    def _timings(self, ledger: Ledger) -> dict[str, Any]:
        if self.script.flavor is not ServerFlavor.LLAMA_CPP or ledger.slot_ns is None:
            return {}
        tokens = [write.instant_ns for write in ledger.writes if write.piece in TOKEN_PARTS]
        if self.streams:
            first_ns = tokens[0] if tokens else ledger.writes[-1].instant_ns
            last_ns = tokens[-1] if tokens else first_ns
        else:
            first_ns = ledger.slot_ns + self.script.prefill_ns
            last_ns = max(first_ns, ledger.writes[-1].instant_ns)
        processed = self.script.prompt_tokens - self.script.cached_tokens
        return {
            "timings": {
                "cache_n": self.script.cached_tokens,
                **_rates("prompt", processed, first_ns - ledger.slot_ns),
                **_rates("predicted", self.script.tokens, last_ns - first_ns),
            }
        }


def _rates(what: str, tokens: int, duration_ns: int) -> dict[str, float | None]:
    duration_ms = in_unit(duration_ns, "ms")
    return {
        f"{what}_n": tokens,
        f"{what}_ms": duration_ms,
        # llama.cpp divides regardless, and its JSON has null for values that are not finite.
        f"{what}_per_token_ms": duration_ms / tokens if tokens else None,
        f"{what}_per_second": 1000 * tokens / duration_ms if duration_ms else None,
    }
