"""Two measurements of a real model server with one seed send the same load."""

from __future__ import annotations

from pathlib import Path

import pytest

from latspan import semconv
from latspan.testing import LlamaServer
from support.measuring import Measured, measure

pytestmark = pytest.mark.llama

_LOAD = (
    "--concurrency", "2", "--requests", "6", "--warmup", "2", "--max-tokens", "4",
    "--prompt-words", "10", "--seed", "7",
)  # fmt: skip


def _inputs(done: Measured) -> dict[object, int | None]:
    """Return the number of input tokens that the server counted, by the index of the request."""
    return {
        record.details[semconv.LATSPAN_LOAD_INDEX]: record.tokens.input
        for record in done.recording.records("call")
        if record.details[semconv.LATSPAN_LOAD_PHASE] != "drain"
    }


def test_one_seed_sends_the_same_load(tmp_path: Path) -> None:
    """The fingerprints match, and the server counts the same tokens in each prompt."""
    with LlamaServer(slots=2, cache_ram_mib=0) as server:
        first, second = (measure(server.base_url, tmp_path / name, *_LOAD) for name in "ab")
    assert first.step["outcomes"] == {"completed": 6}, first.errors
    assert second.step["outcomes"] == {"completed": 6}, second.errors
    names = ("model", "prompts", "arrivals", "parameters", "seed", "cache", "revision")
    conditions = [
        {name: done.document["conditions"].get(name) for name in names} for done in (first, second)
    ]
    assert conditions[0] == conditions[1]
    assert _inputs(first) == _inputs(second)
    assert len(set(_inputs(first).values())) > 3
