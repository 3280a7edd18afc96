"""The content of a call is captured only if it is configured, for each of the operations."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from latspan.testing import Captured
from latspan.testing._loopback import Reply
from support.bedrock import (
    COMPLETE,
    INVOKED,
    INVOKED_STREAM,
    MODEL,
    STREAMED,
    ask,
    attributes_in,
    body_of,
    invoke,
    read,
    run,
)
from tests.clients.conftest import asked_for

INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"


def _invoke_stream(client: Any) -> None:
    list(client.invoke_model_with_response_stream(modelId=MODEL, body=body_of())["body"])


with_every_operation = pytest.mark.parametrize(
    ("program", "reply", "text"),
    [
        pytest.param(ask, COMPLETE, "Hello", id="converse"),
        pytest.param(read, STREAMED, "Hello world", id="converse_stream"),
        pytest.param(invoke, INVOKED, "Hello", id="invoke_model"),
        pytest.param(_invoke_stream, INVOKED_STREAM, "Hello world", id="invoke_stream"),
    ],
)


@with_every_operation
def test_question_and_answer(
    program: Callable[[Any], object], reply: Reply, text: str, seen: Captured
) -> None:
    """In the shape of the conventions, whatever the operation's own."""
    with asked_for(captures_content=True):
        run(program, reply)
    attributes = attributes_in(seen)
    (question,) = json.loads(attributes[INPUT])
    (answer,) = json.loads(attributes[OUTPUT])
    assert question["parts"] == [{"type": "text", "content": "Where is it?"}]
    assert {"type": "text", "content": text} in answer["parts"]
    assert answer["finish_reason"] == "stop"


@with_every_operation
def test_nothing_by_default(
    program: Callable[[Any], object], reply: Reply, text: str, seen: Captured
) -> None:
    """No text leaves the process."""
    run(program, reply)
    told = str(attributes_in(seen))
    assert text not in told
    assert "Where is it?" not in told
