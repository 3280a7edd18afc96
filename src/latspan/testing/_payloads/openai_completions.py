"""``/v1/completions``: chunks that have only text, whatever the kind of token."""

from __future__ import annotations

from typing import Any

from latspan.testing._payloads._openai_chunks import OpenAIChunks
from latspan.testing._script import TOKEN_PARTS, Step

__all__ = ["OpenAICompletions"]


class OpenAICompletions(OpenAIChunks):
    """Payloads of one text completion."""

    requires = "prompt"
    id_prefix = "cmpl"
    whole_object = chunk_object = "text_completion"

    def choice(self, step: Step | None) -> dict[str, Any]:
        """Return a choice with a piece of the text; empty text for a role."""
        text = step.text if step is not None and step.piece in TOKEN_PARTS else ""
        return self._choice(text, self.script.finish_reason if step is None else None)

    def whole_choice(self) -> dict[str, Any]:
        """Return the choice with the complete text."""
        text = "".join(step.text for step in self.script.steps if step.piece in TOKEN_PARTS)
        return self._choice(text, self.script.finish_reason)

    def _choice(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
