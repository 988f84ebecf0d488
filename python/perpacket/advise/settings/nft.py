"""A table of nftables rules that match no packet: a known cost in the path of every packet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from perpacket.advise.place import Place
from perpacket.advise.settings.refusals import refusals
from perpacket.errors import ConfigurationError, MachineLacks

T = TypeVar("T")

TABLE = "perpacket_trial"

HOOKS = ("input", "output")
"""The hooks that see the packets of local sockets; each has a chain of its name."""

NEVER = "192.0.2.1"
"""A source address that no packet has: a documentation address of RFC 5737."""

ACCEPT = 1
"""NF_ACCEPT of include/uapi/linux/netfilter.h: the chain's policy and the verdict of its rules."""

NFPROTO_IPV4 = 2


class Rules:
    """The number of such rules at each hook; without rules there is no table."""

    is_readable = True

    def __init__(self, place: Place) -> None:
        """The rules of the place's namespace."""
        self.place = place

    def title(self) -> str:
        """The table."""
        return f"nftables rules of table ip {TABLE}"

    def read(self) -> str:
        """The number of rules at each hook."""
        return str(self._call("", _count))

    def normal(self, value: str) -> str:
        """Numbers have one form."""
        return value

    def check(self, value: str) -> None:
        """Refuse what is no number, and a lack of rights."""
        if not value.isdigit():
            raise ConfigurationError(f"{self.title()} = {value}: expected a number", value=value)
        # Reading needs the same right as writing.
        if self._call("", _present):
            raise MachineLacks(
                f"{self.title()}: the table exists already",
                f"remove it if nothing uses it: {self.command('0')}",
            )

    def write(self, value: str) -> None:
        """Replace the table."""
        self._call(value, lambda tables: _replace(tables, int(value)))

    def _call(self, value: str, function: Callable[[Any], T]) -> T:
        def inside() -> T:
            from pyroute2.nftables.main import NFTables

            with closing(NFTables(nfgen_family=NFPROTO_IPV4)) as tables:
                return function(tables)

        with refusals(self.title(), value):
            return self.place.inside(inside)

    def command(self, value: str) -> str:
        """`nft`, for one hook and one rule."""
        if value == "0":
            return self.place.shell(f"nft delete table ip {TABLE}")
        rule = f"nft add rule ip {TABLE} HOOK ip saddr {NEVER} accept"
        chain = f"nft add chain ip {TABLE} HOOK '{{ type filter hook HOOK priority 0; }}'"
        hooks = " and ".join(HOOKS)
        return f"nft add table ip {TABLE}; for HOOK {hooks}: {chain}; {value} times: {rule}"

    def permanent(self, value: str) -> str | None:
        """A known cost is not kept."""
        return None

    def record(self) -> dict[str, str]:
        """The table that opens the setting again."""
        return {"kind": "nft-rules"}


def _present(tables: Any) -> bool:
    return any(table.get_attr("NFTA_TABLE_NAME") == TABLE for table in tables.get_tables())


def _count(tables: Any) -> int:
    own = [
        rule.get_attr("NFTA_RULE_CHAIN")
        for rule in tables.get_rules()
        if rule.get_attr("NFTA_RULE_TABLE") == TABLE
    ]
    counts = {own.count(hook) for hook in HOOKS}
    # A rule of somebody else makes the hooks differ, or is in a chain of its own.
    return max(counts) if len(counts) == 1 and len(own) == 2 * max(counts) else len(own)


def _replace(tables: Any, count: int) -> None:
    from pyroute2.nftables.expressions import ipv4addr, verdict

    if _present(tables):
        tables.table("del", name=TABLE)
    if not count:
        return
    tables.begin()
    tables.table("add", name=TABLE)
    for hook in HOOKS:
        tables.chain("add", table=TABLE, name=hook, hook=hook, type="filter", policy=ACCEPT)
        for _ in range(count):
            rule = (ipv4addr(src=NEVER), verdict(code=ACCEPT))
            tables.rule("add", table=TABLE, chain=hook, expressions=rule)
    tables.commit()
