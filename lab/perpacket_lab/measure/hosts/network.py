"""Namespaces and the devices that join them, by netlink.

One client is joined to the server directly. Several clients are joined by a bridge in a namespace
of its own, so that the server always has one device, one address and one bottleneck. The device of
each host is `net0`.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perpacket.errors import MachineLacks
from perpacket.measure.hosts.process import enter_network
from perpacket.measure.hosts.record import NAMESPACES, Record

DEVICE = "net0"
"""Name of a host's device."""

BRIDGE = "bridge0"
"""Name of the bridge in the switch's namespace."""

SERVER_PORT = "server0"
"""Name of the bridge's port towards the server."""

PERMANENT = 0x80
"""State of a neighbour without ARP: NUD_PERMANENT of include/uapi/linux/neighbour.h."""

BY_KERNEL, ON_LINK = 2, 253
"""Origin and scope of the route that the kernel adds with an address: RTPROT_KERNEL and
RT_SCOPE_LINK of include/uapi/linux/rtnetlink.h."""

OFFLOADS = (
    *("tx-tcp", "tx-udp-segmentation", "tx-sctp-segmentation", "tx-generic-segmentation"),
    *("tx-checksum", "rx-gro", "tx-scatter-gather-fraglist"),
)
"""Name prefixes of the features for combined frames and for frames without a checksum
(net/ethtool/common.c)."""

PREFIX_BITS = 16
"""Length of the network's prefix. The server is 10.77.0.1; the clients have the next addresses."""

QUEUE_PACKETS = 100_000
"""Length of netem's queue, which includes the delayed frames: over 40 ms at 20 Gb/s."""

STEERING = Path("/proc/sys/net/core/rps_default_mask")
"""The setting for the processors of a new device's receive work, since Linux 6.3
(Documentation/admin-guide/sysctl/net.rst)."""


def address(number: int) -> str:
    """The address of a host: the server is number 0."""
    return f"10.77.{(number + 1) // 256}.{(number + 1) % 256}"


@contextmanager
def allowed(what: str) -> Iterator[None]:
    """Turn errors of the kernel into `MachineLacks` with `what` and the kernel's reason."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except (OSError, NetlinkError) as error:
        raise MachineLacks(
            f"{what}: {reason_of(error)}",
            "run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN) where /proc/sys can be written, or use "
            "loopback",
        ) from error


def reason_of(error: Exception) -> str:
    """The kernel's error message."""
    return (getattr(error, "strerror", None) or str(error)).lower()


@dataclass(frozen=True)
class Namespace:
    """A network namespace of a testbed."""

    name: str
    descriptor: int

    @classmethod
    def create(cls, record: Record, host: str, cpus: tuple[int, ...]) -> Namespace:
        """Make the namespace of a host whose receive work runs on those processors.

        Raises `MachineLacks` without the right to do so.
        """
        from pyroute2 import netns

        name = record.name(host)
        with allowed(f"network namespace {name}"):
            netns.create(name)
            namespace = cls(name, os.open(NAMESPACES / name, os.O_RDONLY | os.O_CLOEXEC))
            try:
                namespace.inside(lambda: prepare(cpus))
                with namespace.netlink() as netlink:
                    netlink.link("set", index=1, state="up")
            except BaseException:
                namespace.close()
                raise
        return namespace

    def netlink(self) -> Any:
        """A netlink socket of the namespace; the caller closes it."""
        from pyroute2 import NetNS

        return NetNS(self.name, flags=0)

    def inside(self, action: Callable[[], None]) -> None:
        """Call `action` on a thread in the namespace; raises its error."""
        errors: list[BaseException] = []

        def enter_and_act() -> None:
            try:
                enter_network(self.descriptor)
                action()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=enter_and_act)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]

    def set_sysctl(self, name: str, value: str) -> None:
        """Set a value below `net`, such as `net.ipv4.tcp_timestamps`."""
        path = Path("/proc/sys") / name.replace(".", "/")

        def write() -> None:
            path.write_text(f"{value}\n", encoding="ascii")

        try:
            self.inside(write)
        except OSError as error:
            raise MachineLacks(
                f"{name} = {value}: {reason_of(error)}",
                "check that this kernel has this setting and value",
            ) from error

    def close(self) -> None:
        """Close the descriptor of the namespace."""
        with suppress(OSError):
            os.close(self.descriptor)


def prepare(cpus: tuple[int, ...]) -> None:
    """Turn off IPv6 in the calling thread's namespace, and steer receive work to `cpus`.

    IPv6 would send packets of its own. Without steering, the sending processor would do the
    receiver's work too.
    """
    for file in Path("/proc/sys/net/ipv6/conf").glob("*/disable_ipv6"):
        file.write_text("1\n", encoding="ascii")
    if STEERING.exists():
        STEERING.write_text(mask_of(cpus) + "\n", encoding="ascii")


def mask_of(cpus: Iterable[int]) -> str:
    """The processors as the kernel's hexadecimal words, the highest first."""
    words: list[str] = []
    mask = sum(1 << cpu for cpu in cpus)
    while mask or not words:
        words.append(f"{mask & 0xFFFF_FFFF:08x}")
        mask >>= 32
    return ",".join(reversed(words))


def index_of(netlink: Any, device: str) -> int:
    """The number of a device."""
    return int(netlink.link_lookup(ifname=device)[0])


def remove_device(namespace: Namespace, device: str) -> None:
    """Remove a device if it exists; a veth pair loses both ends."""
    with namespace.netlink() as netlink:
        for index in netlink.link_lookup(ifname=device):
            netlink.link("del", index=index)


