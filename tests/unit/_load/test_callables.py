"""Names of functions that are measured."""

from __future__ import annotations

import asyncio
import threading

import pytest

from latspan._load._callables import CallableSender, load_callable
from latspan._load._prompts import Prompt, PromptSet
from latspan.errors import MeasurementError


@pytest.mark.parametrize(
    ("name", "hint"),
    [("app.py:answer", "use app:answer"), ("shop/app.py:answer", "use shop.app:answer")],
)
def test_the_name_of_a_file_is_corrected(name: str, hint: str) -> None:
    """A module has no ending."""
    with pytest.raises(MeasurementError, match="is the name of a file") as raised:
        load_callable(name)

    assert raised.value.hint == hint


def test_a_function_is_not_called_for_a_request_that_ended_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was cancelled, as by its time limit, while it waited for a thread."""
    monkeypatch.setattr("latspan._load._callables._MAX_THREADS", 1)
    called: list[str] = []
    begun, release = threading.Event(), threading.Event()

    def block(prompt: str) -> None:
        called.append(prompt)
        begun.set()
        release.wait(30)

    async def send() -> list[str]:
        texts = ("first", "second", "third")
        prompts = [Prompt(({"role": "user", "content": text},)) for text in texts]
        sender = CallableSender(block, "m", PromptSet(prompts, seed=0, source="file"))
        first = asyncio.create_task(sender.send(0))
        second = asyncio.create_task(sender.send(1))
        await asyncio.to_thread(begun.wait, 30)
        second.cancel()
        await asyncio.wait([second])
        release.set()
        outcomes = [(await first).outcome.value, (await sender.send(2)).outcome.value]
        await sender.close()
        return outcomes

    assert asyncio.run(send()) == ["completed", "completed"]
    assert len(called) == 2
