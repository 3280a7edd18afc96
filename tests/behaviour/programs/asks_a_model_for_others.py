"""A web application without any latspan code that returns a model's response."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import asks_a_model
import openai

client = openai.OpenAI()


def application(
    environ: dict[str, object], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterator[bytes]:
    """Request a chat and return its text."""
    start_response("200 OK", [("content-type", "text/plain")])
    yield asks_a_model.ask(client).encode()
