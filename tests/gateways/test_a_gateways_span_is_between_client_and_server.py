"""Caddy with spans of its own in front of llama.cpp: one trace, received by one receiver."""

from __future__ import annotations

import asyncio
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span

import latspan
from latspan import semconv
from latspan.testing import LlamaServer
from support.caddy import caddy_before
from support.chats import Chat, ask
from support.otlp import attributes_of, tapping
from tests.gateways.conftest import MODEL

PROMPTS = [f"{number}: tell me about rivers." for number in range(6)]
TOKENS = 16


async def test_the_gateways_span_hangs_beneath_the_calls(
    model: LlamaServer, caddy: Path, tmp_path: Path
) -> None:
    """Each chat is one trace of client and gateway, and its stream is the server's own."""
    direct = ask(model.base_url, PROMPTS, model=MODEL, tokens=TOKENS)

    def chats(receiver_url: str) -> list[Chat]:
        latspan.configure(endpoint=receiver_url, protocol="http/protobuf")
        try:
            with caddy_before(model.url, caddy, tmp_path, traces_url=receiver_url) as url:
                return ask(f"{url}/v1", PROMPTS, model=MODEL, tokens=TOKENS)
        finally:
            latspan.shutdown()

    async with tapping() as tap:
        through = await asyncio.to_thread(chats, tap.url)
        await tap.everything()

    assert [chat.text for chat in through] == [chat.text for chat in direct]
    assert [chat.chunks for chat in through] == [chat.chunks for chat in direct]
    calls = [span for span in tap.spans if span.name == f"chat {MODEL}"]
    gateways = [span for span in tap.spans if span.name == "gateway"]
    assert len(calls) == len(gateways) == len(PROMPTS)
    assert len({call.trace_id for call in calls}) == len(PROMPTS)
    above = {call.span_id: call for call in calls}
    for gateway in gateways:
        assert gateway.kind == Span.SPAN_KIND_SERVER
        call = above.pop(gateway.parent_span_id)
        assert gateway.trace_id == call.trace_id
        # The client has its end mark before the gateway has its server's last byte.
        assert call.start_time_unix_nano <= gateway.start_time_unix_nano
        assert gateway.start_time_unix_nano < call.end_time_unix_nano
    for call in calls:
        said = attributes_of(call.attributes)
        assert said[semconv.LATSPAN_OUTCOME] == "completed"
        # It sends on what comes.
        assert semconv.LATSPAN_BUFFERED not in said
