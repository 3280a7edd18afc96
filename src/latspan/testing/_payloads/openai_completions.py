"""``/v1/completions``: chunks with nothing but text, whatever kind of token it is."""

from __future__ import annotations

from typing import Any

from latspan.testing._payloads._openai_chunks import OpenAIChunks
from latspan.testing._script import Step

__all__ = ["OpenAICompletions"]


class OpenAICompletions(OpenAIChunks):
    """Every payload of one text completion."""

    requires = "prompt"
    id_prefix = "cmpl"
    whole_object = chunk_object = "text_completion"

    def choice(self, step: Step | None) -> dict[str, Any]:
        """Return a choice with a piece of the text; a role is an empty one."""
        text = step.text if step is not None and step.piece.bears_token else ""
        return self._choice(text, self.script.finish_reason if step is None else None)

    def whole_choice(self) -> dict[str, Any]:
        """Return the choice with the whole text."""
        text = "".join(step.text for step in self.script.steps if step.piece.bears_token)
        return self._choice(text, self.script.finish_reason)

    def _choice(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
