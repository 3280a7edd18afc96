"""
Encoding of histograms as text: HdrHistogram's V2 format, compressed, in Base64 (``HISTFAAA…``).

The text contains the buckets' counts. It does not contain the exact sum, the smallest and largest
value, and the numbers of rejected and clamped values; a log stores them in a separate comment.

Source: HdrHistogram, ``AbstractHistogram.encodeIntoCompressedByteBuffer``.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from latspan.errors import HistogramFormatError
from latspan.histogram._buckets import HIGHEST_NS, index_of
from latspan.histogram._histogram import Histogram
from latspan.histogram._limits import MAX_COUNTS_BYTES
from latspan.histogram._precision import OURS, Layout, Precision
from latspan.histogram._varints import pack, unpack

_COMPRESSED: Final = 0x1C849304
_PLAIN: Final = 0x1C849303
_VARINTS: Final = 0x10
_COOKIE_MASK: Final = 0xF0
_OLD: Final = {0x1C849301: "V1", 0x1C849302: "V1", 0x1C849308: "V0", 0x1C849309: "V0"}
_DOUBLES: Final = {0x0C72124E, 0x0C72124F}

_ENVELOPE: Final = struct.Struct(">II")
"""Cookie, and the length of the compressed data."""

_HEADER: Final = struct.Struct(">IIiiqqd")
"""Cookie, length of the counts, normalizing offset, digits, lowest, highest, ratio."""

_NO_RATIO: Final = (1.0, 5e-324)
"""
Conversion ratios that mean no conversion.

They are 1.0, and the double with the bits of the integer 1, which HdrHistogram in JavaScript writes
instead.
"""

_MAX_BYTES_PER_COUNT: Final = 9
_MAX_MAGNITUDE: Final = 61
"""
Maximum sum of the magnitudes of the lowest value and of the sub-buckets.

With a larger sum, values would not fit into 64 bits.
"""

_MEND: Final = "pass the text as it was written, complete and on one line"
_WHOLE: Final = "record whole numbers of nanoseconds, without a conversion ratio"
_REWRITE: Final = "write it again with a version of HdrHistogram that writes format V2"


@dataclass(frozen=True, slots=True)
class DecodedBuckets:
    """
    Counts of a decoded histogram, in latspan's own buckets.

    Args:
        buckets: Each occupied bucket's index and count, lowest first.
        precision: Precision of the values.
        clamped: Number of values above 24 hours; each is counted as 24 hours.
        sum_ns: Sum of the middles of the writer's buckets; ``None`` if those are latspan's own.
        min_ns: Lowest value of the writer's first bucket; ``None`` if the buckets are latspan's
            own.
        counts_bytes: Number of bytes of counts that were decoded.
    """

    buckets: tuple[tuple[int, int], ...]
    precision: Precision
    clamped: int = 0
    sum_ns: int | None = None
    min_ns: int | None = None
    counts_bytes: int = 0

    def histogram(self) -> Histogram:
        """Return the values as a histogram; values missing from the text are estimated."""
        return Histogram.from_buckets(
            self.buckets, sum_ns=self.sum_ns, min_ns=self.min_ns, clamped=self.clamped
        )


@dataclass(frozen=True, slots=True)
class Decoded:
    """
    Histogram decoded from text.

    If the text was written with lower precision than latspan's, each value is stored as the highest
    value of its bucket in the text. So percentiles equal those that the writer would report.

    Args:
        histogram: The values. The sum and the extremes are estimated from the buckets.
        precision: Precision of the values.
    """

    histogram: Histogram
    precision: Precision


def encode(histogram: Histogram) -> str:
    """
    Return a histogram's counts as text that every HdrHistogram reads.

    Raises:
        HistogramFormatError: A count is 2**62 or more.
    """
    counts = pack(list(histogram))
    header = _HEADER.pack(
        _PLAIN | _VARINTS, len(counts), 0, OURS.significant_digits, OURS.lowest, OURS.highest, 1.0
    )
    compressed = zlib.compress(header + counts)
    envelope = _ENVELOPE.pack(_COMPRESSED | _VARINTS, len(compressed))
    return base64.b64encode(envelope + compressed).decode("ascii")


def decode(text: str) -> Decoded:
    """
    Decode a histogram from text.

    Args:
        text: Text written by :func:`encode` or by any other HdrHistogram.

    Raises:
        HistogramFormatError: The text is damaged, or in a format that cannot be read exactly:
            V0, V1, or with values that are not integers.
    """
    decoded = decode_buckets(text)
    return Decoded(decoded.histogram(), decoded.precision)


def decode_buckets(text: str, *, max_bytes: int = MAX_COUNTS_BYTES) -> DecodedBuckets:
    """
    Decode the counts of a histogram from text.

    Args:
        text: Text as for :func:`decode`.
        max_bytes: Maximum number of bytes of counts to decode.

    Raises:
        HistogramFormatError: As for :func:`decode`, or there are more than ``max_bytes``.
    """
    layout, packed = _unwrapped(text, max_bytes)
    counters = unpack(packed, layout.length)
    if layout.is_ours and (not counters or counters[-1][0] <= index_of(HIGHEST_NS)):
        return DecodedBuckets(tuple(counters), layout.precision, counts_bytes=len(packed))
    return _in_our_buckets(layout, counters, len(packed))


def _in_our_buckets(
    layout: Layout, counters: Sequence[tuple[int, int]], counts_bytes: int
) -> DecodedBuckets:
    if not counters:
        return DecodedBuckets((), layout.precision, counts_bytes=counts_bytes)
    clamped = sum_ns = 0
    counts: dict[int, int] = {}
    for lowest, highest, count in layout.spans(counters):
        if lowest > HIGHEST_NS:
            clamped += count
        index = index_of(min(highest, HIGHEST_NS))
        counts[index] = counts.get(index, 0) + count
        sum_ns += min((lowest + highest + 1) // 2, HIGHEST_NS) * count
    return DecodedBuckets(
        # The writer's buckets are in ascending order, so the latspan buckets that they map to are
        # as well.
        tuple(counts.items()),
        layout.precision,
        clamped,
        sum_ns,
        min(layout.lowest_value_of(counters[0][0]), HIGHEST_NS),
        counts_bytes,
    )


def _unwrapped(text: str, max_bytes: int) -> tuple[Layout, bytes]:
    """Return a histogram's layout and its decompressed counts."""
    try:
        data = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise HistogramFormatError("the histogram is not valid Base64", hint=_MEND) from None
    if len(data) < _ENVELOPE.size:
        raise HistogramFormatError("the histogram is cut short", hint=_MEND)
    cookie, length = _ENVELOPE.unpack_from(data)
    _refuse_foreign(cookie, _COMPRESSED)
    held = len(data) - _ENVELOPE.size
    if length != held:
        raise HistogramFormatError(
            f"the histogram has {held:,} bytes instead of {length:,}", hint=_MEND
        )
    return _inflated(data[_ENVELOPE.size :], max_bytes)


