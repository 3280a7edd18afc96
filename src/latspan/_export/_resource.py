"""Who speaks: the resource of everything that one process sends."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Final

from opentelemetry.sdk import resources
from opentelemetry.sdk.resources import (
    PROCESS_PARENT_PID,
    PROCESS_PID,
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    Resource,
)

from latspan._fork import is_child_of
from latspan._spans import encodable

__all__ = ["resource_beside", "resource_of", "resource_of_child"]

_FORKED_WITHOUT_EXEC: Final = 0x40
"""``PF_FORKNOEXEC`` among the flags of ``/proc/self/stat``, see proc(5)."""


def resource_of(service_name: str | None) -> Resource:
    """
    Return the resource that the ``OTEL_*`` variables describe, of this process.

    A ``service.instance.id`` among them is of the process that was started with it. Workers that
    the process forks or that ``multiprocessing`` starts inherit the variable and are instances
    of their own: the convention wants an id "unique for each instance of the same" service, and
    two processes that send the same series make nonsense of both.

    Args:
        service_name: ``service.name``, wins over ``OTEL_SERVICE_NAME``; ``None`` leaves it.
    """
    resource = _encodable(
        Resource.create({} if service_name is None else {SERVICE_NAME: service_name})
    )
    if SERVICE_INSTANCE_ID in resource.attributes and not _is_a_worker():
        return resource.merge(Resource({PROCESS_PID: os.getpid()}))
    return resource_of_child(resource)


def resource_of_child(resource: Resource) -> Resource:
    """
    Return what ``resource`` becomes in this process, forked from the one that it describes.

    Nothing is detected again, as that would take threads, which may start no more by now.
    """
    process = {SERVICE_INSTANCE_ID: _instance_id(), PROCESS_PID: os.getpid()}
    if PROCESS_PARENT_PID in resource.attributes:
        process[PROCESS_PARENT_PID] = os.getppid()
    return resource.merge(Resource(process))


def resource_beside(provider: object, own: Resource, *, is_child: bool) -> Resource:
    """
    Return how this process is called under an application's provider, whose spans it has.

    Args:
        provider: The application's.
        own: How latspan calls this process. Series of two processes must not be mixed up, so its
            id stands where the provider's resource has none.
        is_child: Whether this process was forked from one that may have the same provider: then
            the id in the provider's resource may be its parent's.
    """
    theirs = getattr(provider, "resource", None)
    if not isinstance(theirs, Resource):
        return own
    process = Resource(
        {
            name: own.attributes[name]
            for name in (SERVICE_INSTANCE_ID, PROCESS_PID)
            if name in own.attributes
        }
    )
    return _encodable(theirs.merge(process) if is_child else process.merge(theirs))


def _encodable(resource: Resource) -> Resource:
    """Return a resource of valid text: a variable of the environment may hold any bytes."""
    attributes = encodable(resource.attributes)
    if attributes is resource.attributes:
        return resource
    return Resource(attributes, resource.schema_url)


def _instance_id() -> str:
    """Return the random one that the SDK gives providers in this process, where it has one."""
    detector = getattr(resources, "ServiceInstanceIdResourceDetector", None)
    if detector is not None:
        return str(detector().detect().attributes[SERVICE_INSTANCE_ID])
    return str(uuid.uuid4())


def _is_a_worker() -> bool:
    """Return whether this process is a copy that another made of itself."""
    if is_child_of("multiprocessing"):
        return True
    try:
        stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    # The name of the program comes second, in parentheses, and may hold anything.
    flags = stat.rpartition(")")[2].split()[6:7]
    return bool(flags) and bool(int(flags[0]) & _FORKED_WITHOUT_EXEC)
