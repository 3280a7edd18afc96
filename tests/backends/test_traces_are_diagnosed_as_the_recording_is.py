"""``latspan diagnose``: faults read back from Jaeger or Tempo, compared with the recording."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from latspan.cli import main
from latspan.testing import Script, ScriptedServer
from support.backends import Backends, eventually
from support.stillness import when_still

pytest.importorskip("rich", reason="the extra study is not installed")
pytest.importorskip("openai", reason="the openai client is not installed")

REQUESTS: Final = 60
PROGRAM: Final = """
import sys, time
import latspan

_, endpoint, service, folder, url, fault, number = sys.argv
latspan.configure(
    endpoint=endpoint, protocol="http/protobuf", service_name=service, record_dir=folder
)
latspan.auto_instrument()

import openai

client = openai.OpenAI(base_url=url, api_key="key", max_retries=2)

def ask():
    stream = client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "a"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    for chunk in stream:
        if fault == "slow_reader" and slow:
            time.sleep(0.008)

for each in range(int(number)):
    slow = each % 5 == 0
    with latspan.request("answer"), latspan.attributes({"app.region": "b" if slow else "a"}):
        with latspan.stage("rerank", kind="retrieve"):
            time.sleep(0.06 if fault == "retrieval" and slow else 0.001)
        for _ in range(3 if fault == "chain" and slow else 1):
            ask()
latspan.shutdown()
"""


def chat(**changed: Any) -> Script:
    normal: dict[str, Any] = {"tokens": 4, "queue_ms": 1, "prefill_ms": 5, "gap_ms": 2}
    return Script.chat(**(normal | changed))


def plan(**slow: Any) -> list[Script]:
    """Return one script per request, each fifth with a fault."""
    return [chat(**(slow if number % 5 == 0 else {})) for number in range(REQUESTS)]


FAULTS: Final[dict[str, Sequence[Script]]] = {
    "queue": plan(queue_ms=60),
    "long_prompt": plan(prefill_ms=60, prompt_tokens=600),
    "long_answer": plan(tokens=160),
    "slow_tokens": plan(gap_ms=20),
    "slow_reader": plan(tokens=10),
    "retrieval": plan(),
    "chain": [chat()] * (REQUESTS + 2 * REQUESTS // 5),
}


def record(fault: str, backends: Backends, folder: Path) -> Path:
    """
    Run a program with a fault, which sends traces of its requests; return their recording.

    The name of the service is that of the folder.
    """
    with ScriptedServer(list(FAULTS[fault])) as server:
        subprocess.run(
            [
                *(sys.executable, "-c", PROGRAM, backends.otlp_url, folder.name),
                *(str(folder), server.base_url, fault, str(REQUESTS)),
            ],
            check=True,
            capture_output=True,
        )
    return folder


@pytest.fixture(scope="module")
def recordings(backends: Backends, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """
    The recording of each fault, two programs at a time, because most of it is waiting.

    Other programs would make streams stall, and only a recording has single gaps.
    """
    folder = tmp_path_factory.mktemp("recordings")
    takes = count(1)

    def take() -> dict[str, Path]:
        number = next(takes)
        with ThreadPoolExecutor(2) as threads:
            running = {
                fault: threads.submit(record, fault, backends, folder / f"shop-{fault}-{number}")
                for fault in FAULTS
            }
            return {fault: made.result() for fault, made in running.items()}

    return when_still(take)


@pytest.fixture
def diagnosed(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def run(*arguments: str) -> dict[str, Any]:
        main(["diagnose", *arguments, "--json"])
        return json.loads(capsys.readouterr().out)

    return run


def conclusion(document: dict[str, Any]) -> tuple[str, str | None, str]:
    cause = document["cause"]
    largest = document["shares"][0]["segment"] if document["shares"] else ""
    return document["conclusion"], cause and cause["name"], largest


def shares(document: dict[str, Any], names: Iterable[str]) -> dict[str, float]:
    """
    Return the share of each name, 0 if it is not in the document.

    A segment that a few requests have is in the document if one of them is among the slow ones.
    Jaeger stores whole microseconds, so another of two requests that last equally long may be slow.
    """
    found = {each["segment"]: each["share"] for each in document["shares"]}
    return {name: found.get(name, 0.0) for name in names}


@pytest.mark.alone
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["jaeger", "tempo"])
def test_a_fault_has_the_same_cause(
    name: str,
    fault: str,
    backends: Backends,
    recordings: dict[str, Path],
    diagnosed: Callable[..., dict[str, Any]],
    request: pytest.FixtureRequest,
) -> None:
    """Conclusion, cause, leading segment, and the shares to a percent."""
    url = f"http://{backends.addresses['LATSPAN_JAEGER']}"
    if name == "tempo":
        request.getfixturevalue("tempo_program")
        url = backends.tempo.url
    own = diagnosed(str(recordings[fault]))

    def look() -> dict[str, Any]:
        try:
            return diagnosed(url, "--service", recordings[fault].name)
        except json.JSONDecodeError:
            # The backend does not have the service yet.
            return {"units": 0}

    read = eventually(look, lambda found: found["units"] >= REQUESTS)

    assert read["units"] == own["units"] == REQUESTS
    assert conclusion(read) == conclusion(own)
    assert own["conclusion"] in ("fix", "tie")
    names = [each["segment"] for each in (*read["shares"], *own["shares"])]
    assert shares(read, names) == pytest.approx(shares(own, names), abs=0.01)
    assert any(note.startswith(f"Read {REQUESTS} traces") for note in read["notes"])
