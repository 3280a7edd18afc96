"""What every test shares."""

from __future__ import annotations

from hypothesis import settings

# A deadline is a timed assertion, and this machine may be busy.
settings.register_profile("latspan", deadline=None)
settings.load_profile("latspan")
