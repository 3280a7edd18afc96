"""All faults by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from diagnosis.sockets import application_faults, gateway_faults, network_faults, server_faults
from diagnosis.sockets._fault import Fault

FAULTS: Final[Mapping[str, Fault]] = {
    fault.name: fault
    for family in (server_faults, gateway_faults, network_faults, application_faults)
    for fault in family.FAULTS
}
