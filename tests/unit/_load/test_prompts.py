"""Prompts: read, generated, ordered and described by fingerprints."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from latspan._load._prompts import (
    LONG_EVERY,
    Prompt,
    PromptSet,
    fingerprint,
    generated,
    prompts_like,
    read_prompts,
)
from latspan.errors import ConfigError


def _file(folder: Path, *lines: object) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_a_file_has_prompts_and_messages(tmp_path: Path) -> None:
    """Both forms can be mixed, and a line may be empty."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tides?"}]
    path = _file(tmp_path, {"prompt": "Bees?", "id": "b1"}, {"messages": messages})
    path.write_text(path.read_text() + "\n\n")
    prompts = read_prompts(path, seed=0).prompts
    assert prompts[0] == Prompt(({"role": "user", "content": "Bees?"},), "b1")
    assert prompts[1].messages == tuple(messages)
    assert prompts[1].text == "Tides?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "a"}\nnot JSON\n', "line 2 is not JSON"),
        ("[1]\n", "line 1 is not a JSON object"),
        ('{"text": "a"}\n', "line 1 has neither 'prompt' nor 'messages', but text"),
        ('{"prompt": ""}\n', "line 1 has neither"),
        ('{"messages": ["a"]}\n', "line 1 has neither"),
        ("\n", "contains no prompt"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    """The error names the line, and the hint shows a right one."""
    path = tmp_path / "prompts.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        read_prompts(path, seed=0)
    assert '{"prompt": "What is the tide?"}' in (caught.value.hint or "")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """The hint shows how to go on without one."""
    with pytest.raises(ConfigError, match="No such file") as caught:
        read_prompts(tmp_path / "none.jsonl", seed=0)
    assert "omit --prompts" in (caught.value.hint or "")


def test_a_seed_gives_the_same_prompts_in_the_same_order() -> None:
    """Another seed gives others."""
    conditions = generated(50, seed=3).conditions(200)
    assert conditions == generated(50, seed=3).conditions(200)
    other = generated(50, seed=4).conditions(200)
    assert conditions["fingerprint"] != other["fingerprint"]
    assert conditions["order"] != other["order"]


def test_generated_prompts_never_change() -> None:
    """A measurement of an earlier release must be repeatable."""
    assert generated(3, seed=1, words=5).conditions(3) == {
        "source": "generated",
        "count": 3,
        "characters": 337,
        "shared": 0.2794,
        "fingerprint": "sha256:92d24efe31166754a500f48703f1401aada004b07925c5dee64cdd3c78f5f027",
        "order": "sha256:9451707b124b67e5a6ba5310d11e07d2b2c5cd4244e63c70441888c1bcea38ce",
    }


def test_long_prompts_are_among_the_generated_ones() -> None:
    """One in ten is some ten times longer, and all differ from their first words on."""
    texts = [prompt.text for prompt in generated(200, seed=0, words=50).prompts]
    lengths = sorted(len(text.split()) for text in texts)
    assert 40 <= lengths[100] <= 70
    assert sum(length > 200 for length in lengths) == pytest.approx(200 / LONG_EVERY, abs=6)
    assert len({text.split()[0] for text in texts}) == 200


def test_every_pass_sends_each_prompt_once() -> None:
    """The order of each pass is another one."""
    prompts = generated(20, seed=0)
    passes = [[prompts.number_of(20 * n + place) for place in range(20)] for n in range(3)]
    assert all(Counter(each) == Counter(range(20)) for each in passes)
    assert passes[0] != passes[1] != passes[2]


def test_prompts_can_have_recorded_lengths() -> None:
    """Their words make about as many tokens as were recorded."""
    prompts = prompts_like([13, 1300], 100, seed=0).prompts
    lengths = Counter(len(prompt.text.split()) - 4 for prompt in prompts)
    assert set(lengths) == {10, 1000}


def test_a_text_can_be_put_in_front() -> None:
    """It comes before everything else, so nothing after it is cached."""
    plain = Prompt(({"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}))
    assert plain.beginning_with("[1] ").messages[0]["content"] == "[1] Be brief."
    parts = Prompt(({"role": "user", "content": [{"type": "text", "text": "a"}]},))
    assert parts.beginning_with("[1] ").messages[0]["content"] == [
        {"type": "text", "text": "[1] "},
        {"type": "text", "text": "a"},
    ]


def test_a_fingerprint_depends_on_where_a_text_ends() -> None:
    """Two texts are not the same as their concatenation."""
    assert fingerprint(["ab", "c"]) != fingerprint(["a", "bc"])


def test_the_fingerprint_ignores_the_names_of_prompts() -> None:
    """Only what is sent counts."""
    one, other = (
        PromptSet([Prompt(({"role": "user", "content": "a"},), name)], seed=0, source="file")
        for name in ("x", "y")
    )
    assert one.conditions(1) == other.conditions(1)


@pytest.mark.parametrize(
    ("texts", "shared"),
    [
        (["Be brief. A?", "Be brief. BC?"], 20 / 25),
        (["12:01. Be brief.", "12:02. Be brief."], 22 / 32),
        (["abc", "abc"], 1.0),
        (["abc", "xyz"], 0.0),
        (["aaaa", "aa"], 4 / 6),
        (["abc"], 1.0),
    ],
    ids=["at the beginning", "after a time", "all", "nothing", "no more than there is", "one"],
)
def test_the_text_that_all_prompts_share_is_a_fraction(texts: list[str], shared: float) -> None:
    """Of each message, its beginning or its end, whichever is longer."""
    prompts = [Prompt(({"role": "user", "content": text},)) for text in texts]
    conditions = PromptSet(prompts, seed=0, source="file").conditions(1)
    assert conditions["shared"] == pytest.approx(shared, abs=1e-4)


def test_a_byte_order_mark_is_no_part_of_the_first_prompt(tmp_path: Path) -> None:
    """Editors of Windows write it."""
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\n')
    assert len(read_prompts(file, seed=1).prompts) == 1
