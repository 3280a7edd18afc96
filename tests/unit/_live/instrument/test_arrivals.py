"""Each event of a body arrives with its last part, and waits for comments are the stream's."""

from __future__ import annotations

from latspan._live.instrument._arrivals import EventArrivals
from latspan._model.timeline import NO_CHUNK, Reads

MS = 1_000_000
US = 1_000
TOKEN = 2

_Read = tuple[int, int, bytes]


def _stamps(*reads: _Read | None, ends_after: tuple[int, ...] = ()) -> list[int]:
    """
    Return the stamps of some reads; those at these positions complete an event.

    Between them, an event is incomplete, unless a read returned a comment. ``None`` is a cancelled
    read of 1 ms.
    """
    arrivals, recorded, inside, now_ns = EventArrivals(), Reads(), False, 0
    for at, read in enumerate(reads):
        if read is None:
            arrivals.note(now_ns, now_ns + MS, recorded)
            now_ns += MS
            continue
        before_ns, now_ns, data = read
        arrivals.note(before_ns, now_ns, recorded, data=data, inside=inside)
        inside = not data.startswith(b":")
        if at in ends_after:
            arrivals.events(recorded, [TOKEN])
            inside = False
    arrivals.end(recorded)
    return recorded.stamps


def test_parts_that_follow_immediately_arrived_with_the_part_before() -> None:
    """The client library had received them; reading them takes the caller's time."""
    reads = [
        (0, 20 * MS, b"d"),
        (20 * MS + US, 20 * MS + 3 * US, b"a"),
        (20 * MS + 9 * US, 20 * MS + 10 * US, b"\n\n"),
    ]
    assert _stamps(*reads, ends_after=(2,)) == [0, 20 * MS, TOKEN]


def test_parts_that_take_time_arrive_later() -> None:
    """Even if no read of them takes 1 ms."""
    reads = [(0, 20 * MS, b"d"), (20 * MS, 20 * MS + 300 * US, b"a\n\n")]
    assert _stamps(*reads, ends_after=(1,)) == [0, 20 * MS + 300 * US, TOKEN]


def test_the_line_end_after_a_pause_arrived_with_its_line() -> None:
    """A caller that reads by line handles the line before it reads the empty one."""
    reads = [(0, 20 * MS, b"data: {}\n"), (25 * MS, 25 * MS + US, b"\n")]
    assert _stamps(*reads, ends_after=(1,)) == [0, 20 * MS, TOKEN]


def test_the_rest_of_an_event_after_a_pause_is_another_read() -> None:
    """It may have arrived at any time in the pause."""
    reads = [(0, 20 * MS, b"data: "), (25 * MS, 25 * MS + US, b"{}\n\n")]
    assert _stamps(*reads, ends_after=(1,)) == [
        *(0, 20 * MS, NO_CHUNK),
        *(25 * MS, 25 * MS + US, TOKEN),
    ]


def test_a_comment_and_what_follows_without_a_pause_are_one_read() -> None:
    """The caller waited for both."""
    reads = [(0, 20 * MS, b": wait\n\n"), (20 * MS, 30 * MS, b"data: {}\n\n")]
    assert _stamps(*reads, ends_after=(1,)) == [0, 30 * MS, TOKEN]


def test_a_comment_before_a_pause_is_a_read_without_a_chunk() -> None:
    """The wait for it is not the caller's time."""
    reads = [(0, 20 * MS, b": wait\n\n"), (25 * MS, 25 * MS + US, b"\n")]
    assert _stamps(*reads, ends_after=(1,)) == [
        *(0, 20 * MS, NO_CHUNK),
        *(25 * MS, 25 * MS + US, TOKEN),
    ]


def test_cancelled_reads_are_waits() -> None:
    """A caller may read with a time limit, again and again."""
    assert _stamps(None, None, (2 * MS, 2 * MS + US, b"data: {}\n\n"), ends_after=(2,)) == [
        *(0, 2 * MS, TOKEN)
    ]


def test_what_is_read_after_the_last_event_is_a_read_without_a_chunk() -> None:
    """For example the checksum of a compressed body."""
    reads = [(0, 20 * MS, b"data: {}\n\n"), (20 * MS, 90 * MS, b": end\n\n")]
    assert _stamps(*reads, ends_after=(0,)) == [
        *(0, 20 * MS, TOKEN),
        *(20 * MS, 90 * MS, NO_CHUNK),
    ]


def test_the_events_of_a_read_that_waits_for_more_are_one_chunk() -> None:
    """They may have arrived at any time in it. Its kind is the highest of theirs."""
    arrivals, reads = EventArrivals(), Reads()
    arrivals.note(0, 20 * MS, reads, data=b"compressed")
    arrivals.events(reads, [0, 0])
    arrivals.events(reads, [0, TOKEN, 1])
    assert reads.stamps == [0, 20 * MS, TOKEN]


def test_each_event_of_a_read_of_what_was_received_arrived_when_it_returned() -> None:
    """A decoder may return the events of one read in several parts."""
    arrivals, reads = EventArrivals(as_received=True), Reads()
    arrivals.note(0, 20 * MS, reads, data=b"compressed")
    arrivals.events(reads, [0, TOKEN])
    arrivals.events(reads, [TOKEN])
    assert reads.stamps == [
        *(0, 20 * MS, 0),
        *(20 * MS, 20 * MS, TOKEN),
        *(20 * MS, 20 * MS, TOKEN),
    ]


def test_an_end_mark_is_a_read_only_if_it_is_read_alone() -> None:
    """It is not an event."""
    arrivals, reads = EventArrivals(as_received=True), Reads()
    arrivals.note(0, 20 * MS, reads, data=b"data: {}\n\n")
    arrivals.events(reads, [TOKEN])
    arrivals.events(reads, [])
    arrivals.note(20 * MS, 30 * MS, reads, data=b"data: [DONE]\n\n")
    arrivals.events(reads, [])
    assert reads.stamps == [0, 20 * MS, TOKEN, 20 * MS, 30 * MS, 0]
