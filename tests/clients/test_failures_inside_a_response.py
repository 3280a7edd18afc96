"""Servers that answer with status 200 and fail: in an event, in a choice, or with a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import httpx
import pytest
from openai import OpenAI

from latspan import semconv
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, capture
from latspan_instrumentation.httpx import HTTPXInstrumentor
from latspan_instrumentation.openai import OpenAIInstrumentor
from tests.support.frameworks import instrumented

pytestmark = pytest.mark.any_client

_EVENTS: Final = "text/event-stream"
_JSON: Final = "application/json"
_CHUNK: Final = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "big"}
DONE: Final = b"data: [DONE]\n\n"
_MESSAGES: Final[Any] = [{"role": "user", "content": "?"}]


@pytest.fixture
def seen() -> Iterator[Captured]:
    """Record the calls of the SDK and of httpx in memory."""
    with instrumented(OpenAIInstrumentor, HTTPXInstrumentor), capture() as captured:
        yield captured


def _choice(text: str | None = None, reason: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    return {"index": 0, "delta": delta, "finish_reason": reason, **more}


def _chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**_CHUNK, "choices": list(choices), **more}


def _stream(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in events) + DONE


def _client(body: bytes, content_type: str) -> httpx.Client:
    def answer(_request: httpx.Request) -> httpx.Response:
        # In parts, as from a network: a body of bytes would be read already.
        parts = iter([body[:20], body[20:]])
        return httpx.Response(200, headers={"content-type": content_type}, content=parts)

    return httpx.Client(transport=httpx.MockTransport(answer), base_url="http://model.test/v1")


def _ask(client: httpx.Client, *, sdk: bool, streamed: bool = True) -> None:
    """Ask for a chat, and read the whole response."""
    if not sdk:
        with client.stream("POST", "/chat/completions", json={"model": "m"}) as response:
            response.read()
        return
    handed: Any = client  # releases of the SDK name it by the types of httpx or of httpx2
    chat = OpenAI(api_key="none", base_url=str(client.base_url), http_client=handed, max_retries=0)
    if streamed:
        list(chat.chat.completions.create(model="m", messages=_MESSAGES, stream=True))
    else:
        chat.chat.completions.create(model="m", messages=_MESSAGES)


def _call(seen: Captured) -> tuple[RequestRecord, dict[str, Any]]:
    (record,) = seen.records
    (span,) = [each for each in seen.spans if each.parent is None]
    return record, dict(span.attributes or {})


_TEXT: Final = _chunk(_choice("a"))
_FAILURES: Final = {
    "code of the choice": (_chunk(_choice(reason="error", error={"code": 502})), "502"),
    "finish reason error": (_chunk(_choice(reason="error")), "error"),
    "finish reason abort": (_chunk(_choice(reason="abort")), "abort"),
}


@pytest.mark.parametrize(
    ("data", "sdk"),
    # The SDK does not show the name of an event.
    [({"message": "x"}, True), ({"message": "x"}, False), ({"detail": "x"}, True), ({}, False)],
)
def test_an_event_named_error_is_an_error(
    seen: Captured, data: dict[str, str], *, sdk: bool
) -> None:
    """Also if the stream ends with ``[DONE]``, and its data does not say what failed."""
    body = _stream(_TEXT).replace(DONE, b"")
    body += b"event: error\ndata: %s\n\n" % json.dumps(data).encode() + DONE
    with _client(body, _EVENTS) as client:
        _ask(client, sdk=sdk)
    assert _call(seen)[0].outcome is Outcome.ERROR


@pytest.mark.parametrize("body", [{"message": "quota exceeded", "code": 429}, {"detail": "x"}])
def test_a_text_in_place_of_a_response_is_an_error(seen: Captured, body: dict[str, Any]) -> None:
    with _client(json.dumps(body).encode(), _JSON) as client:
        _ask(client, sdk=True, streamed=False)
    record, attributes = _call(seen)
    assert record.outcome is Outcome.ERROR
    assert attributes[semconv.ERROR_TYPE] == str(body.get("code", semconv.ERROR_TYPE_OTHER))


@pytest.mark.parametrize("sdk", [True, False], ids=["sdk", "httpx"])
@pytest.mark.parametrize("failure", _FAILURES)
def test_a_choice_that_failed_is_an_error(seen: Captured, failure: str, *, sdk: bool) -> None:
    """The stream is complete, and the answer is not."""
    last, error_type = _FAILURES[failure]
    with _client(_stream(_TEXT, last), _EVENTS) as client:
        _ask(client, sdk=sdk)
    record, attributes = _call(seen)
    assert record.outcome is Outcome.ERROR
    assert attributes["error.type"] == error_type


def test_an_error_object_as_an_event_is_an_error(seen: Captured) -> None:
    """As older vLLM sends it; the SDK hands it to the application as a chunk."""
    error = {"object": "error", "message": "secret", "type": "InternalError", "code": 500}
    with _client(_stream(_TEXT, error), _EVENTS) as client:
        _ask(client, sdk=False)
    record, attributes = _call(seen)
    assert (record.outcome, attributes["error.type"]) == (Outcome.ERROR, "500")
    assert "secret" not in str(attributes)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_page_is_no_answer(seen: Captured, *, streamed: bool) -> None:
    """A proxy that asks people to log in answers with status 200."""
    with _client(b"<html>Log in</html>", "text/html; charset=utf-8") as client:
        _ask(client, sdk=True, streamed=streamed)
    record, attributes = _call(seen)
    assert (record.outcome, attributes["error.type"]) == (Outcome.ERROR, "text/html")


@pytest.mark.parametrize("sdk", [True, False], ids=["sdk", "httpx"])
def test_an_empty_value_replaces_no_known_one(seen: Captured, *, sdk: bool) -> None:
    """Azure's asynchronous content filter sends chunks without id and model."""
    later = {**_chunk(_choice(reason="stop")), "id": "", "model": ""}
    with _client(_stream(_TEXT, later), _EVENTS) as client:
        _ask(client, sdk=sdk)
    _, attributes = _call(seen)
    assert attributes[semconv.GEN_AI_RESPONSE_ID] == "c1"
    assert attributes[semconv.GEN_AI_RESPONSE_MODEL] == "big"


