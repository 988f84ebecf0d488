"""The demonstration: measure this machine and simulate an offload NIC, without root.

`live.py` measures our web server on this machine at three numbers of connections. `advice.py`
finds the change that could make its packets cheaper, and tries it. `handoff.py` simulates what
handing connections to the NIC gains, beside the published figures. The measurement and the
simulation go into one report.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perpacket.demo import advice, handoff, live
from perpacket.demo.advice import Advised
from perpacket.demo.handoff import Story
from perpacket.demo.live import Live
from perpacket.errors import Interrupted, RunFailed
from perpacket.run.simulated_runs import ProgressFunction

KEEPING = "`perpacket study run` keeps finished runs and can be resumed"
"""The hint of a demo that did not finish."""


@dataclass(frozen=True, slots=True)
class Demo:
    """The results of the demo; `live` is None where the measurement was left out."""

    live: Live | None
    advice: Advised | None
    """None where nothing was measured."""
    story: Story
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

    `measure` is false to leave out the measurement. `charts` is the folder for the charts as SVG
    and PNG, those of each part in a folder of its own. `overrides` and `workers` apply to the
    simulation. On a machine that cannot be measured, `live` has the reason and the simulation still
    runs. Raises what `perpacket.run.start.run` raises; an interrupted demo writes nothing.
    """
    from perpacket.show import html

    with tempfile.TemporaryDirectory(prefix="perpacket-demo-") as folder:
        try:
            measured = live.run(Path(folder) / "live", on_progress) if measure else None
            can_advise = measured is not None and measured.has_layers
            advised = advice.run(live.FILE_BYTES) if can_advise else None
            story = handoff.run(Path(folder) / "handoff", overrides, workers, on_progress)
        except Interrupted:
            raise Interrupted("interrupted: the demo keeps nothing", hint=KEEPING) from None
        except RunFailed as error:
            raise RunFailed(str(error), hint=KEEPING) from error
        analyses = [story.analysis]
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
            measured, advised, story, html.write_several(analyses, destination), tuple(files)
        )
