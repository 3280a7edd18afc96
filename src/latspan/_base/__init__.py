"""
Tools without a domain: clock, nanoseconds, text that is safe to show, log, fork, threads, imports.

Everything else may import this package; it imports nothing of latspan.
"""
