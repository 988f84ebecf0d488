"""The MTU of an interface, and its largest packet before segmentation."""

from __future__ import annotations

import fcntl
import json
import socket
import struct

from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings import iproute
from perpacket.advise.settings.refusals import refusals
from perpacket.errors import ConfigurationError, MachineLacks

SIOCGIFMTU, SIOCSIFMTU = 0x8921, 0x8922
"""Requests of netdevice(7), of include/uapi/linux/sockios.h."""

IPV6_LEAST = 1280
"""The smallest MTU of IPv6 (RFC 8200, section 5)."""

LARGEST = 2**31 - 1
"""The limit for a driver that reports none."""


class Mtu:
    """The largest payload of a frame, in bytes."""

    is_readable = True

    def __init__(self, scope: NetworkScope) -> None:
        """The MTU of the scope's interface."""
        scope.check_interface()
        self.scope = scope

    def title(self) -> str:
        """The setting and its interface."""
        return f"MTU of {self.scope.interface}"

    def read(self) -> str:
        """The MTU in bytes."""
        return str(self._request(SIOCGIFMTU, 0, ""))

    def normal(self, value: str) -> str:
        """The value unchanged, because numbers have only one form."""
        return value

    def check(self, value: str) -> None:
        """Raise an error if the value is not a number or the rights are missing."""
        if not value.isdigit():
            raise ConfigurationError(f"{self.title()} = {value}: expected bytes", value=value)
        least, most = self.limits()
        if not least <= int(value) <= most:
            raise ConfigurationError(
                f"{self.title()} = {value}: expected {least} to {most} bytes", value=value
            )
        if int(value) < IPV6_LEAST and self._has_ipv6():
            raise ConfigurationError(
                f"{self.title()} = {value}: below {IPV6_LEAST} bytes the interface loses its IPv6 "
                "addresses, which could not be restored",
                value=value,
            )
        self.write(self.read())

    def write(self, value: str) -> None:
        """Set the MTU."""
        self._request(SIOCSIFMTU, int(value), value)

    def limits(self) -> tuple[int, int]:
        """The smallest and the largest MTU of the driver."""
        command = ["ip", "-details", "-json", "link", "show", "dev", self.scope.interface]
        found = json.loads(iproute.run(self.scope, command, self.title()))[0]
        return int(found.get("min_mtu", 0)), int(found.get("max_mtu", 0)) or LARGEST

    def _has_ipv6(self) -> bool:
        command = ["ip", "-6", "address", "show", "dev", self.scope.interface]
        return bool(iproute.run(self.scope, command, self.title()).strip())

    def _request(self, request: int, mtu: int, value: str) -> int:
        def inside() -> int:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                name = self.scope.interface.encode()
                content = fcntl.ioctl(any_socket, request, struct.pack("16si16x", name, mtu))
            return int(struct.unpack("16si16x", content)[1])

        with refusals(self.title(), value):
            return self.scope.inside(inside)

    def command(self, value: str) -> str:
        """`ip link set`."""
        return self.scope.shell(f"ip link set dev {self.scope.interface} mtu {value}")

    def permanent(self, value: str) -> str | None:
        """A systemd.link(5) file."""
        return (
            f"a file in /etc/systemd/network that ends in .link: [Match] OriginalName="
            f"{self.scope.interface} [Link] MTUBytes={value}"
        )

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": "link-mtu"}


class LargestPacket:
    """The largest packet that TCP passes to an interface and that GRO makes, in bytes (BIG TCP).

    `gso_max_size` and `gro_max_size` are those of IPv6, and with `ipv4` in their names those of
    IPv4 (Linux 6.3). Both directions have the same value.
    """

    is_readable = True

    NAMES = ("gso_max_size", "gro_max_size", "gso_ipv4_max_size", "gro_ipv4_max_size")

    def __init__(self, scope: NetworkScope) -> None:
        """The sizes of the scope's interface."""
        scope.check_interface()
        self.scope = scope

    def title(self) -> str:
        """The setting and its interface."""
        return f"largest packet (gso_max_size, gro_max_size) of {self.scope.interface}"

    def normal(self, value: str) -> str:
        """The value unchanged, because numbers have only one form."""
        return value

    def _present(self) -> dict[str, int]:
        """The sizes that this kernel has."""
        command = ["ip", "-details", "-json", "link", "show", "dev", self.scope.interface]
        found = json.loads(iproute.run(self.scope, command, self.title()))[0]
        return {name: int(found[name]) for name in self.NAMES if name in found}

    def read(self) -> str:
        """The size; those of all directions, separated by `;`, if they differ."""
        found = self._present()
        if "gro_max_size" not in found:
            raise MachineLacks(f"{self.title()}: the kernel has no gro_max_size (Linux 5.19)")
        sizes = list(map(str, found.values()))
        return sizes[0] if len(set(sizes)) == 1 else ";".join(sizes)

    def check(self, value: str) -> None:
        """Raise an error if the value is not a size or the rights are missing."""
        if not all(part.isdigit() and int(part) for part in value.split(";")):
            raise ConfigurationError(f"{self.title()} = {value}: expected bytes", value=value)
        self.write(self.read())

    def write(self, value: str) -> None:
        """Set the sizes."""
        iproute.run(self.scope, self._words(value), self.title())

    def _words(self, value: str) -> list[str]:
        names, sizes = list(self._present()), value.split(";")
        if len(sizes) == 1:
            sizes *= len(names)
        pairs = [word for pair in zip(names, sizes, strict=False) for word in pair]
        return ["ip", "link", "set", "dev", self.scope.interface, *pairs]

    def command(self, value: str) -> str:
        """`ip link set`."""
        return self.scope.shell(" ".join(self._words(value)))

    def permanent(self, value: str) -> str | None:
        """Instructions to run the command at each start of the machine."""
        return f"run at each start, for example from a unit of systemd: {self.command(value)}"

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": "link-largest-packet"}