@pytest.mark.parametrize("sdk", [True, False], ids=["sdk", "httpx"])
def test_any_number_of_chunks_may_follow_the_finish_reason(seen: Captured, *, sdk: bool) -> None:
    """They have other fields, such as those of a content filter."""
    after = [
        _chunk({"index": 0, "delta": {}, "content_filter_offsets": {"at": n}}) for n in range(9)
    ]
    with _client(_stream(_TEXT, _chunk(_choice(reason="stop")), *after), _EVENTS) as client:
        _ask(client, sdk=sdk)
    record, attributes = _call(seen)
    assert record.outcome is Outcome.COMPLETED
    assert attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] == ("stop",)


def _moonshot() -> Iterable[dict[str, Any]]:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    return _TEXT, _chunk(_choice(reason="stop", usage=usage))


def _deepseek() -> Iterable[dict[str, Any]]:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_cache_hit_tokens": 5}
    return _TEXT, _chunk(_choice(reason="stop"), usage=usage)


@pytest.mark.parametrize("sdk", [True, False], ids=["sdk", "httpx"])
@pytest.mark.parametrize(("events", "cached"), [(_moonshot, None), (_deepseek, 5)])
def test_usage_of_other_shapes(
    seen: Captured, events: Any, cached: int | None, *, sdk: bool
) -> None:
    """Moonshot reports usage in the choice, and DeepSeek the cached tokens beside it."""
    with _client(_stream(*events()), _EVENTS) as client:
        _ask(client, sdk=sdk)
    record, _ = _call(seen)
    tokens = record.tokens
    assert (tokens.input, tokens.output, tokens.cached) == (7, 2, cached)
