"""A web application that knows nothing of latspan and passes a model's answer on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import asks_a_model
import openai

client = openai.OpenAI()


def application(
    environ: dict[str, object], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterator[bytes]:
    """Ask, and answer with the answer."""
    start_response("200 OK", [("content-type", "text/plain")])
    yield asks_a_model.ask(client).encode()
