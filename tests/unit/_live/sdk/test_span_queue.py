"""The span queue has a limit, drops the oldest spans first, and counts each lost one."""

from __future__ import annotations

import threading
from typing import Any

from latspan._base.slices import Slices
from latspan._live.sdk._span_queue import SpanQueue

THREADS = 8
EACH = 2_000
ROOM = 64


def test_the_oldest_span_is_dropped_if_the_queue_is_full() -> None:
    """``put`` then returns ``False``."""
    queue, spans = SpanQueue(2), spans_of(4)

    assert [queue.put([span]) for span in spans] == [True, True, False, False]
    assert (queue.take(9), queue.lost) == (spans[2:], 2)


def test_returned_spans_are_taken_first() -> None:
    """As far as there is room: they are older than all queued spans."""
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


def test_sent_spans_are_forgotten() -> None:
    """They are neither queued nor lost."""
    queue, spans = SpanQueue(3), spans_of(2)
    for span in spans:
        queue.put([span])
    batch = queue.take(2)

    queue.forget(batch)

    assert (len(queue), queue.unsent, queue.lost) == (0, 0, 0)


def test_concurrent_threads_lose_no_span_uncounted() -> None:
    """Several threads add spans; one takes batches and returns every second one."""
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
            queue.forget(batch)
            got += len(batch)

    assert got + queue.lost == THREADS * EACH
    assert queue.unsent == 0


def spans_of(count: int) -> list[Any]:
    """Return that many distinct objects; the queue does not look into them."""
    return [object() for _ in range(count)]


def test_the_queue_is_free_whenever_the_thread_that_takes_spans_pauses() -> None:
    """Measuring a large batch takes longer than a caller may wait."""
    queue, spans = SpanQueue(1_000), spans_of(100)
    queue.put(spans)
    added: list[Any] = []

    def pause(_: float) -> None:
        (span,) = spans_of(1)
        other = threading.Thread(target=queue.put, args=([span],), daemon=True)
        other.start()
        other.join(30)
        assert not other.is_alive()
        added.append(span)

    with Slices(0, pause=pause).here():
        taken = queue.take(100)

    assert taken == spans
    assert len(added) > 1
    assert queue.take(100) == added
