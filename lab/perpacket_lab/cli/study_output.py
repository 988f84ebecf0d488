"""The output of `perpacket study run`, `resume`, `rerun` and `report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perpacket.cli import output, progress
from perpacket.cli.failure import CheckFailed
from perpacket.cli.options import Format
from perpacket.errors import ConfigurationError, RunFailed

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis


def conclude(analysis: Analysis, destination: Path, form: Format, quiet: bool) -> None:
    """Write the report and print the results; raises an error if runs failed."""
    from perpacket_lab.show import html, json, terminal

    check_observed(analysis)
    written = html.write(analysis, destination)
    if form is Format.JSON:
        output.write_json(json.analysis(analysis, written))
    else:
        tables = terminal.tables_of(analysis)
        if not tables:
            progress.note("note: these points have no published values", quiet)
        for table in tables:
            output.write_rows(table)
    for note in analysis.notes:
        progress.note(f"note: {note}", quiet)
    progress.note(f"report: {written}", quiet)
    check_complete(analysis)


def check_observed(analysis: Analysis) -> None:
    """Raise an error with the reason when a run has no observation."""
    run = analysis.run
    if run.observed:
        return
    if run.failures:
        raise RunFailed(
            f"every run failed, the first one: {run.failures[0].reason}",
            hint=f"correct that, then `perpacket study resume {run.path}`",
        )
    raise ConfigurationError(
        f"{run.path} has no observation yet",
        parameter="directory",
        value=str(run.path),
        hint=f"run it with `perpacket study resume {run.path}`",
    )


def check_complete(analysis: Analysis) -> None:
    """Raise an error when runs failed, or their packets do not balance."""
    from perpacket_lab.simulation import REPORT_HINT

    run = analysis.run
    if run.failures:
        named = ", ".join(f"{failure.point} block {failure.seed}" for failure in run.failures)
        raise RunFailed(
            f"{len(run.failures)} of {run.planned} runs failed: {named}; "
            f"the first one: {run.failures[0].reason}",
            hint=f"`perpacket study resume {run.path}` repeats them",
        )
    lost = [f"{point} seed {seed}" for point, seed in analysis.unbalanced]
    if lost:
        raise CheckFailed(f"packets do not balance in {', '.join(lost)}", hint=REPORT_HINT)
