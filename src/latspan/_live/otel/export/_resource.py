"""Resource of all telemetry that one process sends."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Final, TypeVar

from opentelemetry.sdk import resources
from opentelemetry.sdk.resources import (
    PROCESS_PARENT_PID,
    PROCESS_PID,
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    Resource,
)
from opentelemetry.sdk.trace import ReadableSpan

from latspan._base.fork import was_started_by
from latspan._live.otel.spans import encodable

_Item = TypeVar("_Item")

_FORKED_WITHOUT_EXEC: Final = 0x40
"""``PF_FORKNOEXEC`` among the flags of ``/proc/self/stat``, see proc(5)."""


def resource_of(service_name: str | None) -> Resource:
    """
    Return the resource of this process, as the ``OTEL_*`` variables describe it.

    A ``service.instance.id`` in the variables belongs to the process that was started with them.
    Workers that this process forks or that ``multiprocessing`` starts inherit the variables, but
    are separate instances and get IDs of their own: the convention requires an id "unique for each
    instance of the same" service, and if two processes send the same series, both are corrupted.

    Args:
        service_name: ``service.name``, takes precedence over ``OTEL_SERVICE_NAME``; ``None`` does
            not change it.
    """
    resource = _encodable(
        Resource.create({} if service_name is None else {SERVICE_NAME: service_name})
    )
    if SERVICE_INSTANCE_ID in resource.attributes and not _is_a_worker():
        return resource.merge(Resource({PROCESS_PID: os.getpid()}))
    return resource_of_child(resource)


def resource_of_child(resource: Resource) -> Resource:
    """
    Return the resource of this process, which was forked from the one that ``resource`` describes.

    Resource detection does not run again: it needs threads, which may no longer be able to start.
    """
    process = {SERVICE_INSTANCE_ID: _instance_id(), PROCESS_PID: os.getpid()}
    if PROCESS_PARENT_PID in resource.attributes:
        process[PROCESS_PARENT_PID] = os.getppid()
    return resource.merge(Resource(process))


def with_resource(item: _Item, resource: Resource) -> _Item | ReadableSpan:
    """Return an ended span with this resource; an event is returned unchanged."""
    if not isinstance(item, ReadableSpan) or item.resource is resource:
        return item
    return ReadableSpan(
        item.name,
        context=item.context,
        parent=item.parent,
        resource=resource,
        attributes=item.attributes,
        events=item.events,
        links=item.links,
        kind=item.kind,
        instrumentation_scope=item.instrumentation_scope,
        status=item.status,
        start_time=item.start_time,
        end_time=item.end_time,
    )


def application_resource(provider: object, own: Resource, *, is_child: bool) -> Resource:
    """
    Return the resource of this process if its spans use an application's provider.

    Args:
        provider: The application's provider.
        own: latspan's resource of this process. Its ID is used if the provider's resource has
            none, because the series of two processes must not be mixed up.
        is_child: Whether this process was forked from one that may have the same provider: then
            the ID in the provider's resource may be that of the parent process.
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
    """Return the resource with valid text: an environment variable may contain any bytes."""
    attributes = encodable(resource.attributes)
    if attributes is resource.attributes:
        return resource
    return Resource(attributes, resource.schema_url)


def _instance_id() -> str:
    """Return the random ID that the SDK gives providers in this process, or else a new one."""
    detector = getattr(resources, "ServiceInstanceIdResourceDetector", None)
    if detector is not None:
        return str(detector().detect().attributes[SERVICE_INSTANCE_ID])
    return str(uuid.uuid4())


def _is_a_worker() -> bool:
    """Return whether this process is a fork of another or was started by ``multiprocessing``."""
    if was_started_by("multiprocessing"):
        return True
    try:
        stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    # The second field is the program's name in parentheses, which may contain any characters.
    flags = stat.rpartition(")")[2].split()[6:7]
    return bool(flags) and bool(int(flags[0]) & _FORKED_WITHOUT_EXEC)
