"""Phoenix's web page of a trace in a real browser."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

BROWSER: Final = "chromium"
"""Name of the program; playwright's own download is not needed."""

_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_WIDTH: Final = 1800
_HEIGHT: Final = 2100
"""Height for about forty spans without scrolling."""
_EDGE: Final = "[role=separator][aria-controls=trace-tree]"
_DETAILS: Final = 330
"""Width of the span details that leaves space for the bars of the tree."""


@contextmanager
def trace_page(url: str, browser: Path, spans: int) -> Generator[Any]:
    """
    Open a trace inside the block, with a tree wide enough for a bar next to each span.

    Args:
        url: URL of the page.
        browser: Path of the browser.
        spans: Number of spans in the trace, all of which must be shown.

    Yields:
        playwright's element that contains the trace.
    """
    playwright: Any = import_module("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=str(browser), args=list(_FLAGS))
        try:
            page = running.new_page(viewport={"width": _WIDTH, "height": _HEIGHT})
            page.goto(url)
            trace = page.get_by_test_id("dialog")
            _nodes(trace).nth(spans - 1).wait_for()
            edge = trace.locator(_EDGE).bounding_box()
            middle = edge["y"] + edge["height"] / 2
            page.mouse.move(edge["x"], middle)
            page.mouse.down()
            page.mouse.move(_WIDTH - _DETAILS, middle, steps=5)
            page.mouse.up()
            yield trace
        finally:
            running.close()


def names_shown(trace: Any) -> list[str]:
    """Return the names in the rows of the tree, from top to bottom."""
    return [name.strip() for name in _nodes(trace).locator(".span-node__heading").all_inner_texts()]


def _nodes(trace: Any) -> Any:
    return trace.locator(".span-node-wrap")
