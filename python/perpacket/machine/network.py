"""Work that can be offloaded: segmentation to the NIC, TLS to the kernel."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Callable, Sequence

from perpacket.machine.capability import Capability, Check, Group
from perpacket.machine.files import Files

SIOCETHTOOL = 0x8946
"""The request of ioctl(2) behind ethtool; linux/sockios.h."""

OFFLOADS = {"TSO": 0x1E, "GSO": 0x23, "GRO": 0x2B}
"""ETHTOOL_GTSO, ETHTOOL_GGSO, ETHTOOL_GGRO of linux/ethtool.h, which need no rights."""

SOL_UDP, UDP_SEGMENT = 17, 103
TCP_ULP = 31
"""Options of udp(7) and tcp(7) for which Python has no names."""

SEGMENT_BYTES = 1200

SEGMENTATION = Check(
    "segmentation_offload",
    Group.NETWORK,
    "the stack processes each segment by itself: bulk sending costs several times the processor "
    "time, and profiles are not comparable with those of other machines",
    "`ethtool -K INTERFACE gso on gro on tso on`, as root",
)
UDP_SEGMENTATION = Check(
    "udp_segmentation",
    Group.NETWORK,
    "`serve media` sends each packet with a system call of its own",
    "use a kernel with UDP_SEGMENT",
)
KERNEL_TLS = Check(
    "kernel_tls",
    Group.NETWORK,
    "servers with kernel TLS encrypt in user space here; `serve web` always does",
    "`modprobe tls`, as root, where the kernel has the module",
)


def capabilities(files: Files) -> list[Capability]:
    """The capabilities of the network stack."""
    interfaces = files.names("/sys/class/net")
    return [
        segmentation(interfaces),
        UDP_SEGMENTATION.attempt(set_udp_segment_size),
        KERNEL_TLS.attempt(enable_kernel_tls),
    ]


def offloads(interface: str) -> list[str]:
    """The enabled offloads of an interface; raises `OSError` when it reports none."""
    found: list[str] = []
    with socket.socket(type=socket.SOCK_DGRAM) as any_socket:
        for name, command in OFFLOADS.items():
            value = ctypes.create_string_buffer(struct.pack("=II", command, 0), 8)
            request = struct.pack("16sQ16x", interface.encode(), ctypes.addressof(value))
            fcntl.ioctl(any_socket, SIOCETHTOOL, request)
            if struct.unpack_from("=I", value.raw, 4)[0]:
                found.append(name)
    return found


def segmentation(
    interfaces: Sequence[str], offloads_of: Callable[[str], list[str]] = offloads
) -> Capability:
    """Whether any interface accepts several frames at a time from the stack."""
    details: list[str] = []
    works = False
    for interface in interfaces:
        try:
            found = offloads_of(interface)
        except OSError:
            continue
        works = works or "GSO" in found or "TSO" in found
        details.append(f"{interface}: {' '.join(found) or 'none'}")
    return SEGMENTATION.result(works, "; ".join(details) or "no interface reports its offloads")


def set_udp_segment_size() -> str:
    """Set the size of the datagrams into which the kernel cuts a socket's data."""
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.setsockopt(SOL_UDP, UDP_SEGMENT, SEGMENT_BYTES)
    return "a socket accepts UDP_SEGMENT"


def enable_kernel_tls() -> str:
    """Enable the kernel's TLS on a new connection over loopback."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        try:
            client.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        except FileNotFoundError:
            raise OSError("the kernel has no protocol `tls` and no module for it") from None
    return "a connection accepts the protocol `tls`"
