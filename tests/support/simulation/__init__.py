"""
Simulation of clients, a gateway and a model server in virtual time.

It produces the records that latspan would have recorded: stamps are turned into timelines by
latspan's own pure functions. It knows nothing of diagnosis.
"""

from __future__ import annotations

from support.simulation._faults import (
    FAULTS,
    SERVER_CAUSES,
    Fault,
    noisy,
    scenario_of,
    spread_out,
)
from support.simulation._kernel import Kernel, Slots
from support.simulation._records import records_of, requests_of, write_recording
from support.simulation._scenario import HEALTHY, Length, Scenario, Work

__all__ = [
    "FAULTS",
    "HEALTHY",
    "SERVER_CAUSES",
    "Fault",
    "Kernel",
    "Length",
    "Scenario",
    "Slots",
    "Work",
    "noisy",
    "records_of",
    "requests_of",
    "scenario_of",
    "spread_out",
    "write_recording",
]
