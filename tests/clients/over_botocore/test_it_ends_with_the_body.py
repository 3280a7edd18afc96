"""A call of ``invoke_model`` ends with the body that the application reads."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from latspan.integrations import Outcome
from latspan.testing import Captured
from latspan.testing._loopback import ConnectionEnding, Reply
from support.bedrock import INVOKED, MODEL, attributes_in, body_of, call_in, invoke, run


def _invoked(client: Any) -> Any:
    return client.invoke_model(modelId=MODEL, body=body_of())["body"]


def _whole(body: Any) -> bytes:
    return bytes(body.read())


def _in_lines(body: Any) -> bytes:
    return b"".join(body.iter_lines())


def _in_lines_at_once(body: Any) -> bytes:
    return b"".join(body.readlines())


def _in_pieces(body: Any) -> bytes:
    return b"".join(iter(lambda: body.read(7), b""))


def _in_with(body: Any) -> bytes:
    with body as raw:
        return bytes(raw.read())


@pytest.mark.parametrize(
    "reading",
    [
        pytest.param(_whole, id="read"),
        pytest.param(_in_pieces, id="in-pieces"),
        pytest.param(b"".join, id="iterated"),
        pytest.param(_in_lines, id="lines"),
        pytest.param(_in_lines_at_once, id="readlines"),
        pytest.param(_in_with, id="with"),
    ],
)
def test_the_call_ends_with_the_body(reading: Callable[[Any], bytes], seen: Captured) -> None:
    """However the application reads it."""

    def program(client: Any) -> None:
        body = _invoked(client)
        assert not seen.records
        assert json.loads(reading(body))["id"] == "msg_1"
        assert len(seen.records) == 1

    run(program, INVOKED)
    assert call_in(seen).outcome is Outcome.COMPLETED
    assert attributes_in(seen)["gen_ai.response.finish_reasons"] == ("end_turn",)


@pytest.mark.usefixtures("without_transports")
def test_without_transports_the_call_ends_with_the_headers(seen: Captured) -> None:
    """The counts in the headers are recorded, and the finish reason is unknown."""

    def program(client: Any) -> None:
        body = _invoked(client)
        assert call_in(seen).tokens.output == 5
        body.read()

    run(program, INVOKED)
    assert "gen_ai.response.finish_reasons" not in attributes_in(seen)


def test_a_body_that_is_closed_is_closed_early(seen: Captured) -> None:
    run(lambda client: _invoked(client).close(), INVOKED)
    assert call_in(seen).outcome is Outcome.CLOSED_EARLY


def test_a_body_that_is_dropped_is_abandoned(seen: Captured) -> None:
    run(_invoked, INVOKED)
    gc.collect()
    assert call_in(seen).outcome is Outcome.ABANDONED


def test_a_body_that_is_cut_is_an_error(seen: Captured) -> None:
    errors: Any = import_module("botocore.exceptions")
    head, body = INVOKED.parts
    cut = Reply((head, body[:-9]), ending=ConnectionEnding.CLOSE)
    with pytest.raises(errors.ResponseStreamingError):
        run(invoke, cut)
    assert call_in(seen).outcome is Outcome.ERROR
