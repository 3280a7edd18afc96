"""The integration of the guide "Instrument another SDK", installed next to latspan."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.loopback import Loopback

from latspan.testing.contract import stream_reply

ROOT: Final = Path(__file__).resolve().parents[2]
EVIDENCE: Final = ROOT / "docs" / "evidence.md"
GUIDE: Final = ROOT / "docs" / "guides" / "instrument-an-sdk.md"
BLOCK: Final = re.compile(
    r"^```(?P<language>python|toml)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)

PROGRAM: Final = """
import json, sys
import latspan
from latspan.testing import capture

on = latspan.auto_instrument()
import ollama

client = ollama.Client(host=sys.argv[1])
with capture() as seen:
    for chunk in client.chat("tiny", [{"role": "user", "content": "hello"}], stream=True):
        pass
print(json.dumps({
    "on": list(on),
    "records": [
        {
            "name": record.name,
            "kind": record.kind,
            "tokens": record.tokens.output,
            "segments": sorted({segment.name for segment in record.segments}),
        }
        for record in seen.records
    ],
}))
"""


POINT: Final = re.compile(r'^\[project\.entry-points\.(\w+)\]\n(\w+) = "(.*)"$', re.MULTILINE)


def _blocks(page: Path, language: str) -> list[str]:
    return [each["code"] for each in BLOCK.finditer(page.read_text()) if each[1] == language]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH with the guide's distribution, as pip would install it."""
    pytest.importorskip("ollama")
    integration, tests = _blocks(GUIDE, "python")
    (project,) = _blocks(GUIDE, "toml")
    (source,) = _blocks(EVIDENCE, "python")
    (source_project,) = _blocks(EVIDENCE, "toml")
    site = tmp_path_factory.mktemp("site")
    (site / "latspan_ollama.py").write_text(integration)
    (site / "test_latspan_ollama.py").write_text(tests)
    (site / "acme_latspan.py").write_text(source)
    information = site / "latspan_ollama-1.0.dist-info"
    information.mkdir()
    information.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: latspan-ollama\nVersion: 1.0\n"
    )
    groups = [
        f"[{group}]\n{name} = {value}\n"
        for group, name, value in POINT.findall(project + source_project)
    ]
    assert len(groups) == 2
    information.joinpath("entry_points.txt").write_text("".join(groups))
    return site


def _run(site: Path, *command: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join(filter(None, (str(site), kept.get("PYTHONPATH"))))
    finished = subprocess.run(
        [sys.executable, *command],
        cwd=site,
        env={**kept, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_the_integration_of_the_guide_is_short_and_passes_the_contract(site: Path) -> None:
    """On public names only, and in at most 60 lines."""
    code = (site / "latspan_ollama.py").read_text()
    assert len(code.splitlines()) <= 60
    assert set(re.findall(r"^from (latspan[.\w]*)", code, re.MULTILINE)) == {
        "latspan",
        "latspan.integrations",
        "latspan.integrations.formats",
    }
    shown = re.search(r"^(\d+ passed)$", GUIDE.read_text(), re.MULTILINE)
    assert shown is not None
    assert shown[1] in _run(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".")


def test_it_is_discovered_and_its_requests_are_attempts(site: Path) -> None:
    """With the integration of httpx on, a chat is one call that has the phases of its request."""

    def line(text: str, **more: Any) -> bytes:
        message = {"role": "assistant", "content": text}
        return json.dumps({"model": "tiny", "message": message, **more}).encode() + b"\n"

    end = line("", done=True, done_reason="stop", prompt_eval_count=3, eval_count=2)
    reply = stream_reply(
        *(line("Hi"), line("!"), end),
        content_type="application/x-ndjson",
        headers={"X-Acme-Queue-Ms": "0.001"},
    )
    with Loopback([reply]) as server:
        seen = json.loads(_run(site, "-c", PROGRAM, server.url))
        (visit,) = server.visits
    assert "latspan_ollama" in seen["on"]
    (record,) = seen["records"]
    assert (record["name"], record["kind"], record["tokens"]) == ("chat tiny", "call", 2)
    # The queue comes from the evidence source of the distribution.
    assert {"connect", "send", "queue"} <= set(record["segments"])
    assert len(re.findall(rb"\r\ntraceparent:", visit.request.raw, re.IGNORECASE)) == 1
