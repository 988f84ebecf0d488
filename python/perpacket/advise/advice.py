"""Advice: the changes that apply, ranked by their bounds, and the others with reasons."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from perpacket import server_cost
from perpacket.advise import bounds, catalogue, expression, limit, limit_sources, servers
from perpacket.advise.catalogue import Change, Direction
from perpacket.advise.expression import NotReadable
from perpacket.advise.facts import Facts
from perpacket.advise.limit_kinds import Limit
from perpacket.advise.profile import Profile
from perpacket.errors import RunFailed

if TYPE_CHECKING:
    from perpacket.advise.bounds import Bound
    from perpacket.advise.observation import Observation

LEAST_NETWORK = 0.01
"""The least share of communication in a profile without a named server. With less, the busy
programs are no servers."""

SMALLEST_SHARE = 0.001
"""A change that can remove less of the processor time is not worth a trial."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that is worth trying."""

    change: Change
    value: str
    interface: str
    evidence: str
    bound: Bound | None
    """The bound; None if the profile does not show what the change can remove."""
    no_bound: str
    """The reason why there is no bound."""
    command: str
    """The command that tries the change, or measures the cost that it would remove.

    Empty if neither is possible.
    """
    relieves: bool = False
    """Whether the change moves what limits the traffic."""

    @property
    def risk(self) -> str:
        """What may become worse."""
        return self.change.risk.text

    @property
    def rank(self) -> tuple[bool, float, float, int]:
        """The key of the ranking, largest first.

        Changes that move the limit come before all others, then the bound decides, and then the
        lower end of its interval. Changes without a bound have a precedence.
        """
        share = self.bound.share if self.bound is not None else None
        value, low = (share.value, share.low) if share is not None else (0.0, 0.0)
        return self.relieves, value, low, self.change.precedence


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A change that is not worth trying, or could not be judged."""

    change: Change
    interface: str
    reason: str
    is_unread: bool = False
    """Whether a fact could not be read."""
    source: str = ""
    """The command or file that shows the missing fact; empty if the reason names none."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that `perpacket advise` found."""

    advice: tuple[Advice, ...]
    not_applicable: tuple[NotApplicable, ...]
    interfaces: tuple[str, ...]
    server: str
    window_s: float
    samples: int
    notes: tuple[str, ...]
    path_share: float = 1.0
    """The share of samples that are on the packet's path.

    All other shares are shares of these samples.
    """
    limit: Limit | None = None
    """What limits the traffic; None for a stored profile."""
    files: tuple[tuple[str, str], ...] = ()
    """The files of another machine, with what was recognized in each."""
    unknown: tuple[str, ...] = ()
    """The files that were not recognized."""
    kinds: Mapping[str, float] = field(default_factory=dict)
    """The shares of the kinds of work that no setting of the network removes."""

    @property
    def first(self) -> Advice | None:
        """The change most worth trying; None if none applies."""
        return self.advice[0] if self.advice else None

    @property
    def to_try(self) -> Advice | None:
        """The first change that a trial can apply; None if there is none."""
        return next((one for one in self.advice if one.change.action == "try"), None)


def advise(seen: Observation, changes: Mapping[str, Change] | None = None) -> Report:
    """Judge every change of the catalogue; raises `RunFailed` if the profile shows no cost.

    A server that waits for a shaper or for its clients may be idle, and the report names the limit.
    """
    what_limits = limit.of(seen)
    doubts: tuple[str, ...] = ()
    if what_limits is None or not what_limits.is_elsewhere:
        try:
            require_load(seen)
        except RunFailed as doubt:
            if not seen.is_case:
                raise
            # The counters and settings of the files can be judged in any case.
            doubts = (str(doubt),)
            if seen.profile.too_few_samples:
                seen = replace(seen, profile=Profile({}))
    found = catalogue.load() if changes is None else changes
    judged = [judge(seen, change, name) for change, name in _questions(seen, found)]
    applies = [one for one in judged if isinstance(one, Advice)]
    server = seen.server.kind if seen.server is not None else ""
    document = seen.profile.document
    limits = document.get("limits")
    samples = document.get("samples")
    return Report(
        tuple(sorted(applies, key=lambda one: one.rank, reverse=True)),
        tuple(one for one in judged if isinstance(one, NotApplicable)),
        seen.interfaces,
        server,
        0.0 if seen.profile.is_missing else seen.profile.window_s,
        samples if isinstance(samples, int) else 0,
        (*(map(str, limits) if isinstance(limits, list) else ()), *doubts),
        seen.profile.path_share,
        what_limits,
        seen.files,
        seen.unknown,
        _kinds(seen),
    )


