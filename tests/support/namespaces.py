"""Network namespaces of the kernel, joined by a bridge: machines of their own to their programs."""

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

__all__ = ["NO_PROXY", "Namespace", "namespaces"]

NO_PROXY: Final = {"NO_PROXY": "*", "no_proxy": "*"}
"""For programs in a namespace, from which no proxy can be reached."""

_CLONE_NEWNET: Final = 0x40000000
_FOLDER: Final = Path("/run/netns")
_OWN: Final = Path("/proc/thread-self/ns/net")
_BRIDGE: Final = "bridge"
_CABLE: Final = "cable"


@dataclass(frozen=True, slots=True)
class Namespace:
    """
    One of them.

    Args:
        name: Its own in the whole system.
        address: Where the others reach it; its loopback interface is its own.
        hub: The namespace with the bridge.
        port: The interface of the bridge that its cable leads to; the hub itself has none.
    """

    name: str
    address: str
    hub: str
    port: str

    @contextmanager
    def entered(self) -> Generator[None]:
        """
        Be in it inside the block: this thread, the sockets it opens, the programs it starts.

        What was opened or started stays in it afterwards.
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
        """Pull the cable: what it sends, or is sent, is lost without a word."""
        _ip(f"-n {self.hub} link set {self.port} down")

    def mend(self) -> None:
        """Plug it in again."""
        _ip(f"-n {self.hub} link set {self.port} up")


@contextmanager
def namespaces(count: int) -> Generator[tuple[Namespace, ...]]:
    """
    Make a hub and so many namespaces around it inside the block; skip where that is not allowed.

    They reach one another, and nothing outside.

    Args:
        count: How many, beside the hub.

    Yields:
        The hub first.
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
    """Skip the test where the kernel, or who runs it, does not allow that."""
    done = subprocess.run(["ip", *command.split()], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"ip {command}: {done.stderr.strip()}")


def _ip(command: str) -> None:
    done = subprocess.run(["ip", *command.split()], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), f"ip {command}: {done.stderr}"


def _enter(namespace: int) -> None:
    # `os.setns` is there from Python 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
