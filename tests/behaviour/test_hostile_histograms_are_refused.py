"""Whatever text a file has for a histogram, reading it ends in an answer or an error."""

from __future__ import annotations

from support.programs import run_program

ROUNDS = 2_000


def test_damaged_and_hostile_text_crashes_nothing() -> None:
    """Flips, cuts, random counts and headers, huge lengths and a bomb, in 512 MB of memory."""
    printed = run_program("decodes_hostile_text", str(ROUNDS))

    assert printed == f"{5 * ROUNDS + 1} True\n"