KINDS = {
    "crypto": ("aesni_*", "aes_gcm_*", "gcm_*", "chacha20_*", "chacha_*", "poly1305_*", "ChaCha20*",
               "Poly1305*", "crypto/internal/fips140/aes*", "crypto/aes*", "ossl_gcm_*",
               "EVP_EncryptUpdate", "EVP_DecryptUpdate", "vpaes_*", "aes_v8_*", "rustls::*",
               "ring_core_*", "aws_lc_*"),
    "dma": (),
    "probe": (),
}  # fmt: skip
"""The kinds of work that have a row of their own, with functions of programs that do it too."""

LEAST_KIND = 0.05
"""The least share of a kind that advice mentions."""


def _kinds(seen: Observation) -> dict[str, float]:
    """The shares of these kinds of work, the kernel's and that of programs."""
    found: dict[str, float] = {}
    rows = seen.profile.table("layer_kinds")
    for kind, functions in KINDS.items():
        tables = [row for row in rows.values() if isinstance(row, Mapping)]
        share = sum(float(row.get(kind, 0.0)) for row in tables)
        with contextlib.suppress(NotReadable):
            share = max(share, seen.profile.chains(functions).share if functions else 0.0)
        if share >= LEAST_KIND:
            found[kind] = share
    return found


def require_load(seen: Observation) -> None:
    """Raise `RunFailed` if the server is idle, or other programs use most of the time."""
    cost = None if seen.profile.is_missing else seen.profile.cost
    if cost is None:
        return
    cost.require_load("the profile")
    if few := seen.profile.too_few_samples:
        raise RunFailed(f"the profile: {few}", server_cost.HINT)
    if seen.pid is None and cost.network_share < LEAST_NETWORK:
        raise RunFailed(
            f"the profile: {100 * cost.network_share:.1f} % of the busy time is communication, and "
            f"no server was named; expected {100 * LEAST_NETWORK:g} % or more",
            server_cost.HINT,
        )


def _questions(seen: Observation, changes: Mapping[str, Change]) -> Iterator[tuple[Change, str]]:
    """Each change with each interface that it concerns, or once with an empty interface."""
    names: Sequence[str] = seen.interfaces or ("",)
    for change in changes.values():
        for name in names if concerns_interface(change) else names[:1]:
            yield change, name


def concerns_interface(change: Change) -> bool:
    """Whether the change concerns one interface."""
    if change.setting is None:
        return False
    kind = change.setting["kind"]
    per_machine = ("sysctl", "file", "nft-rules")
    return kind not in per_machine or "{interface}" in change.setting.get("path", "")


