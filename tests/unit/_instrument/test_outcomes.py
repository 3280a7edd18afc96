"""How exceptions of client libraries read as outcomes."""

from __future__ import annotations

import asyncio

import pytest

from latspan._instrument import error_type_of, outcome_of
from latspan._segments import Outcome


class APITimeoutError(Exception):
    """Named as client libraries name theirs."""


class APIStatusError(Exception):
    """Has a status code and a response, as client libraries have it."""

    def __init__(self, status_code: int, headers: object = None) -> None:
        super().__init__("a secret")
        self.status_code = status_code
        self.response = type("Response", (), {"headers": headers})()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (asyncio.CancelledError(), Outcome.CANCELLED),
        (KeyboardInterrupt(), Outcome.CANCELLED),
        (GeneratorExit(), Outcome.CLOSED_EARLY),
        (TimeoutError(), Outcome.TIMEOUT),
        (APITimeoutError(), Outcome.TIMEOUT),
        (APIStatusError(429), Outcome.REJECTED),
        (APIStatusError(503, {"retry-after": "1"}), Outcome.REJECTED),
        (APIStatusError(503, {}), Outcome.ERROR),
        (APIStatusError(503, 5), Outcome.ERROR),
        (APIStatusError(500), Outcome.ERROR),
        (APIStatusError(200), Outcome.ERROR),
        (ValueError(), Outcome.ERROR),
    ],
)
def test_outcomes(error: BaseException, outcome: Outcome) -> None:
    """By shape, not by import."""
    assert outcome_of(error) is outcome


@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        (APIStatusError(429), "429"),
        (APIStatusError(200), f"{__name__}.APIStatusError"),
        (ValueError("a secret"), "ValueError"),
        (APITimeoutError("a secret"), f"{__name__}.APITimeoutError"),
    ],
)
def test_error_types_contain_nothing_of_the_message(error: BaseException, error_type: str) -> None:
    """A status code or a qualified name."""
    assert error_type_of(error) == error_type
