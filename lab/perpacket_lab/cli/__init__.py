"""The lab's verbs of the command line: one file for each, a thin wrapper on the library.

    executors.py      where the simulated runs of a study are computed
    bars.py           bars of simulations and studies
    study_*.py        parts of `study`: its options, files, output, comparisons

`perpacket.cli` adds these verbs to its own if the lab is installed.
"""

from __future__ import annotations

import typer

from perpacket.cli.options import EXPLORE, MEASURE, REPEAT
from perpacket_lab.cli import application, demo, emulate, model, simulate, study_verbs, trace


def add_to(app: typer.Typer) -> None:
    """Add the lab's verbs to the command line."""
    simulate.add_to(app)
    app.add_typer(emulate.app, name="emulate", rich_help_panel=EXPLORE)
    app.add_typer(model.app, name="model", rich_help_panel=EXPLORE)
    app.add_typer(trace.app, name="trace", rich_help_panel=EXPLORE)
    demo.add_to(app)
    app.add_typer(study_verbs.app, name="study", rich_help_panel=REPEAT)
    app.add_typer(application.app, name="application", rich_help_panel=MEASURE)
