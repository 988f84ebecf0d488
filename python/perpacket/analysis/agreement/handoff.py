"""The gain of handing connections to the NIC: simulated, by partial handoff, and by LAWS.

Both models are computed from the simulation's own costs, without handoff and with few connections
on the NIC; for more connections they predict. The NIC's share of the work is its share of the
packets, as simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perpacket.analysis.agreement import costs
from perpacket.analysis.agreement.costs import SIMULATED
from perpacket.analysis.agreement.pairs import NOTABLY_IDLE, Axis
from perpacket.analysis.estimates import Rows
from perpacket.analysis.methods import MethodComparison, MethodValue
from perpacket.errors import ConfigurationError
from perpacket.models import handoff, laws
from perpacket.study.quantities import Row, number

QUESTION = "handoff"
TITLE = "Gain in requests by handoff"
PARTIAL = "partial handoff"
LAWS = "LAWS"

FEEDING = 512
"""Connections on the NIC of the run that feeds the models: so few that the NIC is not the limit, so
many that their costs show."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What one seed's runs without handoff and with few connections on the NIC say."""

    costs: handoff.Costs
    stack_share: float
    """Of the host's busy time without handoff."""
    lag: float
    """NIC's time for the stack's work over the host's (LAWS's alpha)."""


def fed(none: Row, few: Row) -> Fed | None:
    """The models' inputs; None where the runs have none that a machine can have."""
    share = number(few, "nic_packet_share")
    host = [costs.host_us(row) for row in (none, few)]
    nic = [costs.nic_us(row) for row in (none, few)]
    stack = costs.stack_share(none)
    if not share or stack is None or None in (*host, *nic):
        return None
    (host_us, host_few_us), (nic_us, nic_few_us) = host, nic
    assert host_us is not None
    assert host_few_us is not None
    assert nic_us is not None
    assert nic_few_us is not None
    saved_us, extra_us = (host_us - host_few_us) / share, (nic_few_us - nic_us) / share
    try:
        found = handoff.Costs(*(us / 1e6 for us in (host_us, saved_us, nic_us, extra_us)))
    except ConfigurationError:
        return None
    return Fed(found, stack, extra_us / (stack * host_us))


def compare(rows: Rows, names: Mapping[int, str]) -> list[MethodComparison]:
    """Every number of connections on the NIC: simulated beside either model.

    The one that feeds partial handoff is no prediction, and left out of it.
    """
    found = []
    for level in sorted(names)[1:]:
        axis = Axis(QUESTION, TITLE, f"{level:,} connections on the NIC", level)
        simulated = gain(rows, names, level)
        if level != FEEDING:
            partial = modelled(PARTIAL, rows, names, level)
            found.append(axis.beside(simulated, partial, _why_not_partial(rows, names, level)))
        offload = modelled(LAWS, rows, names, level)
        found.append(axis.beside(simulated, offload, _why_not_laws(rows.get(names[level], {}))))
    return found


def gain(rows: Rows, names: Mapping[int, str], level: int) -> MethodValue:
    """What was simulated, over no handoff with the same seed, in per cent."""
    none, own = names.get(0, ""), names.get(level, "")
    values = {}
    for seed in costs.seeds_of(rows, none, own):
        base, rate = (number(rows[name][seed], "requests_per_s") for name in (none, own))
        if base and rate is not None:
            values[seed] = 100 * (rate / base - 1)
    return MethodValue(SIMULATED, SIMULATED, values)


def modelled(model: str, rows: Rows, names: Mapping[int, str], level: int) -> MethodValue:
    """What a model says of a level, seed by seed, in per cent."""
    none, few, own = (names.get(n, "") for n in (0, FEEDING, level))
    values = {}
    for seed in costs.seeds_of(rows, none, few, own):
        inputs = fed(rows[none][seed], rows[few][seed])
        share = number(rows[own][seed], "nic_packet_share")
        if inputs is None or share is None:
            continue
        if model == PARTIAL:
            gained = handoff.gain(inputs.costs, share)
        else:
            gamma = laws.gamma_of_share(inputs.stack_share)
            gained = laws.offload(gamma, share, alpha=inputs.lag).gain
        values[seed] = 100 * float(gained)
    return MethodValue(model, SIMULATED, values)


def _why_not_partial(rows: Rows, names: Mapping[int, str], level: int) -> str:
    """Which assumption of partial handoff a run did not keep."""
    own = rows.get(names[level], {})
    if _of(own, "host_idle") > NOTABLY_IDLE:
        return f"that nothing queues: {_waiting(own)}"
    saved = [_saved_us(rows, names, at) for at in (FEEDING, level)]
    return (
        "that costs depend on nothing but where a connection is: the host saves "
        f"{saved[0]:.1f} us a request on the NIC at {FEEDING} connections, {saved[1]:.1f} us at "
        f"{level:,}"
    )


def _saved_us(rows: Rows, names: Mapping[int, str], level: int) -> float:
    """Host time saved a request that the NIC has, on average over the runs."""
    none, own = rows.get(names.get(0, ""), {}), rows.get(names.get(level, ""), {})
    share = _of(own, "nic_packet_share")
    saved_us = costs.mean_of(none, costs.host_us) - costs.mean_of(own, costs.host_us)
    return saved_us / share if share else 0.0


def _why_not_laws(rows: Mapping[int, Row]) -> str:
    """Which assumption of LAWS a run did not keep, by who had time left."""
    if _of(rows, "host_idle") > NOTABLY_IDLE:
        return (
            "that a NIC does nothing but what is offloaded: it also moves every frame of the "
            f"others; {_waiting(rows)}"
        )
    share = 100 * costs.mean_of(rows, lambda row: costs.share_of(row, ("bypass",)))
    return (
        "that handing work over costs the host nothing: commands and messages take "
        f"{share:.0f} % of its busy time"
    )


def _waiting(rows: Mapping[int, Row]) -> str:
    """Who waits for whom."""
    return (
        f"the NIC has {100 * _of(rows, 'nic_idle'):.0f} % of its time left and drops "
        f"{_of(rows, 'drops'):,.0f} packets, the host waits {100 * _of(rows, 'host_idle'):.0f} % "
        "of its own"
    )


def _of(rows: Mapping[int, Row], column: str) -> float:
    return costs.mean_of(rows, lambda row: number(row, column))
