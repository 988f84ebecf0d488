"""Settings that are files of the kernel: sysctls, and masks and numbers in sysfs and procfs."""

from __future__ import annotations

import os
import re
from glob import glob
from pathlib import Path

from perpacket.advise import kernel_texts
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings import MASK, SEPARATOR
from perpacket.advise.settings.refusals import refusals
from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.measure import cpu_lists

CONGESTION_CONTROL = "net.ipv4.tcp_congestion_control"

AVAILABLE_CONTROLS = "/proc/sys/net/ipv4/tcp_available_congestion_control"

ALLOWED_CONTROLS = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
"""The congestion controls that a namespace other than the first accepts (net/ipv4/tcp_cong.c)."""


def controls(scope: NetworkScope) -> tuple[list[str], list[str]]:
    """The congestion controls that the kernel has, and those that the namespace accepts."""
    available, allowed = scope.inside(
        lambda: [Path(file).read_text().split() for file in (AVAILABLE_CONTROLS, ALLOWED_CONTROLS)]
    )
    return available, available if scope.is_first else allowed


class FileValues:
    """One value in every file that a pattern matches; `{interface}` is the scope's interface.

    Several patterns, with spaces between them, can have values of their own, separated by `;`.
    """

    kind = "file"
    is_readable = True

    def __init__(self, scope: NetworkScope, path: str) -> None:
        """The files of the scope's namespace."""
        if "{interface}" in path:
            scope.check_interface()
        self.scope, self.pattern = scope, path

    def title(self) -> str:
        """The path."""
        return self.pattern.replace("{interface}", self.scope.interface)

    def paths(self) -> list[str]:
        """The files, inside the namespace; raises `MachineLacks` without any."""
        found = [path for pattern in self.title().split() for path in sorted(glob(pattern))]
        if not found:
            raise MachineLacks(f"{self.title()}: there is no such file on this machine")
        return found

    def read(self) -> str:
        """The value of all files, or, if they differ, the value of each, separated by `;`."""

        def inside() -> list[str]:
            return [" ".join(Path(path).read_text().split()) for path in self.paths()]

        with refusals(self.title()):
            values = self.scope.inside(inside)
        return values[0] if len(set(values)) == 1 else SEPARATOR.join(values)

    def normal(self, value: str) -> str:
        """The value with single spaces between numbers, as `read` returns it."""
        return " ".join(value.split())

    def written(self, value: str) -> str:
        """The text that is written for a value."""
        return self.normal(value)

    def check(self, value: str) -> None:
        """Write the present value over itself; raises an error if that fails."""
        self.write(self.read())

    def write(self, value: str) -> None:
        """Write the value, or each part to its file."""
        parts = self.written(value).split(SEPARATOR)

        def inside() -> None:
            paths = self.paths()
            values = parts if len(parts) == len(paths) else parts * len(paths)
            for path, each in zip(paths, values, strict=False):
                descriptor = os.open(path, os.O_WRONLY)
                try:
                    os.write(descriptor, each.encode() + b"\n")
                finally:
                    os.close(descriptor)

        with refusals(self.title(), value):
            self.scope.inside(inside)

    def command(self, value: str) -> str:
        """A shell loop over the files."""
        parts, patterns = value.split(SEPARATOR), self.title().split()
        if len(parts) == len(patterns) > 1:
            pairs = zip(parts, patterns, strict=True)
            return self.scope.shell("; ".join(f"echo {part} > {path}" for part, path in pairs))
        echo = f"echo '{value}' > $file"
        return self.scope.shell(f"for file in {self.title()}; do {echo}; done")

    def permanent(self, value: str) -> str | None:
        """A line of tmpfiles.d(5)."""
        patterns = self.title().split()
        parts = value.split(SEPARATOR)
        values = parts if len(parts) == len(patterns) else [value] * len(patterns)
        lines = [f"w {path} - - - - {part}" for path, part in zip(patterns, values, strict=True)]
        return f"a file in /etc/tmpfiles.d with the line: {', and: '.join(lines)}"

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": self.kind, "path": self.pattern}


