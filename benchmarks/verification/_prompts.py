"""Prompts of the verifications: rules that never change, and a line that is new in each prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

STABLE_TOKENS: Final = 90
"""Tokens of the rules, rounded."""

_PROMPTS: Final = 40
_RULES: Final = """\
You answer customers of a public library in one sentence, and never invent a rule. Books can be
borrowed for four weeks, films and games for one week. A late book costs twenty cents per day, a
late film one euro. A lost card costs five euros. Children under twelve pay nothing. The reading
room is open on weekdays from nine to eight. Never ask for a password. For anything else, name the
desk on the first floor."""
_QUESTIONS: Final = (
    "How long can I keep a book?",
    "What does a late film cost?",
    "When is the reading room open?",
    "I lost my card.",
    "Can I extend a game?",
    "Where can our group meet?",
    "Does my daughter, who is nine, pay?",
    "Can you reset my password?",
    "Is the library open on Sunday?",
    "How do I reserve a book?",
)


def write_prompts(folder: Path) -> None:
    """Write ``variable-first.jsonl`` and ``stable-first.jsonl``: the same parts in both orders."""
    for name in ("variable-first", "stable-first"):
        lines: list[str] = []
        for number in range(_PROMPTS):
            hour, minute = 8 + number % 10, number * 13 % 60
            ticket = f"Ticket {7919 * (number + 3) % 10007}, received at {hour}:{minute:02}."
            parts = [ticket, _RULES] if name == "variable-first" else [_RULES, ticket]
            messages = [
                {"role": "system", "content": "\n".join(parts)},
                {"role": "user", "content": _QUESTIONS[number % len(_QUESTIONS)]},
            ]
            lines.append(json.dumps({"id": str(number), "messages": messages}))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
