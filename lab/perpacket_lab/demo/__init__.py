"""The demo: it measures this machine and simulates an offload NIC, without root.

`live.py` measures `perpacket serve web` on this machine at three numbers of connections.
`advice.py` finds the change that could make the server's packets cheaper, and tries this change.
`simulated_handoff.py` simulates the gain of handing connections to the NIC, beside the published
figures. One report has the measurement and the simulation.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perpacket.errors import Interrupted, RunFailed
from perpacket_lab.demo import advice, live, simulated_handoff
from perpacket_lab.demo.advice import Advised
from perpacket_lab.demo.live import Live
from perpacket_lab.demo.simulated_handoff import SimulatedHandoff
from perpacket_lab.run.progress import ProgressFunction

UNFINISHED_HINT = "`perpacket study run` stores finished runs and can be resumed"
"""The hint of a demo that did not finish."""


@dataclass(frozen=True, slots=True)
class Demo:
    """The results of the demo."""

    live: Live | None
    """None if nothing was measured."""
    advice: Advised | None
    """None if nothing was measured."""
    simulated: SimulatedHandoff
    report: Path
    charts: tuple[Path, ...]


def run(
    destination: Path,
    *,
    measure: bool = True,
    charts: Path | None = None,
    overrides: Sequence[tuple[str, str]] = (),
    workers: int | None = None,
    on_progress: ProgressFunction | None = None,
) -> Demo:
    """Measure and simulate, write the report to `destination` and return the tables.

    `measure` is false to omit the measurement. `charts` is the folder for the charts as SVG and
    PNG, with a folder for each part. `overrides` and `workers` apply to the simulation. On a
    machine that cannot be measured, `live` has the reason and the simulation still runs. Raises
    what `perpacket_lab.run.start.run` raises; an interrupted demo writes no file.
    """
    from perpacket_lab.show import html

    with tempfile.TemporaryDirectory(prefix="perpacket-demo-") as folder:
        try:
            measured = live.run(Path(folder) / "live", on_progress) if measure else None
            can_advise = measured is not None and measured.has_layers
            advised = advice.run(live.FILE_BYTES) if can_advise else None
            simulated = simulated_handoff.run(
                Path(folder) / "handoff", overrides, workers, on_progress
            )
        except Interrupted:
            raise Interrupted(
                "interrupted: the demo stores no results", hint=UNFINISHED_HINT
            ) from None
        except RunFailed as error:
            raise RunFailed(str(error), hint=UNFINISHED_HINT) from error
        analyses = [simulated.analysis]
        if measured is not None and measured.analysis is not None:
            analyses.insert(0, measured.analysis)
        files = [
            file
            for analysis in analyses
            for file in (
                html.write_charts(analysis, charts / analysis.study.name) if charts else ()
            )
        ]
        return Demo(
            measured, advised, simulated, html.write_several(analyses, destination), tuple(files)
        )
