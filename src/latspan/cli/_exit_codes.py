"""
Exit codes of the commands that judge a measurement, for scripts and CI.

The code 2 is that of every command for an invalid command line or setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from latspan._study.diagnose import Diagnosis

MISSED: Final = 1
"""A target is missed, or a comparison ended worse."""

INCONCLUSIVE: Final = 3
"""There is no answer yet: more requests or runs are needed, or two causes are too close."""

NOT_INTERPRETABLE: Final = 4
"""A measurement is invalid, two sides are not comparable, or a file cannot be interpreted."""

_CODES: Final = {
    # Judgements of a comparison and a verification, findings of a sweep.
    "improved": 0,
    "no worse": 0,
    "no drift": 0,
    "worse": MISSED,
    "drift": MISSED,
    "inconclusive": INCONCLUSIVE,
    "not interpretable": NOT_INTERPRETABLE,
    # Conclusions of a diagnosis; a cause to fix also depends on the target.
    "fix": 0,
    "nothing_to_fix": 0,
    "unreliable": MISSED,
    "tie": INCONCLUSIVE,
    "spread_out": INCONCLUSIVE,
    "not_instrumented": INCONCLUSIVE,
    "too_few": INCONCLUSIVE,
    "undecided": INCONCLUSIVE,
    "no_requests": INCONCLUSIVE,
    "invalid": NOT_INTERPRETABLE,
}
"""Exit code of each judgement, finding and conclusion, by its value."""

_URGENCY: Final = (MISSED, NOT_INTERPRETABLE, INCONCLUSIVE)


def exit_code_of(concluded: StrEnum) -> int:
    """Return the exit code that stands for a judgement, a finding or a conclusion."""
    return _CODES[concluded.value]


def exit_code_of_diagnosis(diagnosis: Diagnosis) -> int:
    """Return the exit code of a diagnosis: a cause of a missed target is not a success."""
    from latspan._study.diagnose import Conclusion
    from latspan._study.stats import Verdict

    missed = diagnosis.target is not None and diagnosis.target.verdict is Verdict.MISSED
    if diagnosis.conclusion is Conclusion.FIX and missed:
        return MISSED
    return exit_code_of(diagnosis.conclusion)


def most_urgent(codes: Iterable[int]) -> int:
    """Return the exit code of several results: worse, then not interpretable, then inconclusive."""
    found = set(codes)
    return next((code for code in _URGENCY if code in found), 0)
