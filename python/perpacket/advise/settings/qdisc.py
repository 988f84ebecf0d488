"""The queueing discipline at the root of an interface."""

from __future__ import annotations

import json

from perpacket.advise.place import Place
from perpacket.advise.settings import iproute
from perpacket.errors import MachineLacks


class Discipline:
    """The kind of the root discipline. The kernel's own default can be restored, others cannot."""

    is_readable = True

    def __init__(self, place: Place) -> None:
        """The discipline of the place's interface."""
        place.check_interface()
        self.place = place

    def title(self) -> str:
        """The setting and its interface."""
        return f"queueing discipline of {self.place.interface}"

    def _root(self) -> tuple[str, bool]:
        """The kind, and whether the kernel chose it."""
        command = ["tc", "-j", "qdisc", "show", "dev", self.place.interface]
        found = json.loads(iproute.run(self.place, command, self.title()) or "[]")
        for one in found:
            if one.get("root"):
                return str(one["kind"]), one.get("handle", "0:") == "0:"
        return "noqueue", True

    def read(self) -> str:
        """The kind; `default KIND` if the kernel chose it."""
        kind, is_default = self._root()
        return f"default {kind}" if is_default else kind

    def normal(self, value: str) -> str:
        """Kinds have one form."""
        return value

    def check(self, value: str) -> None:
        """Refuse an interface whose present discipline somebody configured.

        Its options could not be restored exactly. The new kind is tried and removed, because a
        kernel may lack it.
        """
        kind, is_default = self._root()
        if not is_default:
            raise MachineLacks(
                f"{self.title()}: {kind} was configured, and its options could not be restored",
                "remove it, or use `--do` and `--undo` with commands of yours",
            )
        if value.startswith("default"):
            return
        try:
            self.write(value)
        finally:
            self.write(f"default {kind}")

    def write(self, value: str) -> None:
        """Replace the root discipline, or remove it so that the kernel's default returns."""
        iproute.run(self.place, self._words(value), f"{self.title()} = {value}")

    def _words(self, value: str) -> list[str]:
        device = self.place.interface
        if value.startswith("default"):
            if self._root()[1]:
                return ["true"]
            return ["tc", "qdisc", "delete", "dev", device, "root"]
        limit = ["limit", "1000"] if value == "pfifo" else []
        return ["tc", "qdisc", "replace", "dev", device, "root", value, *limit]

    def command(self, value: str) -> str:
        """`tc qdisc`."""
        if value.startswith("default"):
            return f"tc qdisc delete dev {self.place.interface} root"
        return " ".join(self._words(value))

    def permanent(self, value: str) -> str | None:
        """The sysctl of the default discipline."""
        return f"a file in /etc/sysctl.d with the line: net.core.default_qdisc = {value}"

    def record(self) -> dict[str, str]:
        """The table that opens the setting again."""
        return {"kind": "qdisc"}
