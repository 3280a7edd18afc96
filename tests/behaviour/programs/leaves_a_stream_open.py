"""An application that exits during a stream: ``leaves_a_stream_open.py MODEL_URL``."""

from __future__ import annotations

import sys

import openai

import latspan

latspan.auto_instrument()
latspan.configure()
client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
stream = client.chat.completions.create(model="small", messages=[], stream=True)
chunks = iter(stream)
next(chunks)
