"""A table of nftables rules that match no packet: a known cost in the path of every packet."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar

from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings.refusals import refusals
from perpacket.errors import ConfigurationError, MachineLacks

T = TypeVar("T")

TABLE = "perpacket_trial"

HOOKS = {1: "input", 3: "output"}
"""The hooks for packets of local sockets (include/uapi/linux/netfilter.h). The table has a chain
for each, with the hook's name."""

NETLINK_NETFILTER, NFNL_SUBSYS_NFTABLES = 12, 10
"""The protocol, and its part for nftables (include/uapi/linux/netfilter/nfnetlink.h)."""

NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END = 16, 17
"""The kernel carries out all messages between these two, or none."""

NLM_F_REQUEST, NLM_F_ACK = 0x1, 0x4
NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x200, 0x400, 0x800
"""Flags of include/uapi/linux/netlink.h."""

SO_SNDBUFFORCE = 32
"""The option for a large send buffer, because thousands of rules exceed the default buffer."""

LONGEST_S = 10.0
"""Time limit of a batch; the kernel needs less."""

NEVER = "192.0.2.1"
"""A documentation address (RFC 5737), which no packet has as its source."""

ACCEPT = 1
"""NF_ACCEPT of include/uapi/linux/netfilter.h: the chain's policy and the verdict of its rules."""

NFPROTO_IPV4 = 2


class Rules:
    """A setting for the number of these rules at each hook; with 0 rules there is no table."""

    is_readable = True

    def __init__(self, scope: NetworkScope) -> None:
        """The rules of the scope's namespace."""
        self.scope = scope

    def title(self) -> str:
        """The table."""
        return f"nftables rules of table ip {TABLE}"

    def read(self) -> str:
        """The number of rules at each hook."""
        return str(self._call("", _count))

    def normal(self, value: str) -> str:
        """The value unchanged, because numbers have only one form."""
        return value

    def check(self, value: str) -> None:
        """Raise an error if the value is not a number, rights are missing or the table exists."""
        if not value.isdigit():
            raise ConfigurationError(f"{self.title()} = {value}: expected a number", value=value)
        # This read fails without the right to write.
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
            return self.scope.inside(inside)

    def command(self, value: str) -> str:
        """Hooks and rules as text for `nft`; perpacket sends them by netlink."""
        if value == "0":
            return self.scope.shell(f"nft delete table ip {TABLE}")
        rules = f"for n in $(seq {value}); do echo 'ip saddr {NEVER} accept'; done"
        chain = f'echo "chain $hook {{ type filter hook $hook priority 0;"; {rules}; echo "}}"'
        hooks = f"for hook in {' '.join(HOOKS.values())}; do {chain}; done"
        return self.scope.shell(f"{{ echo 'table ip {TABLE} {{'; {hooks}; echo '}}'; }} | nft -f -")

    def permanent(self, value: str) -> str | None:
        """None, because a known cost is never permanent."""
        return None

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": "nft-rules"}


def _present(tables: Any) -> bool:
    return any(table.get_attr("NFTA_TABLE_NAME") == TABLE for table in tables.get_tables())


def _count(tables: Any) -> int:
    own = [
        rule.get_attr("NFTA_RULE_CHAIN")
        for rule in tables.get_rules()
        if rule.get_attr("NFTA_RULE_TABLE") == TABLE
    ]
    counts = {own.count(hook) for hook in HOOKS.values()}
    # If somebody else added a rule, the hooks have different numbers or a rule is in another
    # chain.
    return max(counts) if len(counts) == 1 and len(own) == 2 * max(counts) else len(own)


def _replace(tables: Any, count: int) -> None:
    """Remove the table if it exists; unless `count` is 0, make it with that many rules at once."""
    if _present(tables):
        tables.table("del", name=TABLE)
    if count:
        send_batch(list(_messages(count)))


def _messages(count: int) -> Iterator[Any]:
    """The messages that make the table, its chains and their rules."""
    from pyroute2.netlink.nfnetlink import nftsocket
    from pyroute2.nftables.expressions import ipv4addr, verdict

    create = NLM_F_REQUEST | NLM_F_CREATE
    yield _message(
        nftsocket.nft_table_msg,
        nftsocket.NFT_MSG_NEWTABLE,
        create | NLM_F_EXCL,
        [("NFTA_TABLE_NAME", TABLE)],
    )
    expressions = [*ipv4addr(src=NEVER), *verdict(code=ACCEPT)]
    for number, hook in HOOKS.items():
        point = [("NFTA_HOOK_HOOKNUM", number), ("NFTA_HOOK_PRIORITY", 0)]
        yield _message(
            nftsocket.nft_chain_msg,
            nftsocket.NFT_MSG_NEWCHAIN,
            create,
            [
                ("NFTA_CHAIN_TABLE", TABLE),
                ("NFTA_CHAIN_NAME", hook),
                ("NFTA_CHAIN_HOOK", {"attrs": point}),
                ("NFTA_CHAIN_TYPE", "filter"),
                ("NFTA_CHAIN_POLICY", ACCEPT),
            ],
        )
        for _ in range(count):
            yield _message(
                nftsocket.nft_rule_msg,
                nftsocket.NFT_MSG_NEWRULE,
                create | NLM_F_APPEND,
                [
                    ("NFTA_RULE_TABLE", TABLE),
                    ("NFTA_RULE_CHAIN", hook),
                    ("NFTA_RULE_EXPRESSIONS", expressions),
                ],
            )


def _message(kind: Any, number: int, flags: int, attributes: list[tuple[str, object]]) -> Any:
    message = kind()
    message["header"]["type"] = NFNL_SUBSYS_NFTABLES << 8 | number
    message["header"]["flags"] = flags
    message["nfgen_family"] = NFPROTO_IPV4
    message["attrs"] = attributes
    return message


def send_batch(messages: list[Any]) -> None:
    """Send messages that the kernel carries out together or not at all.

    The batches of pyroute2 0.9 send each message by itself. Raises `OSError` with the kernel's
    first error.
    """
    from pyroute2.netlink.nfnetlink import nfgen_msg

    edges = []
    for number in (NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END):
        edge = nfgen_msg()
        edge["header"]["type"], edge["header"]["flags"] = number, NLM_F_REQUEST
        edge["res_id"] = NFNL_SUBSYS_NFTABLES
        edges.append(edge)
    messages[-1]["header"]["flags"] |= NLM_F_ACK
    content = b""
    for sequence, message in enumerate((edges[0], *messages, edges[1])):
        message["header"]["sequence_number"] = sequence
        message.encode()
        content += bytes(message.data)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as channel:
        channel.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 2 * len(content))
        channel.settimeout(LONGEST_S)
        channel.send(content)
        # A message of type NLMSG_ERROR: a header of 16 bytes, then 0 or the error, negative.
        (number,) = struct.unpack_from("=i", channel.recv(65536), 16)
    if number:
        raise OSError(-number, os.strerror(-number))
