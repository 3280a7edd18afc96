"""A typed user's program: it must pass the type checker as it stands, and is never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

import latspan
from latspan.testing import LatspanCapture


@latspan.traced
def plain(value: int, *, flag: bool = False) -> str:
    """Keep its signature."""
    return f"{value}{flag}"


@latspan.traced(name="named")
async def coroutine(value: int) -> str:
    """Keep its signature too."""
    return str(value)


@latspan.traced("positional")
def positional(value: int) -> str:
    """Keep its signature as well."""
    return str(value)


@latspan.stage
def rerank(documents: list[str], *, top: int = 3) -> list[str]:
    """Keep its signature under a bare ``stage``."""
    return documents[:top]


@latspan.request
async def answer(question: str) -> str:
    """Keep its signature under a bare ``request``."""
    return question


class Retriever:
    """A class whose methods are stages."""

    @latspan.stage("retrieve")
    def retrieve(self, query: str) -> list[str]:
        """Keep the method's signature."""
        return [query]

    @latspan.stage
    async def tokenize(self, text: str) -> AsyncIterator[int]:
        """Keep what it yields."""
        yield len(text)


@latspan.traced
def generator() -> Iterator[int]:
    """Keep what it yields."""
    yield 1


@latspan.traced
async def async_generator() -> AsyncIterator[int]:
    """Keep what it yields."""
    yield 1


async def main() -> None:
    """Use every public name."""
    latspan.configure(endpoint="http://localhost:4318", service_name="shop")
    assert_type(latspan.auto_instrument(), tuple[str, ...])
    assert_type(plain(1, flag=True), str)
    assert_type(await coroutine(1), str)
    assert_type(positional(1), str)
    assert_type(rerank(["a"], top=1), list[str])
    assert_type(await answer("why"), str)
    assert_type(Retriever().retrieve("why"), list[str])
    async for number in Retriever().tokenize("why"):
        assert_type(number, int)
    for number in generator():
        assert_type(number, int)
    async for number in async_generator():
        assert_type(number, int)
    with latspan.request("checkout"), latspan.stage("retrieve"):
        pass
    with latspan.attributes(inference_path="chat", route="/chat", traffic_class="interactive"):
        pass
    versions: dict[str, str] = {"prompt.version": "7"}
    with (
        latspan.attributes(versions, tenant="acme"),
        latspan.attributes({"labels": ["a", "b"], "scores": [0.5, 1.0], "cached": True}),
        latspan.request("checkout") as request,
        latspan.stage("retrieve") as stage,
    ):
        assert_type(request, latspan.OpenScope)
        assert_type(stage, latspan.OpenScope)
        stage.set_attribute("documents", 12)
        stage.add_event("retrieved", {"from": "index"})
        latspan.annotate({"arm": "a"}, tenant="acme")
        assert_type(request.trace_id, str | None)
    snapshot = latspan.snapshot()
    assert_type(snapshot.percentile("ttft", 95, unit="ms"), float)
    assert_type(snapshot.segment("queue").count(), int)
    assert_type(snapshot.segment("queue").fraction_above(20), float)
    assert_type(snapshot.percentile("ttft", 95, default=None), float | None)
    assert_type(snapshot.segment("queue").percentile(95, default=None), float | None)
    assert_type(snapshot.to_dict(), dict[str, Any])
    assert_type(latspan.force_flush(), bool)
    latspan.uninstrument()
    latspan.shutdown()


def test_latency(latspan_capture: LatspanCapture) -> None:
    """Ask the fixture what a snapshot can be asked."""
    assert_type(latspan_capture.percentile("ttft", 95, unit="ms", kind="call"), float)
    assert_type(latspan_capture.percentile("ttft", 95, default=None, model="m"), float | None)
    assert_type(latspan_capture.metric("ttft", kind=latspan.Kind.CALL), latspan.Distribution)
    assert_type(latspan_capture.segment("queue", route="/chat"), latspan.Distribution)
    assert_type(latspan_capture.count(tenant="acme"), int)
    snapshot = latspan_capture.snapshot()
    assert_type(snapshot.segments(), tuple[str, ...])
    assert_type(snapshot.where(model="m"), latspan.Snapshot)
    assert_type(snapshot.group_by("model"), dict[str | None, latspan.Snapshot])
    assert_type(latspan_capture.snapshot().diff(snapshot), latspan.Snapshot)
