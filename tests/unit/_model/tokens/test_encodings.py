"""Encodings are read only from local files."""

from __future__ import annotations

import gzip
import hashlib
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from latspan._model.tokens import Encoding, encoding, encodings

NAMES = ["o200k_base", "cl100k_base"]

_spec = find_spec("bpe_openai")
bundled = pytest.mark.skipif(_spec is None, reason="bpe-openai (extra `tokens`) is not installed")


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Clear the cached encodings, use an empty cache directory, and forbid network access."""

    def no_network(*_: Any) -> Any:
        raise AssertionError("a connection was to be made")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    encoding.cache_clear()
    yield
    encoding.cache_clear()


def _not_bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_found(name: str) -> None:
        del name

    monkeypatch.setattr("latspan._model.tokens._encodings.find_spec", none_found)


def _ranks(name: str) -> bytes:
    assert _spec is not None
    assert _spec.submodule_search_locations is not None
    (folder,) = _spec.submodule_search_locations
    return gzip.decompress((Path(folder) / "data" / f"{name}.tiktoken.gz").read_bytes())


def _cache(folder: Path, name: str, ranks: bytes) -> None:
    url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    (folder / hashlib.sha1(url.encode()).hexdigest()).write_bytes(ranks)  # noqa: S324 - tiktoken's


def test_missing_encodings_are_searched_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """This saves an offline machine repeated searches."""
    _not_bundled(monkeypatch)

    assert encodings() == {}
    _cache(tmp_path, "o200k_base", b"AA== 0\n")
    before = encoding.cache_info().misses
    assert encodings() == {}
    assert encoding.cache_info().misses == before


def test_a_damaged_file_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tiktoken would delete it and download another."""
    _not_bundled(monkeypatch)
    _cache(tmp_path, "o200k_base", b"AA== 0\n")

    assert encoding("o200k_base") is None


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
def test_an_empty_variable_disables_the_cache(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """As in tiktoken; the working directory is not used as a cache."""
    _not_bundled(monkeypatch)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv(variable, "")

    assert encodings() == {}


@bundled
def test_a_cached_file_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the extra, if tiktoken has been used before."""
    _cache(tmp_path, "cl100k_base", _ranks("cl100k_base"))
    _not_bundled(monkeypatch)

    assert list(encodings()) == ["cl100k_base"]


@pytest.fixture(scope="module", params=NAMES)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Encoding, tiktoken.Encoding]:
    """Return the bundled encoding, and the one that tiktoken builds from the same file."""
    folder = tmp_path_factory.mktemp("cache")
    _cache(folder, request.param, _ranks(request.param))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        tiktokens_own = tiktoken.get_encoding(request.param)
    encoding.cache_clear()
    built = encoding(request.param)
    assert built is not None
    return built, tiktokens_own


@bundled
def test_the_split_pattern_equals_tiktokens(both: tuple[Any, Any]) -> None:
    """The patterns are identical."""
    built, tiktokens_own = both

    assert built._pat_str == tiktokens_own._pat_str


@bundled
@given(text=st.text(max_size=200))
def test_encodings_return_the_same_tokens_as_tiktoken(
    both: tuple[Encoding, tiktoken.Encoding], text: str
) -> None:
    """For any text, in any script."""
    built, tiktokens_own = both

    assert built.encode_ordinary(text) == tiktokens_own.encode_ordinary(text)
