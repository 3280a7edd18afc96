"""The table of situations: what a server and the road to it do, and how a chat then ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from latspan.integrations import Outcome
from latspan.testing import Ending, PayloadPart, Script, ScriptStep
from tests.support.road import Conditions

_NO_ROAD: Final = Conditions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """
    What happens to a program's chats.

    Args:
        name: What is the matter.
        scripts: What the server answers, one a try.
        outcome: How each chat ends.
        conditions: What the road is like; the program goes straight to the server if ``None``.
        look_up_s: Seconds that the look-up of the server's name takes; ``None``: an address.
        chats: How many the program asks for.
        keeps_alive: Whether they may share a connection; else the program says ``close``.
        tokens: Chunks with tokens that reach the program, where fewer than the server wrote.
        setting: What else the program is told.
    """

    name: str
    scripts: tuple[Script, ...]
    outcome: Outcome = Outcome.COMPLETED
    conditions: Conditions | None = None
    look_up_s: float | None = None
    chats: int = 1
    keeps_alive: bool = True
    tokens: int | None = None
    setting: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def first_text(self) -> str:
        """What the first chunk with tokens says, in the last answer."""
        return next(step.text for step in self.scripts[-1].steps if step.tokens).strip()


def _script(*steps: ScriptStep, **plan: Any) -> Script:
    return Script(steps=(ScriptStep(PayloadPart.ROLE), *steps), **plan)


def _text(text: str, gap_ms: int = 3, tokens: int = 1) -> ScriptStep:
    return ScriptStep(PayloadPart.TEXT, gap_ns=gap_ms * 1_000_000, text=text, tokens=tokens)


def _beside(piece: PayloadPart, gap_ms: int = 3) -> ScriptStep:
    return ScriptStep(
        piece, gap_ns=gap_ms * 1_000_000, text="alive" if piece is PayloadPart.COMMENT else ""
    )


_CHAT: Final = Script.chat(tokens=4, prefill_ms=3, gap_ms=3)
_TLS: Final = Conditions(secure=True)
_LIMIT_S: Final = 0.5
"""Longer than a machine with other work keeps a piece that was written from its reader."""
_WORDS: Final = ("naïve ", "早安 ", "🙂🙂 ", "ünïcödé")

SITUATIONS: Final = (
    Situation(name="plain", scripts=(_CHAT,)),
    Situation(name="kept alive", scripts=(_CHAT,), chats=3),
    Situation(name="not kept alive", scripts=(_CHAT,), chats=3, keeps_alive=False),
    Situation(name="TLS", scripts=(_CHAT,), conditions=_TLS),
    Situation(name="TLS, kept alive", scripts=(_CHAT,), conditions=_TLS, chats=3),
    Situation(
        name="TLS, not kept alive", scripts=(_CHAT,), conditions=_TLS, chats=3, keeps_alive=False
    ),
    Situation(name="slow resolver", scripts=(_CHAT,), look_up_s=0.02),
    Situation(name="slow resolver, TLS", scripts=(_CHAT,), look_up_s=0.02, conditions=_TLS),
    Situation(name="accepted late", scripts=(_CHAT,), conditions=Conditions(accepts_after_s=0.02)),
    Situation(name="a stall", scripts=(Script.chat(tokens=4, gap_ms=2, stalls_ms={2: 60}),)),
    Situation(
        name="reset between two events",
        scripts=(Script.chat(tokens=4, gap_ms=3, ending=Ending.RESET),),
        outcome=Outcome.ERROR,
    ),
    Situation(
        name="reset inside an event",
        scripts=(_script(_text("first "), _text("second "), _text("broken"), _text("lost")),),
        conditions=Conditions(resets_in=b"broken"),
        outcome=Outcome.ERROR,
        tokens=2,
    ),
    Situation(
        name="events cut anywhere",
        # An odd number, so that it cuts characters of two, three and four bytes.
        scripts=(_script(*map(_text, _WORDS)),),
        conditions=Conditions(piece_bytes=11),
    ),
    Situation(
        name="events cut anywhere, TLS",
        scripts=(_script(*map(_text, _WORDS)),),
        conditions=Conditions(secure=True, piece_bytes=11),
    ),
    Situation(
        name="events merged in one write",
        scripts=(
            _script(_text("first "), _text("second ", 0), _text("third ", 9), _text("fourth", 0)),
        ),
    ),
    Situation(
        name="tokens merged in one event",
        scripts=(Script.chat(tokens=12, tokens_per_chunk=4, prefill_ms=3, gap_ms=3),),
    ),
    Situation(
        name="a role long before the first token",
        scripts=(Script.chat(tokens=3, prefill_ms=12, role_ms=1, gap_ms=3),),
    ),
    Situation(
        name="comments and empty deltas around tokens",
        scripts=(
            _script(
                _beside(PayloadPart.COMMENT),
                _beside(PayloadPart.EMPTY),
                _text("first "),
                _beside(PayloadPart.COMMENT),
                _text("second "),
                _beside(PayloadPart.EMPTY),
                prefill_ns=3_000_000,
            ),
        ),
    ),
    Situation(
        name="no usage chunk", scripts=(Script.chat(tokens=3, gap_ms=3, reports_usage=False),)
    ),
    Situation(
        name="reasoning, then a tool call",
        scripts=(Script.chat(tokens=0, reasoning_tokens=2, tool_call_tokens=2, gap_ms=3),),
    ),
    Situation(
        name="an error inside the stream",
        scripts=(Script.chat(tokens=3, gap_ms=3, ending=Ending.ERROR),),
        outcome=Outcome.ERROR,
    ),
    Situation(
        name="ended inside the text",
        scripts=(Script.chat(tokens=3, gap_ms=3, ending=Ending.TRUNCATED),),
        outcome=Outcome.TRUNCATED,
    ),
    Situation(
        # Why it stopped is end enough: not every server says more.
        name="ended with a reason and no mark",
        scripts=(Script.chat(tokens=3, gap_ms=3, ending=Ending.UNMARKED),),
    ),
    Situation(
        name="closed inside the body",
        scripts=(Script.chat(tokens=3, gap_ms=3, ending=Ending.CUT),),
        outcome=Outcome.ERROR,
    ),
    Situation(name="turned away", scripts=(Script.refused(429),), outcome=Outcome.REJECTED),
    Situation(
        name="turned away, then answered",
        scripts=(Script.refused(429, retry_after_s=0.005), _CHAT),
        setting={"retries": 1},
    ),
    Situation(
        name="a time limit before the first token",
        scripts=(Script.chat(tokens=3, prefill_ms=30_000),),
        outcome=Outcome.TIMEOUT,
        setting={"timeout_s": _LIMIT_S},
    ),
    Situation(
        name="a time limit inside the stream",
        scripts=(Script.chat(tokens=3, gap_ms=3, stalls_ms={2: 30_000}),),
        outcome=Outcome.TIMEOUT,
        setting={"timeout_s": _LIMIT_S},
    ),
)
