"""The text in the events of a stream."""

from __future__ import annotations

import json


def text_of(line: bytes | str) -> str:
    """Return the text of a line of a stream of chat completions; empty if it has none."""
    text = line.decode() if isinstance(line, bytes) else line
    if not text.startswith("data: {"):
        return ""
    choices = json.loads(text.removeprefix("data: ")).get("choices")
    return (choices[0]["delta"].get("content") or "") if choices else ""
