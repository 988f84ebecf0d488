"""The gain of handing connections to the NIC: simulated, and by two models.

The models are partial handoff and LAWS (`models/`). Their inputs are the simulated costs
without handoff and with few connections on the NIC. They predict the gain with more connections.
The NIC's share of the work is its simulated share of the packets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perpacket.errors import ConfigurationError
from perpacket_lab.analysis.agreement import costs
from perpacket_lab.analysis.agreement.costs import SIMULATED
from perpacket_lab.analysis.agreement.scenario import NOTABLY_IDLE, ComparedScenario
from perpacket_lab.analysis.methods import MethodComparison, MethodValue
from perpacket_lab.models import handoff, laws
from perpacket_lab.study.quantities import Row, Rows, number

CHECK = "handoff"
TITLE = "Gain in requests by handoff"
PARTIAL = "partial handoff"
LAWS = "LAWS"

INPUT_CONNECTIONS = 512
"""Connections on the NIC in the run that is an input of the models: few enough that the NIC is not
the limit, and enough to show the costs of handoff."""


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """The inputs of the models, from the runs of one seed."""

    costs: handoff.Costs
    stack_share: float
    """The stack's share of the host's busy time without handoff."""
    lag_ratio: float
    """The NIC's time for the stack's work, divided by the host's time for it (alpha of LAWS)."""


def model_inputs(none: Row, few: Row) -> ModelInputs | None:
    """The inputs from a run without handoff and one with few connections on the NIC.

    None if the costs are impossible for a real machine.
    """
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
        inputs = handoff.Costs(*(us / 1e6 for us in (host_us, saved_us, nic_us, extra_us)))
    except ConfigurationError:
        return None
    return ModelInputs(inputs, stack, extra_us / (stack * host_us))


def compare(rows: Rows, names: Mapping[int, str]) -> list[MethodComparison]:
    """For each number of connections on the NIC: simulated and both models.

    Partial handoff has no prediction for the run that is its input.
    """
    comparisons = []
    for level in sorted(names)[1:]:
        scenario = ComparedScenario(CHECK, TITLE, f"{level:,} connections on the NIC", level)
        simulated = gain(rows, names, level)
        if level != INPUT_CONNECTIONS:
            partial = modelled(PARTIAL, rows, names, level)
            comparisons.append(
                scenario.compare(simulated, partial, _why_not_partial(rows, names, level))
            )
        offload = modelled(LAWS, rows, names, level)
        comparisons.append(
            scenario.compare(simulated, offload, _why_not_laws(rows.get(names[level], {})))
        )
    return comparisons


def gain(rows: Rows, names: Mapping[int, str], level: int) -> MethodValue:
    """The simulated gain over no handoff with the same seed, in per cent."""
    none, own = names.get(0, ""), names.get(level, "")
    values = {}
    for seed in costs.seeds_of(rows, none, own):
        base, rate = (number(rows[name][seed], "requests_per_s") for name in (none, own))
        if base and rate is not None:
            values[seed] = 100 * (rate / base - 1)
    return MethodValue(SIMULATED, SIMULATED, values)


def modelled(model: str, rows: Rows, names: Mapping[int, str], level: int) -> MethodValue:
    """The gain that a model predicts at a level, by seed, in per cent."""
    none, few, own = (names.get(n, "") for n in (0, INPUT_CONNECTIONS, level))
    values = {}
    for seed in costs.seeds_of(rows, none, few, own):
        inputs = model_inputs(rows[none][seed], rows[few][seed])
        share = number(rows[own][seed], "nic_packet_share")
        if inputs is None or share is None:
            continue
        if model == PARTIAL:
            gained = handoff.gain(inputs.costs, share)
        else:
            gamma = laws.gamma_of_share(inputs.stack_share)
            gained = laws.offload(gamma, share, alpha=inputs.lag_ratio).gain
        values[seed] = 100 * float(gained)
    return MethodValue(model, SIMULATED, values)


def _why_not_partial(rows: Rows, names: Mapping[int, str], level: int) -> str:
    """The assumption of partial handoff that a run violates."""
    own = rows.get(names[level], {})
    if _mean(own, "host_idle") > NOTABLY_IDLE:
        return f"that no packet waits in a queue: {_waiting(own)}"
    saved = [_saved_us(rows, names, at) for at in (INPUT_CONNECTIONS, level)]
    return (
        "that costs depend only on the owner of a connection: the host saves "
        f"{saved[0]:.1f} us per request on the NIC at {INPUT_CONNECTIONS} connections, "
        f"{saved[1]:.1f} us at {level:,}"
    )


def _saved_us(rows: Rows, names: Mapping[int, str], level: int) -> float:
    """The host time saved per request on the NIC, on average over the runs."""
    none, own = rows.get(names.get(0, ""), {}), rows.get(names.get(level, ""), {})
    share = _mean(own, "nic_packet_share")
    saved_us = costs.mean_of(none, costs.host_us) - costs.mean_of(own, costs.host_us)
    return saved_us / share if share else 0.0


def _why_not_laws(rows: Mapping[int, Row]) -> str:
    """The assumption of LAWS that a run violates; idle time shows which."""
    if _mean(rows, "host_idle") > NOTABLY_IDLE:
        return (
            "that the NIC does only offloaded work: it also moves every frame of the other "
            f"connections; {_waiting(rows)}"
        )
    share = 100 * costs.mean_of(rows, lambda row: costs.share_of(row, ("bypass",)))
    return (
        "that handoff has no cost on the host: commands and messages use "
        f"{share:.0f} % of its busy time"
    )


def _waiting(rows: Mapping[int, Row]) -> str:
    """The idle time of the host and of the NIC."""
    return (
        f"the NIC is idle for {100 * _mean(rows, 'nic_idle'):.0f} % and drops "
        f"{_mean(rows, 'drops'):,.0f} packets, the host is idle for "
        f"{100 * _mean(rows, 'host_idle'):.0f} %"
    )


def _mean(rows: Mapping[int, Row], column: str) -> float:
    return costs.mean_of(rows, lambda row: number(row, column))