def judge(seen: Observation, change: Change, interface: str) -> Advice | NotApplicable:
    """Whether a change applies on an interface."""
    facts = Facts(seen, change, interface)
    named = interface if concerns_interface(change) else ""
    unread = seen.profile.too_few_samples
    if not unread and concerns_interface(change) and not interface:
        unread = "no interface carried packets"
    if unread:
        return NotApplicable(change, named, unread, is_unread=True)
    try:
        reason = _excluded(change, facts)
        if reason:
            return NotApplicable(change, named, reason)
        direction = _direction(change, facts)
        if direction is not None:
            return _advice(change, direction, facts, named)
        assert change.evidence is not None
        if lacks := limit_sources.missing(change.evidence.relieves, seen):
            raise lacks
        return NotApplicable(change, named, change.evidence.otherwise.format_map(facts))
    except NotReadable as missing:
        return NotApplicable(change, named, str(missing), True, missing.source)
    except (ArithmeticError, ValueError) as error:
        if not seen.is_case:
            raise
        reason = f"a file has a number that no kernel counts: {error}"
        return NotApplicable(change, named, reason, True)


def _excluded(change: Change, facts: Facts) -> str:
    """The reason why a change does not apply; empty if it does.

    Without a server, an option of servers still has the directions whose evidence is elsewhere.
    """
    evidence = change.evidence
    if evidence is None:
        return change.never_suggested
    server = facts.seen.server
    if change.server and server is None:
        return ""
    if change.server and server is not None and server.kind not in change.server:
        return f"the server is {server.kind}: it has no such option"
    for one in evidence.excluded:
        if expression.evaluate(one.when, facts, facts.functions):
            return one.text.format_map(facts)
    return ""


def _direction(change: Change, facts: Facts) -> Direction | None:
    """The first direction for which there is evidence; None without any.

    Raises `NotReadable` if no direction has evidence, and that of one could not be read.
    """
    missing: NotReadable | None = None
    if change.server and facts.seen.server is None:
        known, named = " or ".join(change.server), facts.no_server
        missing = NotReadable(f"it is an option of {known}, and {named}")
    for direction in change.directions:
        try:
            if expression.evaluate(direction.when, facts, facts.functions):
                return direction
        except NotReadable as reason:
            missing = missing or reason
    if missing is not None:
        raise missing
    return None


def _advice(
    change: Change, direction: Direction, facts: Facts, interface: str
) -> Advice | NotApplicable:
    assert change.evidence is not None
    text = direction.text.format_map(facts)
    if facts.is_fixed:
        return NotApplicable(change, interface, f"{text}, and its driver allows no other value")
    bound: Bound | None = None
    no_bound = ""
    removes = direction.bound or change.bound
    if removes.removable == "0":
        no_bound = "the change removes no work: it spreads or delays work, or moves a limit"
    try:
        bound = (
            None
            if no_bound
            else bounds.of(
                removes,
                facts.seen.profile,
                lambda text: expression.number(text, facts, facts.functions),
            )
        )
    except NotReadable as missing:
        no_bound = str(missing)
    value = direction.suggest.format_map(facts)
    relieves = facts["limit"] in change.evidence.relieves
    if not relieves and bound is not None and bound.share.value < SMALLEST_SHARE:
        share = 100 * SMALLEST_SHARE
        reason = f"{text}, but it can remove less than {share:g} % of processor time"
        return NotApplicable(change, interface, reason)
    command = _command(change, value, facts, interface)
    return Advice(change, value, interface, text, bound, no_bound, command, relieves)


def _command(change: Change, value: str, facts: Facts, interface: str) -> str:
    """The command that tries the change, or measures the cost that it would remove."""
    pid = "" if facts.seen.pid is None else f" --pid {facts.seen.pid}"
    if change.action == "advise":
        try:
            return change.price.format_map(facts) + pid if change.price else ""
        except NotReadable:
            return ""
    words = shlex.quote(f"{change.name}={value}")
    server = facts.seen.server
    if change.server and (server is None or server.kind not in (servers.NGINX, servers.SERVE_WEB)):
        return ""  # there is no second server to try the option on
    if change.server and facts.seen.is_case:
        return ""  # the server is on the other machine
    place = f" --interface {interface}" if interface else ""
    load = f" --url {facts.seen.url or 'URL'}" if change.server else ""
    return f"perpacket trial {words}{place}{pid}{load}"
