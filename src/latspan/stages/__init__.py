"""
A server's own part: stages, requests that are carried to whoever goes on with them, their tokens.

What is inside of what is found by context; where a context does not reach, a request is carried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan._lazy import fetched_when_used
from latspan.stages._stage import stage

if TYPE_CHECKING:
    from latspan._request import Carried
    from latspan.stages._batch import batch
    from latspan.stages._carrying import carry, resume
    from latspan.stages._generated import generated
    from latspan.stages._remarks import degraded, describe, rejected

__all__ = [
    "Carried",
    "batch",
    "carry",
    "degraded",
    "describe",
    "generated",
    "rejected",
    "resume",
    "stage",
]

# Whoever only names stages needs no live requests until latspan is configured.
_FETCHED = {
    "Carried": "_carrying",
    "batch": "_batch",
    "carry": "_carrying",
    "degraded": "_remarks",
    "describe": "_remarks",
    "generated": "_generated",
    "rejected": "_remarks",
    "resume": "_carrying",
}

__getattr__ = fetched_when_used(__name__, _FETCHED)
