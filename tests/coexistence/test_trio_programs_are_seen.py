"""Programs on trio: the same answers, the same errors, one call each, and nothing left behind."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from latspan.integrations import Outcome
from latspan.testing import capture
from tests.clients.contract import conftest
from tests.clients.contract.clients import CLIENTS, Client
from tests.clients.contract.conftest import (
    Here,
    Program,
    answer_of,
    run,
    switched_off,
    without_trace_context,
)
from tests.clients.contract.ways import EACH_WAY, went

trio: Any = pytest.importorskip("trio", reason="trio is not installed")

# Under trio a dropped asynchronous generator is warned of: httpx's, the SDK's, and ours.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

_switched_on = conftest._switched_on  # pyright: ignore[reportPrivateUsage] - found by its name

ON_TRIO = pytest.mark.parametrize(
    "client",
    [client for client in CLIENTS if client.name in {"openai async", "httpx async"}],
    ids=lambda client: client.name,
)


def on_trio(program: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in trio's event loop."""
    return trio.run(lambda: program)


@ON_TRIO
@EACH_WAY
def test_results_and_bytes_are_the_same_with_and_without(
    client: Client, program: Program, outcome: Outcome
) -> None:
    """As on asyncio."""
    with switched_off():
        bare = went(client, program, on_trio)
    with capture() as seen:
        saw, (sent,) = went(client, program, on_trio)
    assert (saw, [without_trace_context(sent)]) == bare
    assert [record.outcome for record in seen.records] == [outcome]


@ON_TRIO
def test_a_cancelled_scope_is_a_cancellation(client: Client) -> None:
    """In the middle of an answer; the scope hears of it, and the client is still to be closed."""

    async def is_cancelled(here: Here) -> bool:
        with trio.CancelScope() as scope:
            answer = await here.ask()
            try:
                await here.read(answer, lambda _: scope.cancel())
            finally:
                with trio.CancelScope(shield=True):
                    await here.close(answer)
        return scope.cancelled_caught

    with capture() as seen:
        (caught, left), _ = run(client, is_cancelled, answer_of(client, stream=True), runs=on_trio)
    assert (caught, left) == (True, {})
    (record,) = seen.records
    assert record.outcome is Outcome.CANCELLED
