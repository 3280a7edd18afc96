"""The first event of a stream is recognised in time linear in its length."""

from __future__ import annotations

import pytest

from latspan._wire import ApiFormat
from latspan._wire.anthropic_messages import ANTHROPIC_MESSAGES
from latspan._wire.openai_chat import OPENAI_CHAT
from latspan._wire.openai_completions import OPENAI_COMPLETIONS
from latspan._wire.openai_responses import OPENAI_RESPONSES

DIALECTS = (ANTHROPIC_MESSAGES, OPENAI_RESPONSES, OPENAI_COMPLETIONS, OPENAI_CHAT)


@pytest.mark.parametrize(
    "event",
    [
        b'{"choices":[{"index":0,"delta":{}}]}',
        b'{"choices": [ {"content_filter_results": {"hate": {}}, "delta": {"content": "a"}}]}',
        b'{"note":"choices", "choices":[{"delta":{}}]}',
        b'{"choices":[{"finish_reason":null,\n"delta":{"role":"assistant"}}]}',
    ],
)
def test_a_chat_chunk_is_recognised_by_its_choices(event: bytes) -> None:
    """Some servers omit ``object``."""
    opens = {dialect.name for dialect in DIALECTS if _opens(dialect, event)}
    assert opens == {"openai.chat"}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    "unit",
    [b'"choices":[{', b'"choices":[{"', b'"choices" ', b'"object" : ', b'"type" : ', b'{"error" '],
)
def test_a_hostile_event_is_searched_in_linear_time(dialect: ApiFormat, unit: bytes) -> None:
    """Searching from each beginning to the end of the event would take many minutes."""
    assert not _opens(dialect, unit * (1_000_000 // len(unit)))


def _opens(dialect: ApiFormat, event: bytes) -> bool:
    assert dialect.stream is not None
    return dialect.stream.opens.search(event) is not None
