"""Network namespaces of the kernel, joined by a bridge: separate machines for their programs."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

NO_PROXY: Final = {"NO_PROXY": "*", "no_proxy": "*"}
"""Environment for programs in a namespace, which cannot reach a proxy."""

_CLONE_NEWNET: Final = 0x40000000
_FOLDER: Final = Path("/run/netns")
_OWN: Final = Path("/proc/thread-self/ns/net")
_BRIDGE: Final = "bridge"
_CABLE: Final = "cable"


@dataclass(frozen=True, slots=True)
class Namespace:
    """
    One network namespace.

    Args:
        name: Unique name in the whole system.
        address: Address for the other namespaces; the loopback interface is private.
        hub: The namespace with the bridge.
        port: The bridge's interface for this namespace; unused for the hub itself.
    """

    name: str
    address: str
    hub: str
    port: str

    @contextmanager
    def entered(self) -> Generator[None]:
        """
        Move this thread, with new sockets and programs, into the namespace inside the block.

        Sockets and programs of the block stay in the namespace afterwards.
        """
        back = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        there = os.open(_FOLDER / self.name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(there)
            try:
                yield
            finally:
                _enter(back)
        finally:
            os.close(there)
            os.close(back)

    def cut(self) -> None:
        """Disconnect the namespace: all packets to and from it are lost without an error."""
        _ip(f"-n {self.hub} link set {self.port} down")

    def mend(self) -> None:
        """Connect the namespace again."""
        _ip(f"-n {self.hub} link set {self.port} up")


@contextmanager
def namespaces(count: int) -> Generator[tuple[Namespace, ...]]:
    """
    Create connected namespaces inside the block; skip the test if that is not allowed.

    The namespaces reach one another, and nothing outside.

    Args:
        count: Number of namespaces in addition to the hub.

    Yields:
        The hub, then the others.
    """
    if shutil.which("ip") is None:
        pytest.skip("there is no program ip: apt-get install iproute2")
    if os.geteuid() != 0:
        pytest.skip("network namespaces are for root to make")
    own = f"latspan-{os.getpid()}-{secrets.token_hex(2)}"
    made = [
        Namespace(f"{own}-{number}", f"10.77.0.{number + 1}", f"{own}-0", f"port{number}")
        for number in range(count + 1)
    ]
    with ExitStack() as undo:
        for each in made:
            _ip_if_allowed(f"netns add {each.name}")
            undo.callback(_ip, f"netns del {each.name}")
        hub, *others = made
        _ip_if_allowed(f"-n {hub.name} link add {_BRIDGE} type bridge")
        _bring_up(hub, _BRIDGE)
        for each in others:
            _ip_if_allowed(
                f"-n {each.name} link add {_CABLE} type veth peer name {each.port} netns {hub.name}"
            )
            _ip(f"-n {hub.name} link set {each.port} master {_BRIDGE}")
            each.mend()
            _bring_up(each, _CABLE)
        yield tuple(made)


def _bring_up(namespace: Namespace, interface: str) -> None:
    _ip(f"-n {namespace.name} link set lo up")
    _ip(f"-n {namespace.name} addr add {namespace.address}/24 dev {interface}")
    _ip(f"-n {namespace.name} link set {interface} up")


def _ip_if_allowed(command: str) -> None:
    """Run ``ip``; skip the test if the kernel or the user's permissions do not allow it."""
    done = subprocess.run(["ip", *command.split()], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"ip {command}: {done.stderr.strip()}")


def _ip(command: str) -> None:
    done = subprocess.run(["ip", *command.split()], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), f"ip {command}: {done.stderr}"


def _enter(namespace: int) -> None:
    # `os.setns` exists from Python 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
