"""Activities of a request or stage, as its timeline receives them."""

from __future__ import annotations

from latspan._model.segments import Kind, Segment, Source
from latspan._model.timeline import Activity, Inside


def request(
    done_ns: int, *inside: Inside, start_ns: int = 0, done_other_ns: int | None = None
) -> Activity:
    """Return a request that has ended."""
    return Activity(
        Kind.REQUEST,
        "answer",
        start_ns,
        done_ns,
        done_other_ns=done_other_ns,
        children=list(inside),
    )


def stage(
    name: str,
    start_ns: int,
    done_ns: int | None,
    *inside: Inside,
    was_cut: bool = False,
    source: Source = Source.MEASURED,
    start_other_ns: int | None = None,
    done_other_ns: int | None = None,
) -> Activity:
    """Return a stage; it is open without an end."""
    return Activity(
        Kind.STAGE,
        name,
        start_ns,
        done_ns,
        was_cut=was_cut,
        source=source,
        start_other_ns=start_other_ns,
        done_other_ns=done_other_ns,
        children=list(inside),
    )


def call(
    start_ns: int,
    done_ns: int | None,
    *segments: Segment,
    first_visible_ns: int | None = None,
    was_cut: bool = False,
    start_other_ns: int | None = None,
) -> Activity:
    """Return a call; all of it is ``decode`` if no segments are given."""
    whole = () if done_ns is None else (Segment("decode", 0, done_ns - start_ns),)
    return Activity(
        Kind.CALL,
        "chat m",
        start_ns,
        done_ns,
        was_cut=was_cut,
        segments=segments or whole,
        first_visible_ns=first_visible_ns,
        start_other_ns=start_other_ns,
    )


def exchange(host: str, start_ns: int, done_ns: int | None) -> Activity:
    """Return an HTTP exchange outside any call."""
    return Activity(Kind.HTTP, f"http {host}", start_ns, done_ns)


def inner_request(name: str, start_ns: int, done_ns: int | None, *inside: Inside) -> Activity:
    """Return a request inside a request."""
    return Activity(Kind.INNER_REQUEST, name, start_ns, done_ns, children=list(inside))
