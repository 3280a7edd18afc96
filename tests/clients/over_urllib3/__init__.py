"""Tests of requests and of urllib3 beneath it."""
