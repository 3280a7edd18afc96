"""
Encodings for counting tokens, built from local files; nothing is ever fetched.

tiktoken fetches an encoding at its first use, without a timeout. Therefore its encodings are built
here, from the file in its cache or from the file in the package ``bpe-openai``.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol


class Encoding(Protocol):
    """Encoder of text into tokens; tiktoken's ``Encoding`` is one."""

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the tokens of ``text``; special tokens are encoded as ordinary text."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """
    A public encoding.

    Args:
        url: Address of the file with the ranks; tiktoken's cache is keyed by it.
        sha256: Checksum of the file with the ranks.
        pattern: Regular expression that splits text before the parts are encoded.
    """

    url: str
    sha256: str
    pattern: str


_PUBLIC: Final = "https://openaipublic.blob.core.windows.net/encodings"
_WORD: Final = r"[^\r\n\p{L}\p{N}]?"
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SHORT: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

# As tiktoken's `tiktoken_ext/openai_public.py` defines them; a test compares.
_KNOWN: Final[Mapping[str, _Known]] = {
    "o200k_base": _Known(
        f"{_PUBLIC}/o200k_base.tiktoken",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        rf"{_WORD}{_UPPER}*{_LOWER}+{_SHORT}|{_WORD}{_UPPER}+{_LOWER}*{_SHORT}|\p{{N}}{{1,3}}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "cl100k_base": _Known(
        f"{_PUBLIC}/cl100k_base.tiktoken",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
}


def encodings() -> dict[str, Encoding]:
    """
    Return the encodings whose files are on this machine, by name; empty if there are no files.

    Building an encoding blocks every thread of the process for 0.3 s or more, because tiktoken
    holds the interpreter's lock. So call this before the first request, and never during one.
    """
    found = {name: encoding(name) for name in _KNOWN}
    return {name: each for name, each in found.items() if each is not None}


@functools.cache
def encoding(name: str) -> Encoding | None:
    """
    Return an encoding; the result is cached for the life of the process.

    Args:
        name: ``o200k_base`` or ``cl100k_base``.

    Returns:
        ``None`` if no file on this machine has its ranks with the expected checksum.
    """
    known = _KNOWN[name]
    for ranks in _files(name, known.url):
        if hashlib.sha256(ranks).hexdigest() == known.sha256:
            return _built(name, known, ranks)
    return None


def _files(name: str, url: str) -> Iterator[bytes]:
    """Yield the content of the bundled and of the cached file, if they exist."""
    # The package is found but not imported: an import would load 70 MB of another tokenizer.
    spec = find_spec("bpe_openai")
    for folder in (spec and spec.submodule_search_locations) or ():
        try:
            yield gzip.decompress((Path(folder) / "data" / f"{name}.tiktoken.gz").read_bytes())
        except (OSError, EOFError):
            continue
    cache = _cache()
    if cache is not None:
        cached = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
        try:
            yield (cache / cached).read_bytes()
        except OSError:
            return


def _cache() -> Path | None:
    """Return the folder of tiktoken's cache, ``None`` if the cache is disabled."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        folder = os.environ.get(variable)
        if folder is not None:
            return Path(folder) if folder else None
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _built(name: str, known: _Known, ranks: bytes) -> Encoding:
    import tiktoken

    lines = (line.split() for line in ranks.splitlines() if line)
    return tiktoken.Encoding(
        name,
        pat_str=known.pattern,
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
        # A special token in a prompt is counted as ordinary text.
        special_tokens={},
    )
