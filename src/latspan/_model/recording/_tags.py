"""
Tags, the names of series in a log: ``metric?name=value&name=value``, quoted as in a URL.

Quoting keeps commas and white space out of a tag, which the log format does not allow. A tag that
another program wrote is read as the name of a metric without attributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

UNTAGGED: Final = "untagged"
"""Metric name of lines without a tag."""

_KEPT: Final = ":/"
_MAX_ATTRIBUTES: Final = 64
"""
Maximum number of attributes in a tag that latspan writes; a tag with more was written by another
program.
"""

_OURS: Final = re.compile(r"(?P<metric>[\w.%~:/-]+)\?(?P<attributes>\S*=\S*)", re.ASCII)


class TaggedName(NamedTuple):
    """
    Content of a tag: a metric and its attributes.

    Args:
        metric: A metric's name, ``segment``, or the whole of another program's tag.
        attributes: Attributes by name.
    """

    metric: str
    attributes: Mapping[str, str]


def tag_of(metric: str, attributes: Mapping[str, str]) -> str:
    """
    Return the tag of a series.

    Args:
        metric: The metric's name, or ``segment``; not empty.
        attributes: Attributes by name.
    """
    query = urlencode(sorted(attributes.items()), quote_via=quote, safe=_KEPT)
    return quote(metric, safe=_KEPT) + (f"?{query}" if query else "")


def read_tag(tag: str | None) -> TaggedName:
    """
    Return the metric and attributes that a tag names; the inverse of :func:`tag_of`.

    Args:
        tag: Tag of any log; ``None`` for a line without one.
    """
    if tag is None:
        return TaggedName(UNTAGGED, {})
    match = _OURS.fullmatch(tag)
    if match is not None:
        metric = unquote(match["metric"])
        pairs = parse_qsl(match["attributes"], keep_blank_values=True)
        attributes = dict(pairs[:_MAX_ATTRIBUTES])
        if tag_of(metric, attributes) == tag:
            return TaggedName(metric, attributes)
    elif quote(unquote(tag), safe=_KEPT) == tag:
        return TaggedName(unquote(tag), {})
    return TaggedName(tag, {})
