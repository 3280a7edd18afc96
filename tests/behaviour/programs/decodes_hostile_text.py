"""Decodes damaged and hostile text with limited memory."""

from __future__ import annotations

import base64
import random
import resource
import struct
import sys
import zlib

from latspan.errors import HistogramFormatError
from latspan.histogram import Histogram, decode, encode
from latspan.histogram._buckets import HIGHEST_NS

MEMORY_BYTES = 512 << 20
BOMB_BYTES = 256 << 20


def wrapped(payload: bytes) -> str:
    data = zlib.compress(payload, 9)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(data)) + data).decode()


def flipped(text: str, random_: random.Random) -> str:
    data = bytearray(base64.b64decode(text))
    for _ in range(random_.randint(1, 4)):
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
    return base64.b64encode(data).decode()


def cut(text: str, random_: random.Random) -> str:
    return text[: random_.randrange(len(text))]


def random_counts(text: str, random_: random.Random) -> str:
    """Return random counts with a header that is valid or nearly so."""
    counts = random_.randbytes(random_.randint(0, 400))
    digits, lowest = random_.randint(0, 5), random_.choice([1, 1, 1000, 1 << 40])
    highest = random_.choice([2, HIGHEST_NS, (1 << 63) - 1])
    length = random_.choice([len(counts)] * 8 + [0, 0xFFFFFFFF, 0x7FFFFFFF])
    return wrapped(
        struct.pack(">IIiiqqd", 0x1C849313, length, 0, digits, lowest, highest, 1.0) + counts
    )


def random_header(text: str, random_: random.Random) -> str:
    return wrapped(struct.pack(">I", 0x1C849313) + random_.randbytes(36 + random_.randint(0, 40)))


def noise(text: str, random_: random.Random) -> str:
    return base64.b64encode(random_.randbytes(random_.randint(0, 100))).decode()


def bomb() -> str:
    """Return 256 MB of counts that compress to a few hundred kilobytes."""
    header = struct.pack(">IIiiqqd", 0x1C849313, BOMB_BYTES, 0, 5, 1, (1 << 63) - 1, 1.0)
    compress = zlib.compressobj(9)
    data = compress.compress(header)
    for _ in range(BOMB_BYTES >> 20):
        data += compress.compress(bytes(1 << 20))
    data += compress.flush()
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(data)) + data).decode()


def main() -> None:
    rounds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # The same text in every run; nothing here is secret.
    random_ = random.Random(rounds)  # noqa: S311
    histogram = Histogram()
    histogram.record_many([0, 5, 70, 10**6, 10**9, 10**9 + 10**7, HIGHEST_NS])
    whole = encode(histogram)
    refused = read = 0
    for text in [
        bomb(),
        *(
            make(whole, random_)
            for _ in range(rounds)
            for make in (flipped, cut, random_counts, random_header, noise)
        ),
    ]:
        try:
            decode(text)
        except HistogramFormatError:
            refused += 1
        else:
            read += 1
    sys.stdout.write(f"{refused + read} {read > 0}\n")


if __name__ == "__main__":
    main()
