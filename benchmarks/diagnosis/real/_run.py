"""
Diagnose faults of real parts, and count the right answers.

Method: each fault is put into real parts on this machine: llama.cpp with SmolLM2-135M and one
thread, HAProxy, nginx, TLS, a network namespace, or an application on the OpenAI SDK. ``latspan
measure`` or ``latspan run --record`` records requests, and ``latspan diagnose --json`` receives the
recording and nothing else. A recording that the load generator made invalid shows nothing about the
server: it is made again, up to twice.

*Right* names the cause. *Tied* is a tie or a spread-out time with the right segment among the two
largest. Everything else is wrong.

Caveats: one machine, one model and one strength for each fault, with some 50 requests each. The
figures show that the causes are named on real parts, and not how often.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from _table import markdown
from diagnosis.real._faults import FAULTS, Fault
from diagnosis.real._parts import MissingPartError

_REPEATS: Final = 2
_INVALID: Final = "invalid"
_TIES: Final = frozenset({"tie", "spread_out"})


@dataclass(frozen=True, slots=True)
class _Answer:
    """
    Answer to one fault.

    Args:
        fault: The fault.
        result: ``right``, ``tied``, ``wrong``, ``invalid`` or ``skipped``.
        named: Cause or conclusion.
        shares: The two largest segments with their shares.
        sentence: The diagnosis, or why there is none.
        took_s: Seconds it took.
    """

    fault: Fault
    result: str
    named: str
    shares: str
    sentence: str
    took_s: float


def run(only: str, *, as_json: bool) -> int:
    """
    Print the answers; return 1 if one is wrong.

    Args:
        only: Beginnings of the names of faults, separated by commas; empty for all.
        as_json: Whether to print one document instead of a table.
    """
    chosen = [fault for fault in FAULTS if fault.name.startswith(tuple(only.split(",")))]
    answers = list(_answers(chosen))
    if as_json:
        print(json.dumps([_as_data(each) for each in answers], indent=2))
    else:
        print(markdown(list(_rows(answers))))
        for each in answers:
            if each.result != "right":
                print(f"{each.result}: {each.fault.name}: {each.sentence}")
        print(f"\n{_total(answers)}; {sum(each.took_s for each in answers):.0f} s")
    return int(any(each.result == "wrong" for each in answers))


def _answers(faults: Iterable[Fault]) -> Iterator[_Answer]:
    for fault in faults:
        sys.stderr.write(f"{fault.name} ...\n")
        began = time.monotonic()
        try:
            answer = _answer(fault)
        except MissingPartError as error:
            answer = ("skipped", "", "", str(error))
        found = _Answer(fault, *answer, time.monotonic() - began)
        sys.stderr.write(f"  {found.result}: {found.named} ({found.shares})\n")
        yield found


def _answer(fault: Fault) -> tuple[str, str, str, str]:
    found = _recorded(fault)
    for _ in range(_REPEATS):
        if found["conclusion"] == _INVALID:
            found = _recorded(fault)
    shares: list[dict[str, Any]] = found["shares"][:2]
    listed = ", ".join(f"{each['segment']} {100 * each['share']:.0f} %" for each in shares)
    conclusion: str = found["conclusion"]
    cause: str = found["cause"]["name"] if found["cause"] else ""
    named = cause if conclusion in {"fix", "unreliable"} else conclusion
    return _result(fault, conclusion, cause, shares), named, listed, found["sentence"]


def _recorded(fault: Fault) -> dict[str, Any]:
    with TemporaryDirectory() as name:
        return _diagnosed(fault.inject(Path(name)))


def _result(fault: Fault, conclusion: str, cause: str, shares: Sequence[dict[str, Any]]) -> str:
    if conclusion == _INVALID:
        return _INVALID
    if conclusion == "fix" and cause in fault.causes:
        return "right"
    largest = {each["segment"] for each in shares}
    return "tied" if conclusion in _TIES and fault.segments & largest else "wrong"


def _diagnosed(recording: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "latspan", "diagnose", str(recording), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        raise RuntimeError(f"latspan diagnose: {done.stderr[-2_000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _rows(answers: Iterable[_Answer]) -> Iterator[tuple[str, ...]]:
    yield ("injected", "parts", "named", "largest segments", "result", "took")
    for each in answers:
        yield (
            each.fault.name,
            each.fault.parts,
            each.named,
            each.shares,
            each.result,
            f"{each.took_s:.0f} s",
        )


def _total(answers: Sequence[_Answer]) -> str:
    counts = Counter(each.result for each in answers)
    asked = len(answers) - counts["skipped"] - counts[_INVALID]
    parts = [f"{counts['right']} of {asked} right", f"{counts['tied']} tied"]
    parts.append(f"{counts['wrong']} wrong")
    parts += [f"{counts[name]} {name}" for name in (_INVALID, "skipped") if counts[name]]
    return ", ".join(parts)


def _as_data(answer: _Answer) -> dict[str, Any]:
    return {
        "injected": answer.fault.name,
        "parts": answer.fault.parts,
        "causes": sorted(answer.fault.causes),
        "named": answer.named,
        "largest": answer.shares,
        "result": answer.result,
        "sentence": answer.sentence,
        "took_s": round(answer.took_s, 1),
    }
