"""The MTU of an interface."""

from __future__ import annotations

import fcntl
import socket
import struct

from perpacket.advise.place import Place
from perpacket.advise.settings.refusals import refusals
from perpacket.errors import ConfigurationError

SIOCGIFMTU, SIOCSIFMTU = 0x8921, 0x8922
"""Requests of netdevice(7), of include/uapi/linux/sockios.h."""


class Mtu:
    """The largest payload of a frame, in bytes."""

    is_readable = True

    def __init__(self, place: Place) -> None:
        """The MTU of the place's interface."""
        place.check_interface()
        self.place = place

    def title(self) -> str:
        """The setting and its interface."""
        return f"MTU of {self.place.interface}"

    def read(self) -> str:
        """Bytes."""
        return str(self._request(SIOCGIFMTU, 0, ""))

    def normal(self, value: str) -> str:
        """Numbers have one form."""
        return value

    def check(self, value: str) -> None:
        """Refuse what is no number, and a lack of rights."""
        if not value.isdigit():
            raise ConfigurationError(f"{self.title()} = {value}: expected bytes", value=value)
        self.write(self.read())

    def write(self, value: str) -> None:
        """Set the MTU."""
        self._request(SIOCSIFMTU, int(value), value)

    def _request(self, request: int, mtu: int, value: str) -> int:
        def inside() -> int:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                name = self.place.interface.encode()
                content = fcntl.ioctl(any_socket, request, struct.pack("16si16x", name, mtu))
            return int(struct.unpack("16si16x", content)[1])

        with refusals(self.title(), value):
            return self.place.inside(inside)

    def command(self, value: str) -> str:
        """`ip link set`."""
        return f"ip link set dev {self.place.interface} mtu {value}"

    def permanent(self, value: str) -> str | None:
        """A systemd.link(5) file."""
        return (
            f"a file in /etc/systemd/network that ends in .link: [Match] OriginalName="
            f"{self.place.interface} [Link] MTUBytes={value}"
        )

    def record(self) -> dict[str, str]:
        """The table that opens the setting again."""
        return {"kind": "link-mtu"}
