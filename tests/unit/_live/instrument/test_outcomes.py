"""How exceptions of client libraries read as outcomes."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from latspan._live.instrument import error_type_of, outcome_of
from latspan._live.instrument._outcomes import failure_of
from latspan._model.segments import Outcome
from latspan._model.timeline import Attempt


class APITimeoutError(Exception):
    """Named as client libraries name theirs."""


class APIStatusError(Exception):
    """Has a status code and a response, as client libraries have it."""

    def __init__(self, status_code: int, headers: object = None) -> None:
        super().__init__("a secret")
        self.status_code = status_code
        self.response = type("Response", (), {"headers": headers})()


class ClientError(Exception):
    """Has a response as botocore's exception has it."""

    def __init__(self, status: object = None, code: object = None, **headers: str) -> None:
        super().__init__("a secret")
        metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers}
        self.response = {"Error": {"Code": code}, "ResponseMetadata": metadata}


class APIError(Exception):
    """Has the status of the response as a number under any name, and that of the API as text."""

    def __init__(self, **fields: object) -> None:
        super().__init__("a secret")
        vars(self).update(response=None, **fields)


class Deprecating(Exception):  # noqa: N818 - named after what it does
    """Warns of reading its code, as exceptions of aiohttp and websockets do."""

    @property
    def code(self) -> int:
        """Must not be read."""
        raise AssertionError


class SDKError(Exception):
    """Has the headers itself, as the exceptions of the Mistral SDK have them."""

    status_code = 503
    headers: ClassVar = {"retry-after": "1"}


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
        (SDKError(), Outcome.REJECTED),
        (APIStatusError(503, {}), Outcome.ERROR),
        (APIStatusError(503, 5), Outcome.ERROR),
        (APIStatusError(500), Outcome.ERROR),
        (APIStatusError(200), Outcome.ERROR),
        (APIError(code=429, status="RESOURCE_EXHAUSTED"), Outcome.REJECTED),
        (APIError(status=429), Outcome.REJECTED),
        (APIError(code="429"), Outcome.ERROR),
        (APIError(code=1011), Outcome.ERROR),
        (Deprecating(), Outcome.ERROR),
        (ValueError(), Outcome.ERROR),
        (ClientError(429), Outcome.REJECTED),
        (ClientError(503, **{"retry-after": "1"}), Outcome.REJECTED),
        (ClientError(503), Outcome.ERROR),
        (ClientError("429"), Outcome.ERROR),
        (ClientError(code="throttlingException"), Outcome.ERROR),
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
        (APIError(code=404, status="NOT_FOUND"), "404"),
        (APIError(code=1011), f"{__name__}.APIError"),
        (Deprecating(), f"{__name__}.Deprecating"),
        (ValueError("a secret"), "ValueError"),
        (ClientError(429, "ThrottlingException"), "429"),
        (ClientError(code="throttlingException"), "throttlingException"),
        (ClientError(200, code=5), f"{__name__}.ClientError"),
        (APITimeoutError("a secret"), f"{__name__}.APITimeoutError"),
    ],
)
def test_error_types_contain_nothing_of_the_message(error: BaseException, error_type: str) -> None:
    """A status code, a code of AWS or a qualified name."""
    assert error_type_of(error) == error_type


@pytest.mark.parametrize(
    ("error", "status", "headers", "failure"),
    [
        (ValueError(), 429, {}, (Outcome.REJECTED, "429")),
        (ValueError(), 503, {"retry-after": "1"}, (Outcome.REJECTED, "503")),
        (ValueError(), 503, {}, (Outcome.ERROR, "503")),
        (ValueError(), 200, {}, (Outcome.ERROR, "ValueError")),
        (ValueError(), None, {}, (Outcome.ERROR, "ValueError")),
        (APIError(code=500), 429, {}, (Outcome.ERROR, "500")),
        (TimeoutError(), 429, {}, (Outcome.TIMEOUT, "TimeoutError")),
    ],
)
def test_an_exception_without_a_status_has_that_of_the_response(
    error: BaseException, status: int | None, headers: object, failure: tuple[Outcome, str]
) -> None:
    """A timeout stays one: it may have occurred while the client waited to try again."""
    assert failure_of(error, Attempt(0, status=status), headers) == failure
    assert failure_of(error, None, {}) == (outcome_of(error), error_type_of(error))
