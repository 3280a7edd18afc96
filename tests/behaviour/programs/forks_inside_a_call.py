"""A program whose client forks during a call: ``forks_inside_a_call.py MODEL_URL``."""

from __future__ import annotations

import os
import sys
from typing import Any

import httpx2
from openai import OpenAI

import latspan


def main(model_url: str) -> None:
    latspan.auto_instrument()
    latspan.configure()
    children: list[int] = []

    def fork(_request: Any) -> None:
        children.append(os.fork())
        if not children[0]:
            # This request must not become part of the parent's call.
            httpx2.get(f"{model_url}/health")
            os._exit(0 if latspan.force_flush() else 1)

    hooks = {"request": [fork]}
    with OpenAI(
        base_url=f"{model_url}/v1", api_key="none", http_client=httpx2.Client(event_hooks=hooks)
    ) as client:
        messages: Any = [{"role": "user", "content": "why is it slow?"}]
        for _ in client.chat.completions.create(model="m", messages=messages, stream=True):
            pass
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))


main(*sys.argv[1:])
