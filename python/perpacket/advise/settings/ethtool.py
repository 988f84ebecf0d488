"""Settings of an interface, as in ethtool(8): features, coalescing, channels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, TypeVar

from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings.refusals import refusals
from perpacket.errors import ConfigurationError, MachineLacks

T = TypeVar("T")

SWITCHES = {"on": True, "off": False}


class _Interface:
    """A setting of an interface, read and written by pyroute2's ethtool."""

    is_readable = True
    shown = ""
    """The name of the setting in messages."""

    def __init__(self, scope: NetworkScope) -> None:
        """A setting of the scope's interface."""
        scope.check_interface()
        self.scope = scope

    def title(self) -> str:
        """The setting and its interface."""
        return f"{self.shown} of {self.scope.interface}"

    def normal(self, value: str) -> str:
        """The value unchanged, because values have only one form."""
        return value

    def permanent(self, value: str) -> str | None:
        """Instructions to run the command at each start of the machine.

        They name no systemd.link(5) file, because it has other names for the settings.
        """
        return (
            "run at each start, for example from a unit of systemd or a file in "
            f"/etc/network/if-up.d: {self.command(value)}"
        )

    def command(self, value: str) -> str:
        """The shell command that sets the value."""
        raise NotImplementedError

    def call(self, value: str, function: Callable[[Any], T]) -> T:
        """Call `function` with an ethtool inside the namespace."""

        def inside() -> T:
            from pyroute2.ethtool import Ethtool

            with closing(Ethtool()) as ethtool:
                return function(ethtool)

        with refusals(self.title(), value):
            return self.scope.inside(inside)


class Feature(_Interface):
    """A feature by its name in `ethtool -k`, such as `tx-tcp-segmentation`: `on` or `off`."""

    def __init__(self, scope: NetworkScope, feature: str) -> None:
        """The feature of the scope's interface."""
        super().__init__(scope)
        self.feature = self.shown = feature

    def read(self) -> str:
        """`on` or `off`."""
        return self.call("", lambda ethtool: "on" if self._entry(ethtool)[1].enable else "off")

    def check(self, value: str) -> None:
        """Raise an error for other values, for a fixed feature, or if the rights are missing."""
        if value not in SWITCHES:
            raise ConfigurationError(f"{self.title()} = {value}: expected on or off", value=value)

        def changeable(ethtool: Any) -> bool:
            return bool(self._entry(ethtool)[1].available)

        if self.read() != value and not self.call("", changeable):
            raise MachineLacks(f"{self.title()}: the driver does not permit a change (fixed)")
        self.write(self.read())

    def write(self, value: str) -> None:
        """Switch the feature."""

        def switch(ethtool: Any) -> None:
            features, entry = self._entry(ethtool)
            entry.enable = SWITCHES[value]
            # If another feature prevents the change, the kernel only stores the request, and
            # pyroute2 raises an error.
            with suppress(NotSupportedError):
                ethtool.set_features(self.scope.interface, features)

        from pyroute2.ethtool.ioctl import NotSupportedError

        self.call(value, switch)

    def command(self, value: str) -> str:
        """`ethtool -K`."""
        return self.scope.shell(f"ethtool -K {self.scope.interface} {self.feature} {value}")

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": "ethtool-feature", "feature": self.feature}

    def _entry(self, ethtool: Any) -> tuple[Any, Any]:
        features = ethtool.get_features(self.scope.interface)
        entry = features.features.get(self.feature)
        if entry is None:
            raise MachineLacks(f"{self.scope.interface} has no feature {self.feature}")
        return features, entry


