"""Plans of ``programs/planned_calls.py``: calls of a model at chosen times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from diagnosis.sockets._load import program

_PROGRAM: Final = Path(__file__).with_name("programs") / "planned_calls.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """
    A call of the model.

    Args:
        at_s: Instant after the start of the program.
        words: Length of the prompt's own part.
        tokens: Limit of the answer.
        prefix: Name of the text that the prompt begins with.
        prefix_words: Length of that text.
        model: Name of the model.
        user: Field ``user`` of the request; "" for none.
        effort: Field ``reasoning_effort``; "" for none.
        server: Place of the server among the addresses.
        attributes: Attributes of the call in the recording, for example ``tenant``.
        streams: Whether the answer is a stream.
    """

    at_s: float
    words: int
    tokens: int
    prefix: str = ""
    prefix_words: int = 0
    model: str = "m"
    user: str = ""
    effort: str = ""
    server: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    streams: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    Calls of a program.

    Args:
        calls: Calls, in any order.
        retries: Number of retries of the SDK.
        timeout_s: Time limit of an attempt.
    """

    calls: Sequence[Call]
    retries: int = 2
    timeout_s: float = 30.0

    def run(self, urls: Sequence[str], folder: Path) -> Path:
        """Run the program with the addresses of the servers, and return the recording."""
        with TemporaryDirectory() as temporary:
            file = Path(temporary) / "plan.json"
            file.write_text(json.dumps(asdict(self)))
            return program(_PROGRAM, folder, PLAN_FILE=str(file), MODEL_URLS=json.dumps(urls))
