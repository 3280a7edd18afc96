"""Scripts are schedules in integer nanoseconds that can be converted to JSON and back."""

from __future__ import annotations

import json

import pytest

from latspan.errors import UnknownNameError
from latspan.testing import Ending, PayloadPart, Script, ScriptStep, ServerFlavor
from latspan.testing._messages import script_from_json, script_to_json
from latspan.testing._script import total_ns

MS = 1_000_000


def test_the_role_is_sent_with_the_first_token() -> None:
    """Both are one write, and the gaps follow."""
    script = Script.chat(tokens=2, gap_ms=10)

    assert [(step.piece, step.gap_ns) for step in script.steps] == [
        (PayloadPart.ROLE, 0),
        (PayloadPart.TEXT, 0),
        (PayloadPart.TEXT, 10 * MS),
    ]


def test_a_role_can_be_sent_early() -> None:
    """With its own time, the role is written during the prefill."""
    script = Script.chat(tokens=1, role_ms=3)

    assert script.lead == (ScriptStep(PayloadPart.ROLE, gap_ns=3 * MS),)
    assert [step.piece for step in script.steps] == [PayloadPart.TEXT]


def test_reasoning_precedes_text_and_tool_calls() -> None:
    """This is the order of real models; a tool call sets the finish reason."""
    script = Script.chat(reasoning_tokens=1, tokens=1, tool_call_tokens=1, role_ms=0)

    assert [step.piece for step in script.steps] == [
        PayloadPart.REASONING,
        PayloadPart.TEXT,
        PayloadPart.TOOL_CALL,
    ]
    assert script.finish_reason == "tool_calls"


@pytest.mark.parametrize("per_chunk", [1, 2, 3, 9])
def test_the_arguments_of_a_tool_call_are_json(per_chunk: int) -> None:
    """However they are split into chunks."""
    script = Script.chat(tokens=0, tool_call_tokens=3, tokens_per_chunk=per_chunk, role_ms=0)

    text = "".join(step.text for step in script.steps)
    assert json.loads(text) == {"words": "tool_call0 tool_call1 tool_call2 "}


def test_tokens_can_be_merged_into_chunks() -> None:
    """Five tokens in chunks of two are two, two and one."""
    script = Script.chat(tokens=5, tokens_per_chunk=2, role_ms=0)

    assert [step.tokens for step in script.steps] == [2, 2, 1]
    assert script.tokens == 5


def test_a_stall_is_added_to_its_gap() -> None:
    """A chunk with a stall is late by that much, even if it is the first."""
    script = Script.chat(tokens=3, gap_ms=10, stalls_ms={0: 5, 2: 700}, role_ms=0)

    assert [step.gap_ns for step in script.steps] == [5 * MS, 10 * MS, 710 * MS]


def test_the_total_is_the_sum_of_its_parts() -> None:
    """Queue, prefill and gaps add up."""
    script = Script.chat(tokens=3, queue_ms=100, prefill_ms=30, gap_ms=10)

    assert total_ns(script) == 150 * MS


@pytest.mark.parametrize(
    "script",
    [
        Script.chat(tokens=3, reasoning_tokens=2, tool_call_tokens=1, role_ms=1, flavor="plain"),
        Script.chat(ending=Ending.ERROR, flavor=ServerFlavor.LLAMA_CPP),
        Script.refused(503, retry_after_s=1.5),
    ],
)
def test_a_script_is_read_back_from_json_unchanged(script: Script) -> None:
    """The server's process reads the script that was written."""
    assert script_from_json(json.loads(json.dumps(script_to_json(script)))) == script


def test_impossible_steps_are_refused() -> None:
    """A step reports its error on construction."""
    with pytest.raises(ValueError, match="'done' cannot be a step"):
        ScriptStep(PayloadPart.DONE)
    with pytest.raises(ValueError, match="at least 0 ns"):
        ScriptStep(PayloadPart.EMPTY, gap_ns=-1)
    with pytest.raises(ValueError, match="cannot hold 1 tokens"):
        ScriptStep(PayloadPart.ROLE, tokens=1)
    with pytest.raises(ValueError, match="cannot hold 0 tokens"):
        ScriptStep(PayloadPart.TEXT, text="no token")


def test_impossible_scripts_are_refused() -> None:
    """A script reports its error on construction."""
    with pytest.raises(ValueError, match="queue_ns is at least 0"):
        Script(queue_ns=-1)
    with pytest.raises(ValueError, match="prefill_ms is at least 0, not -3"):
        Script.chat(prefill_ms=-3)
    with pytest.raises(ValueError, match="cannot be cached"):
        Script(prompt_tokens=1, cached_tokens=2)
    with pytest.raises(ValueError, match="cannot be cached"):
        Script(prompt_tokens=1, cache_write_tokens=-1)
    with pytest.raises(ValueError, match="exceed prompt_tokens"):
        Script(prompt_tokens=3, cached_tokens=2, cache_write_tokens=2)
    with pytest.raises(ValueError, match="a step of lead has tokens"):
        Script(lead=(ScriptStep(PayloadPart.TEXT, tokens=1),))
    with pytest.raises(ValueError, match="400 to 599"):
        Script.refused(200)
    with pytest.raises(ValueError, match="at least 1 token"):
        Script.chat(tokens_per_chunk=0)


@pytest.mark.parametrize(
    ("arguments", "known"),
    [({"flavor": "vllm"}, "llama.cpp, plain"), ({"ending": "crash"}, "done, unmarked, truncated")],
)
def test_an_unknown_name_is_an_error_with_the_known_ones(
    arguments: dict[str, str], known: str
) -> None:
    """The hint lists them."""
    with pytest.raises(UnknownNameError) as caught:
        Script.chat(**arguments)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert known in str(caught.value.hint)
