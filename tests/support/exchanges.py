"""HTTP exchanges that turn out to be calls of a model."""

from __future__ import annotations

from latspan._live.operations import HttpExchange, ModelCall
from latspan._model.wire.openai_chat import OPENAI_CHAT


def promoted_to_chat(exchange: HttpExchange) -> ModelCall | None:
    """Return the chat that continues an exchange; ``None`` if the exchange has ended."""
    return exchange.promoted(
        OPENAI_CHAT,
        name="chat m",
        attributes={"gen_ai.operation.name": "chat"},
        series={"provider": "openai", "model": "m"},
        choices=1,
    )