@allowed("a host's device")
def bring_up(
    namespace: Namespace, device: str, host_address: str | None, prefix_bits: int = PREFIX_BITS
) -> None:
    """Set the address of a host's device, and bring the device up."""
    with namespace.netlink() as netlink:
        index = index_of(netlink, device)
        if host_address is not None:
            netlink.addr("add", index=index, address=host_address, prefixlen=prefix_bits)
        netlink.link("set", index=index, state="up")


@allowed("a pair of virtual Ethernet devices")
def join_by_veth(left: Namespace, left_device: str, right: Namespace, right_device: str) -> None:
    """Make a pair of virtual Ethernet devices, one end in each namespace, still down."""
    with left.netlink() as netlink:
        peer = {"ifname": right_device, "net_ns_fd": right.descriptor}
        netlink.link("add", ifname=left_device, kind="veth", peer=peer)


@allowed("a bridge")
def make_bridge(switch: Namespace) -> None:
    """Make the bridge of the switch."""
    with switch.netlink() as netlink:
        netlink.link("add", ifname=BRIDGE, kind="bridge")
        netlink.link("set", index=index_of(netlink, BRIDGE), state="up")


@allowed("a port of a bridge")
def make_port(switch: Namespace, device: str) -> None:
    """Make a device of the switch's namespace a port of its bridge, and bring it up."""
    with switch.netlink() as netlink:
        index = index_of(netlink, device)
        netlink.link("set", index=index, master=index_of(netlink, BRIDGE), state="up")


@allowed("a host's inner address")
def add_inner_address(namespace: Namespace, host_address: str) -> None:
    """Add an address that no network between hosts contains."""
    with namespace.netlink() as netlink:
        netlink.addr("add", index=index_of(netlink, "lo"), address=host_address, prefixlen=32)


@allowed("a route")
def add_route(namespace: Namespace, network: str, router: str) -> None:
    """Add a static route to a network, such as `10.77.1.0/24`."""
    with namespace.netlink() as netlink:
        netlink.route("add", dst=network, gateway=router)


@allowed("the quickack of a route")
def set_quickack(namespace: Namespace, device: str, host_address: str, is_on: bool) -> None:
    """Make TCP acknowledge each frame through a host's device at once, or not (ip-route(8))."""
    network = ipaddress.ip_interface(f"{host_address}/{PREFIX_BITS}").network
    with namespace.netlink() as netlink:
        netlink.route(
            "replace",
            dst=str(network),
            oif=index_of(netlink, device),
            prefsrc=host_address,
            proto=BY_KERNEL,
            scope=ON_LINK,
            metrics={"quickack": int(is_on)},
        )


@allowed("a permanent neighbour")
def add_neighbours(left: Namespace, left_device: str, right: Namespace, right_device: str) -> None:
    """Store each end's hardware address at the other end, so that neither sends ARP requests."""
    ends = ((left, left_device), (right, right_device))
    for (namespace, device), (other, other_device) in (ends, ends[::-1]):
        with other.netlink() as netlink:
            index = index_of(netlink, other_device)
            hardware = netlink.get_links(index)[0].get_attr("IFLA_ADDRESS")
            (address,) = netlink.get_addr(index=index, family=socket.AF_INET)
            host_address = address.get_attr("IFA_ADDRESS")
        with namespace.netlink() as netlink:
            netlink.neigh(
                "replace",
                dst=host_address,
                lladdr=hardware,
                ifindex=index_of(netlink, device),
                state=PERMANENT,
            )


def turn_off_offloads(namespace: Namespace, device: str) -> None:
    """Turn off a device's offloads, so that it passes only wire frames with checksums.

    With offloads a counted frame may be a UDP or TCP segment of 64 KiB without a checksum. A
    program in XDP would forward it, and the receiving host would discard it.
    """

    def turn_off() -> None:
        from pyroute2.ethtool import Ethtool

        ethtool = Ethtool()
        try:
            features = ethtool.get_features(device)
            for name, feature in features.features.items():
                if name.startswith(OFFLOADS) and feature.available:
                    feature.enable = False
            ethtool.set_features(device, features)
        finally:
            ethtool.close()

    from pyroute2.ethtool.ioctl import EthtoolError
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        namespace.inside(turn_off)
    except (OSError, EthtoolError, NetlinkError) as error:
        raise MachineLacks(
            f"the offloads of {namespace.name}:{device} cannot be turned off: {error}",
            "offloads make frame counts wrong; use a kernel whose ethtool can turn them off",
        ) from error


def set_netem(namespace: Namespace, device: str, one_way_us: float, rate_bps: int | None) -> None:
    """Delay a device's sent frames and limit their rate; with neither, remove netem."""
    with namespace.netlink() as netlink:
        index = index_of(netlink, device)
        if not one_way_us and rate_bps is None:
            with suppress(Exception):
                netlink.tc("del", index=index)
            return
        options: dict[str, object] = {"delay": round(one_way_us), "limit": QUEUE_PACKETS}
        if rate_bps is not None:
            # Bytes per second (struct tc_netem_rate of include/uapi/linux/pkt_sched.h).
            options["rate"] = rate_bps // 8
        netlink.tc("replace", "netem", index, "1:", **options)


def has_netem(record: Record) -> bool:
    """Whether this kernel has netem; tries to add netem to a device."""
    from pyroute2.netlink.exceptions import NetlinkError

    probe = Namespace.create(record, "probe", ())
    try:
        set_netem(probe, "lo", 1000, None)
    except NetlinkError:
        return False
    else:
        return True
    finally:
        probe.close()
        from perpacket.measure.hosts.record import remove_namespace

        remove_namespace(probe.name)