def _inflated(compressed: bytes, max_bytes: int) -> tuple[Layout, bytes]:
    """Decompress only as many bytes as the header declares."""
    inflate = zlib.decompressobj()
    try:
        header = inflate.decompress(compressed, _HEADER.size)
        if len(header) < _HEADER.size:
            raise HistogramFormatError("the histogram's header is cut short", hint=_MEND)
        layout, length = _read_header(header, max_bytes)
        packed = inflate.decompress(inflate.unconsumed_tail, length) if length else b""
        rest = inflate.decompress(inflate.unconsumed_tail, 1)
    except zlib.error:
        raise HistogramFormatError(
            "the histogram cannot be decompressed: it is damaged", hint=_MEND
        ) from None
    if rest or len(packed) != length or not inflate.eof or inflate.unused_data:
        raise HistogramFormatError(
            f"the histogram's counts do not have the {length:,} bytes that its header gives",
            hint=_MEND,
        )
    return layout, packed


def _read_header(header: bytes, max_bytes: int) -> tuple[Layout, int]:
    """Return the layout and the number of bytes of counts from the header, both validated."""
    # The offset gives the rotation of the writer's array. It is ignored, because counts are written
    # as if the array were not rotated.
    cookie, length, _, digits, lowest, highest, ratio = _HEADER.unpack(header)
    _refuse_foreign(cookie, _PLAIN)
    if ratio not in _NO_RATIO:
        raise HistogramFormatError(
            "the histogram's values are fractions, which cannot be read exactly", hint=_WHOLE
        )
    if not 0 <= digits <= 5 or lowest < 1 or highest < 2 * lowest:
        raise HistogramFormatError(
            f"the header gives {digits} digits from {lowest:,} to {highest:,}: it is damaged",
            hint=_MEND,
        )
    layout = Layout(digits, lowest, highest)
    if layout.unit_magnitude + layout.half_magnitude > _MAX_MAGNITUDE:
        raise HistogramFormatError(
            f"the header gives {digits} digits from {lowest:,} on: it is damaged", hint=_MEND
        )
    most = min(layout.length * _MAX_BYTES_PER_COUNT, max_bytes)
    if length > most:
        raise HistogramFormatError(
            f"the header gives {length:,} bytes of counts, above the limit of {most:,}",
            hint=_MEND,
        )
    return layout, length


def _refuse_foreign(cookie: int, wanted: int) -> None:
    base = cookie & ~_COOKIE_MASK
    if base == wanted and cookie & _COOKIE_MASK == _VARINTS:
        return
    if base in _OLD:
        raise HistogramFormatError(f"the histogram has the old format {_OLD[base]}", hint=_REWRITE)
    if cookie in _DOUBLES:
        raise HistogramFormatError(
            "the histogram's values are fractions, which cannot be read exactly", hint=_WHOLE
        )
    raise HistogramFormatError("this is not a histogram in HdrHistogram's format V2", hint=_MEND)
