"""The main job on embedded defaults, in about two minutes and without root.

`live.py` measures this machine: a server of ours, a load, a profile, at three numbers of
connections. `handoff.py` simulates what handing connections to the NIC would gain, beside what was
published. Both go into one report.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perpacket.demo import handoff, live
from perpacket.demo.handoff import Story
from perpacket.demo.live import Live
from perpacket.errors import Interrupted, RunFailed
from perpacket.run.simulated_runs import ProgressFunction

KEEPING = "`perpacket study run` keeps what is finished and can be resumed"
"""What to do when a demo that did not end was worth something."""


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo gave. `live` is None where it was left out."""

    live: Live | None
    story: Story
    report: Path


def run(
    destination: Path,
    *,
    measure: bool = True,
    overrides: Sequence[tuple[str, str]] = (),
    workers: int | None = None,
    on_progress: ProgressFunction | None = None,
) -> Demo:
    """Measure and simulate, write the report to `destination` and return the tables.

    `measure` says whether to measure this machine; `overrides` and `workers` are those of the
    simulation. A machine that cannot be measured is said so in `live`, and the simulation goes on.
    Raises what `perpacket.run.start.run` raises; an interrupted demo leaves nothing.
    """
    from perpacket.show import html

    with tempfile.TemporaryDirectory(prefix="perpacket-demo-") as folder:
        try:
            measured = live.run(Path(folder) / "live", on_progress) if measure else None
            story = handoff.run(Path(folder) / "handoff", overrides, workers, on_progress)
        except Interrupted:
            raise Interrupted("interrupted: the demo keeps nothing", hint=KEEPING) from None
        except RunFailed as error:
            raise RunFailed(str(error), hint=KEEPING) from error
        analyses = [story.analysis]
        if measured is not None and measured.analysis is not None:
            analyses.insert(0, measured.analysis)
        return Demo(measured, story, html.write_several(analyses, destination))
