"""Clients of Amazon Bedrock's runtime in boto3, and the bytes of the service's responses."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from latspan import Kind
from latspan.testing import Captured, RequestRecord
from latspan.testing._loopback import Loopback, whole
from latspan.testing._payloads.bedrock import encode_exception, encode_message
from latspan.testing.contract import Reply, json_reply, stream_reply

MODEL: Final = "eu.anthropic.claude-x-v1:0"
MESSAGES: Final = [{"role": "user", "content": [{"text": "Where is it?"}]}]
CONVERSE: Final[dict[str, Any]] = {"modelId": MODEL, "messages": MESSAGES}

message = encode_message
exception = encode_exception

_USAGE: Final = {
    "inputTokens": 3,
    "outputTokens": 5,
    "totalTokens": 12,
    "cacheReadInputTokens": 4,
    "cacheWriteInputTokens": 0,
}
_METADATA: Final = {"usage": _USAGE, "metrics": {"latencyMs": 1}}


def _delta(**delta: Any) -> bytes:
    return message("contentBlockDelta", {"contentBlockIndex": 0, "delta": delta})


def chunk(event: dict[str, Any]) -> bytes:
    """Return an event of a model in the message that ``InvokeModelWithResponseStream`` sends."""
    coded = base64.b64encode(json.dumps(event).encode()).decode()
    return message("chunk", {"bytes": coded, "p": "abcd"})


def event_stream(*messages: bytes, **headers: str) -> Reply:
    """Return a streamed response, one write per message."""
    return stream_reply(
        *messages,
        content_type="application/vnd.amazon.eventstream",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


COMPLETE: Final = json_reply(
    {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hello"}]}},
        "stopReason": "end_turn",
        **_METADATA,
    }
)

STREAMED: Final = event_stream(
    message("messageStart", {"role": "assistant"})
    + _delta(reasoningContent={"text": "Let me think"}),
    _delta(text="Hello"),
    _delta(text=" world"),
    message("contentBlockStop", {"contentBlockIndex": 0})
    + message("messageStop", {"stopReason": "end_turn"})
    + message("metadata", _METADATA),
)

_CLAUDE: Final = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x"}


def response_of_model(fields: dict[str, Any], **counts: int) -> Reply:
    """
    Return a whole response in the format of a model.

    Args:
        fields: The response.
        counts: Token counts in its headers, by the name of their kind.
    """
    headers: Any = {
        f"x_amzn_bedrock_{kind}_token_count": str(count) for kind, count in counts.items()
    }
    return whole(json.dumps(fields).encode(), content_type="application/json", **headers)


INVOKED: Final = response_of_model(
    {
        **_CLAUDE,
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 7, "output_tokens": 5},
    },
    input=7,
    output=5,
)

_COUNTS: Final = {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1}


def _text(text: str) -> bytes:
    delta = {"type": "text_delta", "text": text}
    return chunk({"type": "content_block_delta", "index": 0, "delta": delta})


INVOKED_STREAM: Final = event_stream(
    chunk({"type": "message_start", "message": {**_CLAUDE, "content": [], "usage": _COUNTS}})
    + chunk(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        }
    )
    + _text("Hello"),
    _text(" world"),
    chunk({"type": "content_block_stop", "index": 0})
    + chunk(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 5},
        }
    )
    + chunk(
        {
            "type": "message_stop",
            "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3, "outputTokenCount": 5},
        }
    ),
)


@functools.cache
def _session() -> Any:
    """Return a session, which reads the descriptions of the services once."""
    boto3: Any = import_module("boto3")
    return boto3.Session("AKID", "secret", region_name="eu-west-1")


def knows(shape: str, member: str) -> bool:
    """
    Return whether the installed version of botocore knows a field, and does not drop it.

    Args:
        shape: Name of the field's structure in the description of the service.
        member: Name of the field.
    """
    model = _session()._session.get_service_model("bedrock-runtime")
    return shape in model.shape_names and member in model.shape_for(shape).members


def make_client(
    url: str,
    *,
    attempts: int = 1,
    mode: str = "standard",
    service: str = "bedrock-runtime",
    verify: str | None = None,
    **more: Any,
) -> Any:
    """
    Return a client with fixed credentials.

    Args:
        url: Base URL of the server.
        attempts: Maximum number of attempts of a call.
        mode: How botocore retries.
        service: Name of the AWS service.
        verify: File with the certificates that it trusts.
        more: Further options of its configuration.
    """
    make_config: Any = import_module("botocore.config").Config
    config = make_config(retries={"total_max_attempts": attempts, "mode": mode}, **more)
    return _session().client(service, endpoint_url=url, verify=verify, config=config)


def ask(client: Any, **more: Any) -> Any:
    """Request a whole response of Converse."""
    return client.converse(**CONVERSE, **more)


def body_of(**fields: Any) -> str:
    """Return the body of a request in Anthropic's format."""
    return json.dumps(
        {
            "anthropic_version": "bedrock-2023-05-31",
            "messages": [{"role": "user", "content": "Where is it?"}],
            **fields,
        }
    )


def invoke(client: Any, model: str = MODEL, body: str | None = None) -> dict[str, Any]:
    """Invoke a model and return its response, as applications do."""
    result = client.invoke_model(
        modelId=model, body=body_of(max_tokens=9) if body is None else body
    )
    response: dict[str, Any] = json.loads(result["body"].read())
    return response


def read(client: Any) -> None:
    """Read a whole conversation."""
    stream = client.converse_stream(**CONVERSE)["stream"]
    try:
        list(stream)
    finally:
        stream.close()


def run(program: Callable[[Any], object], *replies: Reply, **options: Any) -> Loopback:
    """Run a program with a client of a server that sends ``replies``; return the server."""
    with Loopback(replies) as server:
        client = make_client(server.url, **options)
        try:
            program(client)
        finally:
            client.close()
    return server


def call_in(seen: Captured) -> RequestRecord:
    """Return the record of the only call, whose segments sum up."""
    (record,) = seen.records
    assert record.kind is Kind.CALL
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return record


def attributes_in(seen: Captured) -> dict[str, Any]:
    """Return the attributes of the only call's span, without latspan's own."""
    (span,) = (span for span in seen.spans if span.parent is None)
    attributes = dict(span.attributes or {})
    return {name: value for name, value in attributes.items() if not name.startswith("latspan.")}
