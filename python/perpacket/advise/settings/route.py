"""An attribute of the routes through an interface, such as `quickack` or `initcwnd`."""

from __future__ import annotations

from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings import SEPARATOR, iproute
from perpacket.errors import ConfigurationError, MachineLacks

UNSET = "0"


class RouteAttribute:
    """A numeric attribute of the main table's IPv4 routes through the interface; 0 if unset."""

    is_readable = True

    def __init__(self, scope: NetworkScope, attribute: str) -> None:
        """The attribute, by its name in ip-route(8)."""
        scope.check_interface()
        self.scope, self.attribute = scope, attribute

    def title(self) -> str:
        """The attribute and the interface."""
        return f"{self.attribute} of the routes of {self.scope.interface}"

    def _routes(self) -> list[list[str]]:
        """The words of each route; raises `MachineLacks` without any."""
        command = ["ip", "-4", "route", "show", "dev", self.scope.interface]
        lines = iproute.run(self.scope, command, self.title()).splitlines()
        found = [line.split() for line in lines if line.strip()]
        if not found:
            raise MachineLacks(f"{self.title()}: the interface has no route")
        return found

    def read(self) -> str:
        """The value of all routes, or, if they differ, the value of each, separated by `;`."""
        values = [_value(words, self.attribute) for words in self._routes()]
        return values[0] if len(set(values)) == 1 else SEPARATOR.join(values)

    def normal(self, value: str) -> str:
        """The value unchanged, because numbers have only one form."""
        return value

    def check(self, value: str) -> None:
        """Raise an error if the value is not a number or the rights are missing."""
        if not value.isdigit():
            raise ConfigurationError(f"{self.title()} = {value}: expected a number", value=value)
        self.write(self.read())

    def write(self, value: str) -> None:
        """Change every route."""
        routes = self._routes()
        parts = value.split(SEPARATOR)
        values = parts if len(parts) == len(routes) else parts * len(routes)
        for words, each in zip(routes, values, strict=False):
            iproute.run(self.scope, self._words(words, each), f"{self.title()} = {value}")

    def _words(self, route: list[str], value: str) -> list[str]:
        own = [word for word in _without(route, self.attribute) if word != "linkdown"]
        added = [] if value == UNSET else [self.attribute, value]
        return ["ip", "-4", "route", "change", *own, "dev", self.scope.interface, *added]

    def command(self, value: str) -> str:
        """`ip route change` for each route."""
        routes = self._routes()
        parts = value.split(SEPARATOR)
        values = parts if len(parts) == len(routes) else parts * len(routes)
        pairs = zip(routes, values, strict=False)
        return self.scope.shell("; ".join(" ".join(self._words(*pair)) for pair in pairs))

    def permanent(self, value: str) -> str | None:
        """A hint at the network's configuration, which differs between distributions."""
        return f"in the network's configuration, add to the route: {self.attribute} {value}"

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": "route", "attribute": self.attribute}


def _value(words: list[str], attribute: str) -> str:
    return words[words.index(attribute) + 1] if attribute in words else UNSET


def _without(words: list[str], attribute: str) -> list[str]:
    if attribute not in words:
        return words
    at = words.index(attribute)
    return words[:at] + words[at + 2 :]
