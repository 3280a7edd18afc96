"""
Load from many processes and machines through Locust, recorded as ``latspan measure`` records it.

Locust starts and distributes the users; latspan records each request with all its segments. Every
worker process writes to the folder that ``--latspan-record`` names. Files of several machines are
merged by copying them into one folder, because their names do not collide, and histograms add up
without loss.

A measurement by Locust is a closed loop: a user waits for a response before it sends the next
request, so a slow server receives fewer requests. ``latspan measure --rate`` is an open loop.
"""

from __future__ import annotations

from latspan_instrumentation.locust._user import LatspanUser

__all__ = ["LatspanUser"]