class Sysctl(FileValues):
    """A sysctl by its name, such as `net.ipv4.tcp_autocorking`."""

    kind = "sysctl"

    def __init__(self, scope: NetworkScope, name: str) -> None:
        """The sysctl of the scope's namespace."""
        super().__init__(scope, f"/proc/sys/{name.replace('.', '/')}")
        self.name = name

    def title(self) -> str:
        """The name."""
        return self.name

    def paths(self) -> list[str]:
        """The one file; raises `MachineLacks` without it."""
        if not os.path.exists(self.pattern):
            raise MachineLacks(f"sysctl {self.name}: this kernel or namespace does not have it")
        return [self.pattern]

    def check(self, value: str) -> None:
        """Also raise an error for text instead of numbers, and for unusable congestion controls."""
        present = self.read()
        if self.name == CONGESTION_CONTROL:
            self._check_control(value, present)
        elif present and all(map(is_number, present.split())):
            words, count = value.split(), len(present.split())
            if len(words) != count or not all(map(is_number, words)):
                expected = "a number" if count == 1 else f"{count} numbers"
                raise ConfigurationError(
                    f"{self.name} = {value}: expected {expected}, as in {present}", value=value
                )
        super().check(value)

    def _check_control(self, value: str, present: str) -> None:
        """Raise an error unless the namespace accepts both the new and the present control."""
        available, accepted = controls(self.scope)
        if value not in available:
            raise ConfigurationError(
                f"{self.name} = {value}: expected one of {', '.join(available)}", value=value
            )
        for control in (value, present):
            if control not in accepted:
                problem = "could not be restored" if control == present else "is not accepted"
                listed = ", ".join(accepted)
                raise MachineLacks(
                    f"{self.name}: {control} {problem}: the namespace accepts {listed}",
                    "add it to net.ipv4.tcp_allowed_congestion_control of the machine",
                )

    def write(self, value: str) -> None:
        """Write the value.

        In the first namespace, the kernel also adds a written congestion control to the allowed
        ones. This method restores the list of allowed ones.
        """
        if self.name != CONGESTION_CONTROL or not self.scope.is_first:
            super().write(value)
            return
        allowed = Path(ALLOWED_CONTROLS)
        before = allowed.read_text()
        super().write(value)
        if allowed.read_text() != before:
            with refusals(str(allowed), before.strip()):
                allowed.write_text(before)

    def command(self, value: str) -> str:
        """`sysctl -w`."""
        return self.scope.shell(f"sysctl -w {self.name}='{value}'")

    def permanent(self, value: str) -> str | None:
        """A line of sysctl.d(5)."""
        return f"a file in /etc/sysctl.d with the line: {self.name} = {value}"

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": "sysctl", "name": self.name}


class Masks(FileValues):
    """Masks of processors; a value is `all`, `none`, a CPU list such as `0,2-3`, or a mask."""

    kind = "file-mask"

    def normal(self, value: str) -> str:
        """The mask as the kernel writes it: groups of eight digits."""
        if SEPARATOR in value or value.startswith(MASK):
            return value
        try:
            named = {"all": list(range(os.cpu_count() or 1)), "none": []}
            return MASK + mask_of(named[value] if value in named else cpu_lists.numbers(value))
        except ValueError:
            raise ConfigurationError(
                f"{self.title()} = {value}: expected all, none or a list such as 0,2-3", value=value
            ) from None

    def read(self) -> str:
        """The mask with the prefix `MASK`."""
        found = super().read()
        return found if SEPARATOR in found else MASK + found

    def written(self, value: str) -> str:
        """The mask without its prefix."""
        return self.normal(value).removeprefix(MASK)

    def check(self, value: str) -> None:
        """Raise an error if the value is not a list of processors or the rights are missing."""
        self.normal(value)
        super().check(value)

    def command(self, value: str) -> str:
        """A shell loop over the files, with the mask."""
        return super().command(self.written(value))


class Affinity(FileValues):
    """The processors of an interface's interrupts, as lists such as `0-3`.

    `spread` gives each interrupt a processor of its own, as far as there are enough.
    """

    kind = "irq-affinity"

    def __init__(self, scope: NetworkScope) -> None:
        """The interrupts of the scope's interface."""
        super().__init__(scope, "/sys/class/net/{interface}/device/msi_irqs")

    def title(self) -> str:
        """The interrupts of the interface."""
        return f"processors of the interrupts of {self.scope.interface}"

    def paths(self) -> list[str]:
        """The files of the lists; raises `MachineLacks` if the interface has no interrupts."""
        folder = self.pattern.replace("{interface}", self.scope.interface)
        numbers = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        if not numbers:  # Some drivers register their vectors without the device's list.
            device = os.path.basename(os.path.realpath(os.path.dirname(folder)))
            names = [self.scope.interface, device] if os.path.isdir(os.path.dirname(folder)) else []
            text = Path("/proc/interrupts").read_text()
            numbers = kernel_texts.interrupt_numbers(text, names)
        if not numbers:
            raise MachineLacks(f"{self.scope.interface} has no interrupts of its own")
        return [f"/proc/irq/{number}/smp_affinity_list" for number in numbers]

    def normal(self, value: str) -> str:
        """The lists, one for each interrupt if they differ."""
        if value != "spread":
            return super().normal(value)
        cpus = sorted(os.sched_getaffinity(0))
        count = len(self.scope.inside(self.paths))
        lists = [str(cpus[number % len(cpus)]) for number in range(count)]
        return lists[0] if len(set(lists)) == 1 else SEPARATOR.join(lists)

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": self.kind}


def is_number(word: str) -> bool:
    """Whether a word is a whole number."""
    return word.removeprefix("-").isdecimal()


def mask_of(cpus: list[int]) -> str:
    """A mask in the kernel's form, with a bit for each possible processor (lib/bitmap-str.c)."""
    number = sum(1 << cpu for cpu in cpus)
    possible = Path("/sys/devices/system/cpu/possible").read_text().strip()
    width = int(re.split("[,-]", possible)[-1]) + 1
    groups = []
    while width > 0:
        bits = min(32, width)
        groups.append(f"{number & 0xFFFF_FFFF:0{-(-bits // 4)}x}")
        number >>= 32
        width -= 32
    return ",".join(reversed(groups))
