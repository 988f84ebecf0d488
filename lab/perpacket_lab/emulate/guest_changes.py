"""Changes of the catalogue on the emulated machine.

A change is an option of the server, an option of the kernel's command line, or a command that the
guest runs before its server starts. The setting of the change supplies the command. Both sides of a
comparison have the same files and load the same modules, and one side carries out the change.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from perpacket.advise import catalogue, servers, settings
from perpacket.advise.catalogue import Change, InGuest
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.trial import NOTHING
from perpacket.errors import ConfigurationError
from perpacket_lab.emulate.kernel import Kernel, more_modules
from perpacket_lab.emulate.settings import Scenario

SERVERS = {"nginx": servers.NGINX, "web": servers.SERVE_WEB}
"""The catalogue's name of each server of a scenario that has options there."""

PROGRAMS = {"ethtool": "ethtool", "nft": "nftables"}
"""Programs of commands that the guest does not have, with Debian's packages."""

OWN_PROGRAMS = 'PATH=/host:$PATH; ip() { /host/ip "$@"; }; tc() { /host/tc "$@"; }; '
"""Finds the programs of this machine. The guest's shell prefers its own `ip` and `tc`, which have
fewer options, to those in PATH."""

FOLDER = "changes"
"""The folder of the guest with the modules, and with `order`, the order of loading."""

SERVER_CARD, CLIENT_CARD = "eth0", "eth1"

OFFLOADS = ("tso", "gso", "gro")
"""Changes that a scenario makes by itself, unless it has the option --offloads."""

LIMITED = ("tso", "gso")
"""Offloads that have no effect without --offloads, because packets then have one segment."""


class GuestScope(NetworkScope):
    """A card of the guest, which this machine need not have."""

    def check_interface(self) -> None:
        """Accept the card: the guest's init has checked it."""


@dataclass(frozen=True, slots=True)
class GuestChange:
    """A change in the guest: one of the three texts is not empty, except for `nothing`."""

    text: str
    commands: tuple[str, ...] = ()
    """Shell commands; `$inside` runs a command on the side of the clients."""
    server_option: str = ""
    kernel_option: str = ""
    modules: tuple[str, ...] = ()
    """The modules that the commands need, unless they are built in."""
    processors: int = 1
    """The least number of the server's processors."""

    @classmethod
    def of(cls, text: str, scenario: Scenario) -> GuestChange:
        """The change of a text such as `tso=off`; raises `ConfigurationError`."""
        if text == NOTHING:
            return cls(text)
        if option := option_of(text, scenario):
            return cls(text, server_option=option)
        change, guest, value = catalogue.find_in_guest(text)
        check_offload(text, change.name, value, scenario)
        modules = tuple(name.replace("{value}", value) for name in guest.modules)
        if guest.kernel_option:
            return cls(text, kernel_option=guest.kernel_option.replace("{value}", value))
        commands = commands_of(change, guest, value)
        return cls(text, commands, modules=modules, processors=guest.processors)

    def check_processors(self, processors: int) -> None:
        """Raise `ConfigurationError` if the server has too few processors for the change."""
        if processors < self.processors:
            raise ConfigurationError(
                f"{self.text}: the change needs {self.processors} processors of the server, and it "
                f"has {processors}",
                parameter="--change",
                value=self.text,
                hint=f"add --processors {self.processors} --queues {self.processors}",
            )

    @property
    def programs(self) -> set[str]:
        """The programs of the commands that the guest does not have."""
        words = " ".join(self.commands).replace("'", " ").split()
        return {name for name in PROGRAMS if name in words}


def commands_of(change: Change, guest: InGuest, value: str) -> tuple[str, ...]:
    """The commands of `[guest]`, or those of the setting."""
    if guest.command:
        command = guest.command.replace("{value}", value)
        return (in_shell("", command.replace("{interface}", SERVER_CARD)),)
    assert change.setting is not None
    cards = {"": SERVER_CARD}
    if change.setting["kind"] in settings.BOTH_ENDS:
        cards["$inside "] = CLIENT_CARD
    return tuple(
        in_shell(inside, settings.open(change.setting, GuestScope(card)).command(value))
        for inside, card in cards.items()
    )


def in_shell(inside: str, command: str) -> str:
    """A command for the guest's shell, which `inside` may put on the side of the clients."""
    return f"{inside}sh -ec {shlex.quote(OWN_PROGRAMS + command)}"


def option_of(text: str, scenario: Scenario) -> str:
    """The option of the scenario's server for a change; empty if it is no option of it."""
    name, _, value = text.partition("=")
    change = catalogue.load().get(name)
    kind = SERVERS.get(scenario.server, "")
    if change is None or kind not in change.server:
        return ""
    change, value = catalogue.find(text)
    return change.option(kind, value) or ""


def check_offload(text: str, name: str, value: str, scenario: Scenario) -> None:
    """Raise `ConfigurationError` if an offload has this value already, or none."""
    if name not in OFFLOADS:
        return
    if (value == "on") == scenario.offloads:
        raise ConfigurationError(
            f"{text}: the setting has this value already",
            parameter="--change",
            value=text,
            hint=""
            if scenario.offloads
            else "--offloads leaves TSO, GSO and GRO on, as the driver sets them",
        )
    if value == "on" and name in LIMITED:
        raise ConfigurationError(
            f"{text}: without --offloads, all packets of the emulated machine have one segment",
            parameter="--change",
            value=text,
            hint=f"compare with the other value: --offloads --change {name}=off",
        )


def modules_of(changes: Iterable[GuestChange], kernel: Kernel) -> tuple[tuple[str, bytes], ...]:
    """The modules that some changes need, in the order of loading."""
    names = dict.fromkeys(name for change in changes for name in change.modules)
    return more_modules(kernel, tuple(names), every_module())


def every_module() -> list[str]:
    """The modules of all changes of the catalogue."""
    return [
        name.replace("{value}", value)
        for change in catalogue.load().values()
        if change.guest is not None
        for name in change.guest.modules
        for value in change.values or [""]
    ]
