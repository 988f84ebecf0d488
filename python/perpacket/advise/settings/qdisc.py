"""The queueing discipline at the root of an interface."""

from __future__ import annotations

import json
from pathlib import Path

from perpacket.advise.network_scope import NetworkScope, in_empty_namespace
from perpacket.advise.settings import iproute
from perpacket.errors import ConfigurationError, MachineLacks

DEFAULT_KIND = Path("/proc/sys/net/core/default_qdisc")
"""The kind that the kernel chooses for devices with a queue."""


class Discipline:
    """The kind of the root discipline. Only the kernel's default can be restored."""

    is_readable = True

    def __init__(self, scope: NetworkScope) -> None:
        """The discipline of the scope's interface."""
        scope.check_interface()
        self.scope = scope

    def title(self) -> str:
        """The setting and its interface."""
        return f"queueing discipline of {self.scope.interface}"

    def _root(self) -> tuple[str, bool]:
        """The kind, and whether the kernel chose it."""
        command = ["tc", "-j", "qdisc", "show", "dev", self.scope.interface]
        found = json.loads(iproute.run(self.scope, command, self.title()) or "[]")
        for one in found:
            if one.get("root"):
                return str(one["kind"]), one.get("handle", "0:") == "0:"
        return "noqueue", True

    def read(self) -> str:
        """The kind; `default KIND` if the kernel chose it."""
        kind, is_default = self._root()
        return f"default {kind}" if is_default else kind

    def normal(self, value: str) -> str:
        """The value unchanged, because kinds have only one form."""
        return value

    def check(self, value: str) -> None:
        """Raise an error if the present discipline cannot be restored or the new one is missing.

        The options of a discipline that somebody configured could not be restored exactly. The new
        kind is tried and removed.
        """
        kind, is_default = self._root()
        if not is_default:
            raise MachineLacks(
                f"{self.title()}: {kind} was configured, and its options could not be restored",
                "remove it, or use `--do` and `--undo` with commands of your own",
            )
        chosen = DEFAULT_KIND.read_text().strip()
        if kind not in ("noqueue", "mq", chosen):
            raise MachineLacks(
                f"{self.title()}: {kind} could not be restored: the kernel would choose {chosen}",
                f"set net.core.default_qdisc to {kind} first",
            )
        if value.startswith("default"):
            return
        # Only an attempt shows whether the kernel has the kind.
        trial = f"queueing discipline {value}"
        try:
            in_empty_namespace(lambda: iproute.run(NetworkScope(), words_of(value, "lo"), trial))
        except ConfigurationError as error:
            raise MachineLacks(
                f"{self.title()}: this kernel does not have {value} ({error})"
            ) from error
        self.write(f"default {kind}")

    def write(self, value: str) -> None:
        """Replace the root discipline, or remove it so that the kernel's default returns."""
        iproute.run(self.scope, self._words(value), f"{self.title()} = {value}")

    def _words(self, value: str) -> list[str]:
        device = self.scope.interface
        if value.startswith("default"):
            if self._root()[1]:
                return ["true"]
            return ["tc", "qdisc", "delete", "dev", device, "root"]
        return words_of(value, device)

    def command(self, value: str) -> str:
        """`tc qdisc`."""
        if value.startswith("default"):
            return self.scope.shell(f"tc qdisc delete dev {self.scope.interface} root")
        return self.scope.shell(" ".join(words_of(value, self.scope.interface)))

    def permanent(self, value: str) -> str | None:
        """The sysctl of the default discipline."""
        return f"a file in /etc/sysctl.d with the line: net.core.default_qdisc = {value}"

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": "qdisc"}


def words_of(kind: str, device: str) -> list[str]:
    """The command that replaces a device's root discipline."""
    limit = ["limit", "1000"] if kind == "pfifo" else []
    return ["tc", "qdisc", "replace", "dev", device, "root", kind, *limit]
