"""
Take the picture of a trace that the documentation shows: ``takes_the_picture.py FILE``.

It shows the tree of the request that waited longest of several, tokenizing folded up.
"""

from __future__ import annotations

import io
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.daemons import program
from support.pages import BROWSER, trace_page
from support.phoenix import told

COLOURS: Final = 32
MARGIN: Final = 12


def main(file: str) -> None:
    browser = program(BROWSER)
    if browser is None:
        sys.exit(f"latspan: there is no program {BROWSER}\nhint: apt-get install {BROWSER}")
    with tempfile.TemporaryDirectory() as folder, told(Path(folder)) as story:
        spans = story.phoenix.spans(story.trace_id)
        with trace_page(story.phoenix.page(story.trace_id), browser, len(spans)) as trace:
            rows = trace.locator(".span-node-wrap")
            rows.filter(has_text="tokenize").get_by_role("button").click()
            # Else that row is lit, as where a mouse is.
            trace.page.mouse.move(0, 0)
            whole = trace.bounding_box()
            tree = trace.locator("#trace-tree").bounding_box()
            last = rows.last.bounding_box()
            taken = trace.page.screenshot(
                clip={
                    "x": whole["x"],
                    "y": whole["y"],
                    "width": tree["width"],
                    "height": last["y"] + last["height"] + MARGIN - whole["y"],
                }
            )
    image: Any = import_module("PIL.Image")
    picture = Path(file)
    picture.parent.mkdir(exist_ok=True)
    image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS).save(picture, optimize=True)
    sys.stdout.write(f"{picture}: {picture.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
