"""A series' name survives a file of histograms, and any other file's names can be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._recording import TaggedName, read_tag, tag_of

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(names, st.dictionaries(names, st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_a_tag_says_what_it_was_made_of(metric: str, attributes: dict[str, str]) -> None:
    """Whatever stands in a model's name or a route: commas, blanks, question marks, anything."""
    tag = tag_of(metric, attributes)

    assert read_tag(tag) == (metric, attributes)
    assert not any(each.isspace() or each == "," for each in tag)


@given(names)
def test_a_tag_of_others_is_the_name_of_a_metric(tag: str) -> None:
    """Two of them are never taken for one."""
    read = read_tag(tag)

    assert read == (tag, {}) or tag_of(*read) == tag


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        (None, TaggedName("untagged", {})),
        ("A", TaggedName("A", {})),
        ("GET /chat?id=1&id=2", TaggedName("GET /chat?id=1&id=2", {})),
        ("a?", TaggedName("a?", {})),
        ("a?b", TaggedName("a?b", {})),
        ("100%", TaggedName("100%", {})),
        ("ttft?model=gpt-4o&kind=call", TaggedName("ttft?model=gpt-4o&kind=call", {})),
        ("ttft?kind=call&model=gpt-4o", TaggedName("ttft", {"kind": "call", "model": "gpt-4o"})),
    ],
)
def test_only_what_reads_back_as_itself_is_taken_apart(tag: str | None, said: TaggedName) -> None:
    assert read_tag(tag) == said


def test_a_tag_is_readable() -> None:
    assert (
        tag_of("segment", {"segment": "queue", "model": "meta/llama 3", "route": "/chat"})
        == "segment?model=meta/llama%203&route=/chat&segment=queue"
    )
