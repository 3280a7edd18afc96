"""Histograms leave and come back as the text that every HdrHistogram reads and writes."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, cast

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from latspan.errors import HistogramFormatError
from latspan.histogram import FULL_PRECISION, Histogram, Precision, decode, encode
from latspan.histogram._buckets import HIGHEST_NS, highest_value_of, index_of
from latspan.histogram._varints import pack, unpack

counts = st.integers(1, 100) | st.integers(1, (1 << 62) - 1)
histograms = (
    st.dictionaries(st.integers(0, index_of(HIGHEST_NS)) | st.integers(0, 70), counts, max_size=80)
    .filter(lambda buckets: sum(buckets.values()) < 1 << 63)
    .map(lambda buckets: Histogram.from_buckets(sorted(buckets.items())))
)

ENVELOPE = struct.Struct(">II")
HEADER = struct.Struct(">IIiiqqd")


def foreign(lowest: int, highest: int, digits: int) -> Any:
    return cast("Any", HdrHistogram(lowest, highest, digits))


def text_of(
    packed: bytes = b"\x02",
    *,
    cookie: int = 0x1C849304 | 0x10,
    inner: int = 0x1C849303 | 0x10,
    length: int | None = None,
    digits: int = 3,
    lowest: int = 1,
    highest: int = HIGHEST_NS,
    ratio: float = 1.0,
    behind: bytes = b"",
) -> str:
    """Return an encoded histogram of one 0, or whatever else is asked for."""
    claimed = len(packed) if length is None else length
    header = HEADER.pack(inner, claimed, 0, digits, lowest, highest, ratio)
    data = zlib.compress(header + packed) + behind
    return base64.b64encode(ENVELOPE.pack(cookie, len(data)) + data).decode()


@given(histograms)
def test_decoding_gives_back_the_counts(histogram: Histogram) -> None:
    decoded = decode(encode(histogram))

    assert list(histogram) == list(decoded.histogram)
    assert decoded.precision == FULL_PRECISION


@given(st.lists(st.integers(0, HIGHEST_NS), max_size=50))
def test_the_package_reads_what_is_written(values: list[int]) -> None:
    """Its decoder, written in C by others, counts the same in the same buckets."""
    histogram = Histogram()
    histogram.record_many(values)

    read = cast("Any", HdrHistogram).decode(encode(histogram))

    counted = {index: count for index, count in enumerate(read.counts) if count}
    assert dict(histogram) == counted
    assert (read.significant_figures, read.lowest_trackable_value) == (3, 1)


def test_a_histogram_leaves_nothing_behind_in_the_next() -> None:
    """Encoding uses one array again and again, and clears what it touched."""
    full, other = Histogram(), Histogram()
    full.record_many([0, 3, 3, 10**6, HIGHEST_NS])
    other.record_many([2, 10**7])
    before = encode(other)

    encode(full)

    assert encode(other) == before


@given(
    st.integers(1, 5),
    st.sampled_from([1, 2, 1000, 4096]),
    st.lists(st.integers(0, 10**12), min_size=1, max_size=50),
    st.sampled_from([50.0, 99.0, 100.0]),
)
def test_percentiles_are_those_of_the_writer(
    digits: int, lowest: int, values: list[int], percentile: float
) -> None:
    """Written with any precision, read within three digits and never below."""
    written = foreign(lowest, 10**13, digits)
    for value in values:
        written.record_value(value)
    ranks = sorted(written.get_highest_equivalent_value(value) for value in values)
    theirs = ranks[max(-(-int(percentile) * len(values) // 100), 1) - 1]

    decoded = decode(written.encode().decode())
    ours = decoded.histogram.value_at_percentile(percentile)

    assert decoded.histogram.count == len(values)
    assert decoded.precision == Precision(min(digits, 3), 1 << (lowest.bit_length() - 1))
    assert ours == (theirs if digits <= 3 else min(highest_value_of(index_of(theirs)), ours))
    assert theirs <= ours <= theirs + theirs / 1024


def test_values_above_a_day_are_clamped_and_counted() -> None:
    written = foreign(1, 2 * HIGHEST_NS, 2)
    for value in (1, HIGHEST_NS - 10**12, HIGHEST_NS + 10**12, 2 * HIGHEST_NS):
        written.record_value(value)

    read = decode(written.encode().decode()).histogram

    assert (read.count, read.clamped, read.max_ns) == (4, 2, HIGHEST_NS)


def test_a_count_that_no_file_holds_is_refused() -> None:
    with pytest.raises(HistogramFormatError, match="a file can hold"):
        pack([(7, 1 << 62)])
    assert unpack(pack([(7, (1 << 62) - 1)]), 8) == [(7, (1 << 62) - 1)]


def test_the_rotation_of_a_writers_array_changes_no_value() -> None:
    """Java recorded 1,000 and 5,000, shifted both left by two bits, and says the largest is so."""
    text = "HISTFAAAACp4nJNpmSzMwMDAxsDAAaQYmBkggBFEXJu8hMH+A0Rgvj7TQhUmAHToBiw="

    read = decode(text).histogram

    assert (read.count, read.value_at_percentile(50), read.max_ns) == (2, 4_001, 20_015)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cut short"),
        ("HIST", "cut short"),
        ("Löwe", "not valid Base64"),
        ("a" * 17, "not valid Base64"),
        (text_of()[:-8], "28 bytes instead of 34"),
        (text_of(cookie=0x1C849302 | 0x80), "old format V1"),
        (text_of(cookie=0x1C849308 | 0x80), "old format V0"),
        (text_of(cookie=0x0C72124F), "fractions"),
        (text_of(cookie=0xCAFE), "not a histogram"),
        (text_of(inner=0xCAFE), "not a histogram"),
        (text_of(ratio=0.5), "fractions"),
        (text_of(ratio=float("nan")), "fractions"),
        (text_of(digits=6), "damaged"),
        (text_of(digits=-1), "damaged"),
        (text_of(lowest=0), "damaged"),
        (text_of(highest=1), "damaged"),
        (text_of(b"\x02\x02", length=1), "the histogram's counts"),
        (text_of(length=2), "the histogram's counts"),
        (text_of(behind=b"\x00"), "the histogram's counts"),
        (text_of(length=0xFFFFFFFF), "above the limit"),
        (text_of(bytes(20 << 20), digits=5), "above the limit"),
        (text_of(b"\x80"), "last count is cut short"),
        (text_of(b"\xff" * 9), "above its highest trackable value"),
        (text_of(b"\x02" * 4, digits=0, highest=2), "above its highest trackable value"),
    ],
)
def test_a_damaged_text_is_an_error(text: str, message: str) -> None:
    with pytest.raises(HistogramFormatError, match=message):
        decode(text)


@given(st.data())
def test_damage_is_an_error_or_changes_nothing(data: st.DataObject) -> None:
    """No flipped or missing character gives other counts: zlib's checksum is over all of them."""
    histogram = Histogram()
    histogram.record_many([5, 77, 10**9, 10**9 + 10**6])
    text = encode(histogram)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(max_codepoint=127)) + text[at + 1 :] * data.draw(st.booleans())

    try:
        read = list(decode(text[:at] + other).histogram)
    except HistogramFormatError:
        read = list(histogram)

    assert read == list(histogram)
