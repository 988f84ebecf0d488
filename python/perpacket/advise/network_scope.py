"""The scope of a setting: a network namespace, and an interface in it."""

from __future__ import annotations

import ctypes
import os
import shlex
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.measure.hosts.process import enter_network

T = TypeVar("T")

OWN_NAMESPACE = Path("/proc/self/ns/net")
NAMED_NAMESPACES = Path("/run/netns")

SO_NETNS_COOKIE = 71
"""The option for a namespace's cookie, since Linux 5.14 (include/uapi/asm-generic/socket.h). No
later namespace of this boot has the same cookie, whereas inodes are used again."""

CLONE_NEWNET = 0x4000_0000
"""Network namespaces, of include/uapi/linux/sched.h."""

CLONE_NEWNS = 0x0002_0000
"""Mount namespaces, of include/uapi/linux/sched.h."""

MS_REC_SLAVE = 0x4000 | 0x80000
"""MS_REC | MS_SLAVE of mount(2): other namespaces do not see the thread's mounts."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class NetworkScope:
    """A network namespace and an interface in it.

    A file refers to the namespace. The interface's name is empty if there is no interface.
    """

    interface: str = ""
    namespace: Path | None = None
    """The file; None for the namespace of this process."""

    @classmethod
    def of(cls, pid: int | None = None, interface: str = "") -> NetworkScope:
        """The namespace of a process; raises `ConfigurationError` or `MachineLacks`."""
        if pid is None:
            return cls(interface)
        file = Path(f"/proc/{pid}/ns/net")
        try:
            own = file.stat().st_ino == OWN_NAMESPACE.stat().st_ino
        except FileNotFoundError:
            raise ConfigurationError(
                f"--pid {pid}: there is no such process",
                parameter="--pid",
                value=str(pid),
                allowed="expected the number of a process that runs, as `pidof` prints it",
            ) from None
        except PermissionError:
            raise MachineLacks(
                f"the network namespace of process {pid} cannot be read", "be root"
            ) from None
        return cls(interface, None if own else file)

    @property
    def inode(self) -> int:
        """The inode of the namespace, unique while the namespace exists."""
        return (self.namespace or OWN_NAMESPACE).stat().st_ino

    @property
    def is_first(self) -> bool:
        """Whether the namespace is that of the machine's first process."""
        try:
            return self.inode == Path("/proc/1/ns/net").stat().st_ino
        except OSError:
            return False

    def shell(self, command: str) -> str:
        """A shell command that runs `command` in the namespace, with that namespace's sysfs."""
        if self.namespace is None:
            return command
        if "/sys/" in command:
            mounted = shlex.quote(f"mount -t sysfs none /sys && {command}")
            command = f"unshare --mount sh -c {mounted}"
        elif any(sign in command for sign in ";&|>"):
            command = f"sh -c {shlex.quote(command)}"
        return f"nsenter --net={self.namespace} {command}"

    @property
    def cookie(self) -> int:
        """The namespace's cookie, unique until the next boot; 0 on kernels without cookies."""
        return self.inside(_cookie)

    @property
    def index(self) -> int:
        """The interface's number; 0 for none. A later interface of that name has another number."""
        try:
            return self.inside(lambda: socket.if_nametoindex(self.interface))
        except OSError:
            return 0

    def pinned(self) -> NetworkScope:
        """The same scope by an open descriptor, which keeps the namespace alive."""
        if self.namespace is None:
            return self
        descriptor = os.open(self.namespace, os.O_RDONLY | os.O_CLOEXEC)
        return replace(self, namespace=Path(f"/proc/self/fd/{descriptor}"))

    def unpin(self, other: NetworkScope) -> None:
        """Close the descriptor of this scope, which is the result of `other.pinned()`."""
        if self.namespace is not None and self.namespace != other.namespace:
            os.close(int(self.namespace.name))

    def inside(self, function: Callable[[], T]) -> T:
        """The result of `function`, called in the namespace, with that namespace's sysfs.

        Only one thread enters the namespace: a new one, which ends after the call.
        """
        if self.namespace is None:
            return function()
        namespace = self.namespace

        def enter_and_call() -> T:
            enter(namespace)
            return function()

        return on_thread(enter_and_call)

    def check_interface(self) -> None:
        """Raise `ConfigurationError` unless the scope names an interface that exists."""
        present = self.inside(lambda: [name for _, name in socket.if_nameindex()])
        if self.interface not in present:
            what = f"there is no {self.interface}" if self.interface else "an interface is needed"
            raise ConfigurationError(
                f"--interface {self.interface}: {what}".replace(" :", ":"),
                parameter="--interface",
                value=self.interface,
                allowed=f"expected one of {', '.join(sorted(present))}",
            )


def on_thread(function: Callable[[], T]) -> T:
    """The result of `function`, called on a thread of its own; its error is raised here."""
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def in_empty_namespace(function: Callable[[], T]) -> T:
    """The result of `function`, called in a new network namespace that ends with it."""

    def unshare_and_call() -> T:
        _check(_libc.unshare(CLONE_NEWNET))
        return function()

    return on_thread(unshare_and_call)


def _cookie() -> int:
    """The cookie of the thread's namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            value = any_socket.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8)
        except OSError:
            return 0
    return int.from_bytes(value, sys.byteorder)


def enter(namespace: Path) -> None:
    """Move the calling thread to a network namespace, and mount the sysfs of that namespace.

    /proc/sys shows the thread's namespace, but /sys/class/net shows the namespace in which sysfs
    was mounted. `ip netns exec` mounts it too.
    """
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_network(descriptor)
    finally:
        os.close(descriptor)
    _check(_libc.unshare(CLONE_NEWNS))
    _check(_libc.mount(b"none", b"/", None, MS_REC_SLAVE, None))
    _check(_libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None))


def _check(status: int) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def find(inode: int, interface: str) -> NetworkScope | None:
    """The scope in the namespace with that inode; None if the namespace is gone."""
    if OWN_NAMESPACE.stat().st_ino == inode:
        return NetworkScope(interface)
    names = list(NAMED_NAMESPACES.iterdir()) if NAMED_NAMESPACES.is_dir() else []
    for file in (*names, *Path("/proc").glob("[0-9]*/ns/net")):
        try:
            if file.stat().st_ino == inode:
                return NetworkScope(interface, file)
        except OSError:
            continue
    return None
