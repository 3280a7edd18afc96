"""LiteLLM and LangChain call models through clients that latspan knows: each is one call."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from latspan.testing import Script, ScriptedServer
from support.programs import run_program

TOKENS = 6


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(
    ("framework", "package"), [("litellm", "litellm"), ("langchain", "langchain_openai")]
)
def test_a_streamed_chat(framework: str, package: str, mode: str) -> None:
    """Read to its end, with every token's arrival."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    with ScriptedServer(Script.chat(tokens=TOKENS, prefill_ms=20, gap_ms=5)) as server:
        printed = run_program("asks_through_a_framework", framework, mode, server.base_url)
    document = json.loads(printed.splitlines()[-1])
    assert document["chunks"] >= TOKENS
    assert document["calls"] == [["chat m", "completed", TOKENS - 1]]
    assert document["spans"] == ["chat m"]
