"""``latspan convert``: what a real Collector wrote, compared with the program's own recording."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

import latspan
from latspan._model.recording import RequestRecord
from latspan._model.segments import Kind
from latspan._study.traces._tiling import OFFSET_NS
from latspan.cli import main
from latspan.testing import Script, ScriptedServer
from support.collector import CollectorAddresses, Written

PROGRAM: Final = """
import sys
import latspan

latspan.configure(endpoint=sys.argv[1], protocol="http/protobuf", record_dir=sys.argv[2])
latspan.auto_instrument()

import openai

client = openai.OpenAI(base_url=sys.argv[3], api_key="key", max_retries=0)

def ask(stream):
    return client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "a secret question"}], stream=stream
    )

for number in range(3):
    with latspan.request("answer"), latspan.stage("rerank", kind="retrieve"):
        with latspan.attributes({"app.number": number}, inference_path="chat", tenant="t"):
            ask(False)
    for _ in ask(True):
        pass
stream = ask(True)
next(iter(stream))
stream.close()
try:
    ask(True)
except openai.APIStatusError:
    pass
latspan.shutdown()
"""

CHAT: Final = Script.chat(tokens=6, queue_ms=2, prefill_ms=10, gap_ms=3)


def by_span(recording: latspan.Recording) -> dict[int, RequestRecord]:
    return {record.span_id: record for record in recording.records()}


def times(record: RequestRecord) -> dict[str, int]:
    sums = Counter[str]()
    for segment in record.segments:
        sums[segment.name] += segment.duration_ns
    # A segment of no length has no span.
    return {name: total for name, total in sums.items() if total}


def test_it_agrees_with_the_recording_of_the_program(
    otelcol: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every record, with outcomes, metrics, tokens, attributes and the time of each segment."""
    monkeypatch.chdir(tmp_path)
    addresses = CollectorAddresses.free()
    with (
        Written(tmp_path).by_next(otelcol, addresses),
        ScriptedServer([*[CHAT] * 7, Script.refused(429)]) as server,
    ):
        subprocess.run(
            [sys.executable, "-c", PROGRAM, addresses.url("http"), "own", server.base_url],
            check=True,
            capture_output=True,
        )

    assert main(["convert", "spans-1.jsonl", "converted"]) == 0

    own, converted = (by_span(latspan.open_recording(each)) for each in ("own", "converted"))
    assert len(own) == 14
    assert converted.keys() == own.keys()
    for span_id, record in own.items():
        other = converted[span_id]
        for name in ("kind", "name", "outcome", "side", "duration_ns", "attributes", "details"):
            assert getattr(other, name) == getattr(record, name)
        assert other.metrics == record.metrics
        assert other.tokens[:4] == record.tokens[:4]
        # Spans inside another span have times of their own wall clock.
        offset_ns = 1_000 if record.kind is Kind.CALL else OFFSET_NS
        assert times(other) == pytest.approx(times(record), abs=offset_ns)
        assert bool(other.parent_id) == bool(record.parent_id)
    assert "secret" not in "".join(each.read_text() for each in Path("converted").glob("*.jsonl"))