class _Parameter(_Interface):
    """A number in a group of parameters, such as `rx-usecs` of the coalescing."""

    group = flag = ""

    def __init__(self, scope: NetworkScope, parameter: str) -> None:
        """The parameter of the scope's interface, by its name in ethtool(8)."""
        super().__init__(scope)
        self.parameter = self.shown = parameter

    @property
    def attribute(self) -> str:
        """The name of the parameter in pyroute2."""
        raise NotImplementedError

    def read(self) -> str:
        """The number; raises `MachineLacks` if the driver does not have it."""

        def value(ethtool: Any) -> object:
            found = getattr(ethtool, f"get_{self.group}")(self.scope.interface)
            numbers = found if isinstance(found, dict) else found._asdict()
            return numbers.get(self.attribute)

        found = self.call("", value)
        if found is None:
            raise MachineLacks(f"{self.title()}: the driver does not report it")
        return str(found)

    def check(self, value: str) -> None:
        """Raise an error if the value is not a number or the rights are missing."""
        if not value.isdigit():
            raise ConfigurationError(f"{self.title()} = {value}: expected a number", value=value)
        self.check_range(value)
        self.write(self.read())

    def check_range(self, value: str) -> None:
        """Raise an error for a number that the driver does not accept."""

    def check_most(self, value: str, most: str) -> None:
        """Raise an error for 0, or for more than the driver's attribute `most`."""

        def largest_of(ethtool: Any) -> int:
            return int(getattr(getattr(ethtool, f"get_{self.group}")(self.scope.interface), most))

        largest = self.call("", largest_of)
        if not largest:
            raise MachineLacks(f"{self.title()}: the driver has none of these queues")
        if not 1 <= int(value) <= largest:
            raise ConfigurationError(
                f"{self.title()} = {value}: expected 1 to {largest}", value=value
            )

    def write(self, value: str) -> None:
        """Set the number."""

        def change(ethtool: Any) -> None:
            numbers = {self.attribute: int(value)}
            getattr(ethtool, f"set_{self.group}")(self.scope.interface, numbers)

        self.call(value, change)

    def command(self, value: str) -> str:
        """`ethtool -C` or `ethtool -L`."""
        interface = self.scope.interface
        return self.scope.shell(f"ethtool {self.flag} {interface} {self.parameter} {value}")

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": f"ethtool-{self.group}", "parameter": self.parameter}


class Coalescing(_Parameter):
    """Interrupt coalescing: `ethtool -C`."""

    group, flag = "coalesce", "-C"

    @property
    def attribute(self) -> str:
        """The name in struct ethtool_coalesce: `rx_coalesce_usecs` of `rx-usecs`."""
        if self.parameter.endswith("-frames"):
            return f"{self.parameter.removesuffix('-frames')}_max_coalesced_frames"
        if self.is_switch:
            return f"use_{self.parameter.replace('-', '_')}_coalesce"
        way, _, rest = self.parameter.partition("-")
        return f"{way}_coalesce_{rest.replace('-', '_')}"

    @property
    def is_switch(self) -> bool:
        """Whether the parameter is `on` or `off`, such as `adaptive-rx`."""
        return self.parameter.startswith("adaptive-")

    def read(self) -> str:
        """The number, or `on` or `off`."""
        found = super().read()
        return ("off" if found == "0" else "on") if self.is_switch else found

    def check(self, value: str) -> None:
        """Raise an error for a wrong value, or if the rights are missing."""
        if not self.is_switch:
            super().check(value)
        elif value not in SWITCHES:
            raise ConfigurationError(f"{self.title()} = {value}: expected on or off", value=value)
        else:
            self.write(self.read())

    def write(self, value: str) -> None:
        """Set the number or the switch."""
        super().write(str(int(SWITCHES[value])) if self.is_switch else value)


class Channels(_Parameter):
    """The number of queues: `ethtool -L`."""

    group, flag = "channels", "-L"

    def check_range(self, value: str) -> None:
        """Raise an error for no queue, or for more queues than the driver has."""
        self.check_most(value, f"max_{self.parameter}")

    @property
    def attribute(self) -> str:
        """`combined_count` or, for the most, `max_combined` in struct ethtool_channels."""
        if self.parameter.startswith("max-"):
            return self.parameter.replace("-", "_")
        return f"{self.parameter}_count"


class Rings(_Parameter):
    """The number of buffers of a ring: `ethtool -G`."""

    group, flag = "rings", "-G"

    def check_range(self, value: str) -> None:
        """Raise an error for no buffer, or for more than the driver has."""
        self.check_most(value, f"{self.parameter}_max")

    @property
    def attribute(self) -> str:
        """`rx` or, for the most, `rx_max`, as in struct ethtool_ringparam."""
        if self.parameter.startswith("max-"):
            return f"{self.parameter.removeprefix('max-')}_max"
        return self.parameter
