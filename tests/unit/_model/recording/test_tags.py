"""A series is written to a histogram log as a tag, and any tag can be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._model.recording import TaggedName, read_tag, tag_of

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(names, st.dictionaries(names, st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_a_tag_is_read_back_unchanged(metric: str, attributes: dict[str, str]) -> None:
    """With any characters in names and values: commas, spaces, question marks."""
    tag = tag_of(metric, attributes)

    assert read_tag(tag) == (metric, attributes)
    assert not any(each.isspace() or each == "," for each in tag)


@given(names)
def test_a_foreign_tag_is_read_as_a_metric_name(tag: str) -> None:
    """Different tags never become the same name."""
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
def test_only_tags_in_latspans_format_are_split(tag: str | None, said: TaggedName) -> None:
    assert read_tag(tag) == said


def test_a_tag_is_readable() -> None:
    assert (
        tag_of("segment", {"segment": "queue", "model": "meta/llama 3", "route": "/chat"})
        == "segment?model=meta/llama%203&route=/chat&segment=queue"
    )
