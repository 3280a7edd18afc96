"""Which chunk bears a token is the same for the SDK's objects and for bytes, in every version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest

from latspan._base.nanoseconds import NS_PER_MS as MS
from latspan._model.wire import ChunkKind
from latspan.integrations.formats import ANTHROPIC_MESSAGES, OPENAI_RESPONSES
from latspan.testing import Captured
from tests.clients.conftest import MESSAGES, Driver

pytestmark = pytest.mark.any_client

ENCRYPTED = {"type": "reasoning.encrypted", "data": "gAAAAAB", "id": "rs_1", "index": 0}
SUMMARY = {"type": "reasoning.summary", "summary": "so", "index": 0}

CITATION = {"type": "url_citation", "url_citation": {"url": "u", "content": "a page"}}


def _tool(**call: Any) -> dict[str, Any]:
    return {"content": None, "tool_calls": [{"index": 0, "id": "c", **call}]}


DELTAS: list[tuple[dict[str, Any], ChunkKind]] = [
    ({"audio": {"id": "a", "data": "UklG"}}, ChunkKind.VISIBLE),
    ({"audio": {"id": "a", "data": "", "transcript": "a {word}"}}, ChunkKind.VISIBLE),
    ({"audio": {"id": "a", "expires_at": 1}}, ChunkKind.EMPTY),
    (_tool(type="function", function={"arguments": '{"q":'}), ChunkKind.VISIBLE),
    (_tool(type="function", function={"name": "f", "arguments": ""}), ChunkKind.EMPTY),
    (_tool(type="custom", custom={"name": "f", "input": "print("}), ChunkKind.VISIBLE),
    (_tool(type="custom", custom={"name": "f", "input": ""}), ChunkKind.EMPTY),
    ({"content": "", "reasoning_details": [ENCRYPTED]}, ChunkKind.EMPTY),
    ({"content": "", "reasoning": None, "reasoning_details": [SUMMARY]}, ChunkKind.REASONING),
    ({"content": "", "reasoning": "so", "reasoning_details": [SUMMARY]}, ChunkKind.REASONING),
    ({"reasoning": "so", "content": "x"}, ChunkKind.VISIBLE),
    ({"role": "assistant", "content": ""}, ChunkKind.EMPTY),
    ({"role": "assistant", "context": {"citations": [{"content": "a page"}]}}, ChunkKind.EMPTY),
    ({"content": "", "annotations": [CITATION]}, ChunkKind.EMPTY),
    ({"content": "x", "annotations": [CITATION]}, ChunkKind.VISIBLE),
]


def _event(choice: dict[str, Any], separators: tuple[str, str]) -> bytes:
    head = {"id": "a", "created": 1, "model": "m", "object": "chat.completion.chunk"}
    body = json.dumps({**head, "choices": [choice]}, separators=separators)
    return f"data: {body}\n\n".encode()


@pytest.mark.parametrize("parsed", [True, False], ids=["objects", "bytes"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize(("delta", "kind"), DELTAS)
def test_a_delta_of_a_chat(
    driver: Driver,
    seen: Captured,
    delta: dict[str, Any],
    kind: ChunkKind,
    separators: tuple[str, str],
    *,
    parsed: bool,
) -> None:
    """Audio and its transcript, arguments and input of tools; nothing that is encrypted."""
    pieces = [
        _event({"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}, separators),
        _event({"index": 0, "delta": delta, "finish_reason": None}, separators),
        _event({"index": 0, "delta": {}, "finish_reason": "stop"}, separators),
        b"data: [DONE]\n\n",
    ]

    async def program(client: Any) -> None:
        if parsed:
            await driver.read(await driver.create(client, stream=True))
            return
        asks = {"model": "m", "messages": MESSAGES, "stream": True}
        sent = client._client.post("https://model.test/v1/chat/completions", json=asks)
        assert (await sent if driver.asynchronous else sent).status_code == 200

    driver.run(driver.sending(pieces), program)
    (record,) = seen.records
    first = record.metrics.get("time_to_first_token")
    visible = record.metrics.get("time_to_first_visible_token")
    assert (first and first.value) == (20 * MS if kind else None)
    assert (visible and visible.value) == (20 * MS if kind is ChunkKind.VISIBLE else None)


def _members(union: Any) -> Iterator[Any]:
    """Yield the classes that a union is of, however deep they are in it."""
    for each in get_args(union):
        if get_origin(each) is not None:
            yield from _members(each)
        elif hasattr(each, "model_fields"):
            yield each


def _type_of(model: Any) -> str:
    (name,) = get_args(model.model_fields["type"].annotation)
    return name


def test_every_delta_of_a_response_bears_a_token() -> None:
    """If it is text: the output of a command is an object, and the tool's."""
    from openai.types.responses import ResponseStreamEvent

    stream = OPENAI_RESPONSES.stream
    assert stream is not None
    texts = [
        each
        for each in _members(ResponseStreamEvent)
        if "delta" in each.model_fields and each.model_fields["delta"].annotation is str
    ]
    assert len(texts) >= 10
    for model in texts:
        name = _type_of(model)
        kind = ChunkKind.REASONING if "reasoning" in name else ChunkKind.VISIBLE
        event = model.construct(type=name, delta="x")
        assert OPENAI_RESPONSES.classify_chunk(event) == kind, name
        in_bytes = json.dumps({"type": name, "delta": "x"}).encode()
        assert stream.classify_chunk(b"data: " + in_bytes) == kind, name


WITHOUT_TOKENS = {
    # Citations and signatures are no text of the model's.
    "citations_delta",
    "signature_delta",
    # Text of a request of the server's own, whose tokens are not in the message's usage.
    "compaction_delta",
}


def test_every_delta_of_a_message_is_known() -> None:
    """It bears a token, or it is known why it does not."""
    types: Any = pytest.importorskip("anthropic.types")
    unions = (
        getattr(types, "RawContentBlockDelta", None),
        getattr(types.beta, "BetaRawContentBlockDelta", None),
    )
    models = {_type_of(each): each for union in unions for each in _members(union)}
    for name, model in models.items():
        texts = {field: "x" for field in model.model_fields if field != "type"}
        delta = model.construct(type=name, **texts)
        event = type("Event", (), {"type": "content_block_delta", "delta": delta})
        assert bool(ANTHROPIC_MESSAGES.classify_chunk(event)) is (name not in WITHOUT_TOKENS), name
