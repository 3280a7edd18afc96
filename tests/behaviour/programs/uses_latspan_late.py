"""Makes two calls, then configures latspan and makes a third one inside a request."""

from __future__ import annotations

import sys

import httpx

import latspan

url = sys.argv[1]
for _ in range(2):
    httpx.get(url)
latspan.configure()
with latspan.request("question"):
    httpx.get(url)
sys.stdout.write("answered\n")
sys.exit(3)
