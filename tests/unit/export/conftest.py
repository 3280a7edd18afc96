"""Properties hold however slow the machine is: no example has a deadline."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("latspan", deadline=None)
settings.load_profile("latspan")
