"""Settings that can be read, written and restored: a module for each kind.

A change of the catalogue has a table `[setting]`, whose `kind` names a class of this package.
Values are text. `normal` converts a value into the form in which `read` returns it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol

from perpacket.advise.network_scope import NetworkScope
from perpacket.errors import ConfigurationError, RunFailed


class Setting(Protocol):
    """One setting that can be read and written.

    `read`, `check` and `write` raise `MachineLacks` if the machine lacks the setting or the right
    to it, `ConfigurationError` if the value is wrong, and `Gone` if the interface no longer exists.
    """

    scope: NetworkScope
    is_readable: bool
    """Whether `read` reports the present state; false for commands."""

    def title(self) -> str:
        """A name for people: `tx-tcp-segmentation of eth0`."""
        ...

    def read(self) -> str:
        """The present value."""
        ...

    def normal(self, value: str) -> str:
        """A value in the form that `read` returns."""
        ...

    def check(self, value: str) -> None:
        """Raise an error unless the value can be written, and the present one restored."""
        ...

    def write(self, value: str) -> None:
        """Set the value."""
        ...

    def command(self, value: str) -> str:
        """The shell command that sets the value."""
        ...

    def permanent(self, value: str) -> str | None:
        """Instructions to set the value at each start of the machine; None if impossible."""
        ...

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        ...


class Gone(RunFailed):
    """The interface or the namespace of a setting no longer exists."""


SEPARATOR = ";"
"""Separates the values of the parts of a setting, such as the queues of an interface, if the
values differ."""

MASK = "mask:"
"""Prefix of a mask; without it, `3` would be a list of processors."""


def parts(value: str) -> list[str]:
    """The value of each part; one for all if they are equal."""
    return value.removeprefix(MASK).split(SEPARATOR)


KINDS = {
    "ethtool-feature": "ethtool:Feature",
    "ethtool-coalesce": "ethtool:Coalescing",
    "ethtool-channels": "ethtool:Channels",
    "ethtool-rings": "ethtool:Rings",
    "sysctl": "files:Sysctl",
    "file": "files:FileValues",
    "file-mask": "files:Masks",
    "irq-affinity": "files:Affinity",
    "link-mtu": "link:Mtu",
    "link-largest-packet": "link:LargestPacket",
    "qdisc": "qdisc:Discipline",
    "route": "route:RouteAttribute",
    "nft-rules": "nft:Rules",
    "command": "commands:Command",
}
"""The module and class of each kind."""

BOTH_ENDS = ("link-mtu",)
"""Kinds of settings that must be the same at both ends of a link."""


def open(table: Mapping[str, str], scope: NetworkScope) -> Setting:  # noqa: A001 - as in gzip
    """The setting of a `[setting]` table; raises `ConfigurationError` for an unknown kind."""
    options = dict(table)
    kind = options.pop("kind", "")
    if kind not in KINDS:
        raise ConfigurationError(
            f"setting: kind {kind!r}: expected one of {', '.join(KINDS)}", parameter="kind"
        )
    module, _, name = KINDS[kind].partition(":")
    opener: Callable[..., Setting] = getattr(import_module(f"{__name__}.{module}"), name)
    return opener(scope, **options)
