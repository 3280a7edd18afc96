"""So many spans wait, the oldest go first, and each that is lost is counted."""

from __future__ import annotations

import threading
from typing import Any

from latspan._sdk._span_queue import SpanQueue

THREADS = 8
EACH = 2_000
ROOM = 64


def test_the_oldest_make_room() -> None:
    """Whoever adds one is told that another had to go."""
    queue, spans = SpanQueue(2), spans_of(4)

    assert [queue.put([span]) for span in spans] == [True, True, False, False]
    assert (queue.take(9), queue.lost) == (spans[2:], 2)


def test_what_comes_back_is_first_again() -> None:
    """As far as there is room: it is older than all that wait."""
    queue, spans = SpanQueue(3), spans_of(5)
    for span in spans[:3]:
        queue.put([span])
    batch = queue.take(2)
    assert (len(queue), queue.unsent) == (1, 3)
    for span in spans[3:]:
        queue.put([span])

    assert not queue.give_back(batch)
    assert (len(queue), queue.unsent, queue.lost) == (3, 3, 2)
    assert queue.take(9) == spans[2:]


def test_what_was_sent_is_forgotten() -> None:
    """It neither waits nor is lost."""
    queue, spans = SpanQueue(3), spans_of(2)
    for span in spans:
        queue.put([span])
    batch = queue.take(2)

    queue.settled(batch)

    assert (len(queue), queue.unsent, queue.lost) == (0, 0, 0)


def test_whoever_adds_none_is_lost_uncounted() -> None:
    """Threads add, one takes, and gives back every second time."""
    queue, got = SpanQueue(ROOM), 0
    adders = [
        threading.Thread(target=lambda: [queue.put([span]) for span in spans_of(EACH)])
        for _ in range(THREADS)
    ]
    for adder in adders:
        adder.start()
    back = False
    while any(adder.is_alive() for adder in adders) or len(queue):
        batch = queue.take(ROOM // 2)
        back = not back
        if back:
            queue.give_back(batch)
        else:
            queue.settled(batch)
            got += len(batch)

    assert got + queue.lost == THREADS * EACH
    assert queue.unsent == 0


def spans_of(count: int) -> list[Any]:
    """Return so many, each another: the queue looks into none."""
    return [object() for _ in range(count)]
