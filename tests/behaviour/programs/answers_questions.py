"""
An assistant: each question is a request with a call that rewrites it, two stages and a chat.

``answers_questions.py QUESTIONS [PROCESSES]`` answers them in that many processes and exits with 3.
"""

from __future__ import annotations

import multiprocessing
import sys

import openai
from openai.types.chat import ChatCompletionMessageParam

import latspan
from latspan.testing import Script, ScriptedServer


def answer(base_url: str, questions: int) -> None:
    """Answer some questions one after the other."""
    client = openai.OpenAI(base_url=base_url, api_key="none")
    for number in range(questions):
        messages: list[ChatCompletionMessageParam] = [
            {"role": "user", "content": f"question {number}"}
        ]
        with latspan.request("answer a question"):
            client.chat.completions.create(model="rewriter", messages=messages)
            with latspan.stage("retrieve"):
                pass
            with latspan.stage("rerank", kind="retrieve"):
                pass
            stream = client.chat.completions.create(
                model="writer",
                messages=messages,
                stream=True,
            )
            for _chunk in stream:
                pass


def main() -> int:
    """Answer the questions, print how many, and return the exit code."""
    questions = int(sys.argv[1])
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with ScriptedServer(Script.chat(tokens=3, prefill_ms=1, gap_ms=1)) as server:
        started = [
            multiprocessing.get_context("fork").Process(
                target=answer, args=(server.base_url, questions)
            )
            for _ in range(processes - 1)
        ]
        for process in started:
            process.start()
        answer(server.base_url, questions)
        for process in started:
            process.join()
    sys.stdout.write(f"answered {questions * processes}\n")
    return 3


if __name__ == "__main__":
    sys.exit(main())
