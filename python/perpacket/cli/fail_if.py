"""The end of a comparison by its rules (`--fail-if`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from perpacket.cli import progress
from perpacket.cli.failure import CheckFailed, ExitStatus

if TYPE_CHECKING:
    from perpacket.analysis.profile_comparison import Decision, JudgedRule


def end_by_rules(judged: Sequence[JudgedRule], quiet: bool, hint: str) -> None:
    """Raise `CheckFailed` for a broken rule, and exit for an undecided one; else return.

    `hint` names what decides an undecided rule.
    """
    from perpacket.analysis import profile_comparison, ratios
    from perpacket.show import comparison_tables as shown

    by_decision: dict[Decision, list[str]] = {}
    for one in judged:
        # An interval that is too wide for the table still shows why the rule is undecided.
        ratio = one.ratio
        value = shown.ratio_text(ratio) if ratio.value is None else ratios.ratio_text(ratio)
        text = f"{one.rule}: it is {value}"
        by_decision.setdefault(one.decision, []).append(text)
    if broken := by_decision.get(profile_comparison.Decision.BROKEN):
        raise CheckFailed("; ".join(broken))
    if undecided := by_decision.get(profile_comparison.Decision.UNDECIDED):
        progress.note(f"undecided: {'; '.join(undecided)}; {hint}", quiet)
        raise typer.Exit(ExitStatus.UNDECIDED)
