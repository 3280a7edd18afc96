"""A program with threads that calls a model with httpx or requests, without an SDK."""

from __future__ import annotations

from collections.abc import Generator

import httpx
import requests
from _events import text_of
from _names import slow_names
from _setting import MODEL_URL, SETTING, Call, Request
from _work import ask

COMPLETIONS = f"{MODEL_URL}/chat/completions"
TIMEOUT_S = SETTING.client.get("timeout_s", 30)
ERRORS = (httpx.HTTPError, requests.RequestException)

CLIENT = httpx.Client(
    limits=httpx.Limits(
        max_connections=SETTING.client.get("connections", 100),
        keepalive_expiry=SETTING.client.get("idle_s", 30),
    ),
    timeout=TIMEOUT_S,
)
SESSION = requests.Session()


def with_httpx(call: Call, request: Request, model: str) -> Generator[str]:
    """Stream an answer with httpx."""
    with CLIENT.stream("POST", COMPLETIONS, json=request.body(call, model)) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if text := text_of(line):
                yield text


def with_requests(call: Call, request: Request, model: str) -> Generator[str]:
    """Stream an answer with requests: through a session, or with a new connection for each."""
    post = requests.post if SETTING.client.get("new_for_each") else SESSION.post
    body = request.body(call, model)
    with post(COMPLETIONS, json=body, stream=True, timeout=TIMEOUT_S) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if text := text_of(line):
                yield text


if __name__ == "__main__":
    slow_names(SETTING.client.get("names_ms", 0))
    ask(with_requests if SETTING.client.get("library") == "requests" else with_httpx, ERRORS)
