"""`perpacket demo`: measure this machine and simulate an offload NIC."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import options, output, progress
from perpacket.cli.destination import check_destination, check_folder
from perpacket.cli.options import (
    ChartsOption,
    Format,
    FormatOption,
    PacketsOption,
    QuietOption,
    WarmupOption,
    WorkersOption,
    named_settings,
)
from perpacket_lab.cli import bars

if TYPE_CHECKING:
    from perpacket.analysis.statistics import Interval
    from perpacket_lab.demo import Demo
    from perpacket_lab.demo.advice import Advised
    from perpacket_lab.demo.live import Live
    from perpacket_lab.demo.simulated_handoff import HandoffCell

SCHEMA = 2
"""Version of the JSON this verb prints."""

HEADINGS = ("gain, %", "requests/s", "host idle, %", "NIC idle, %", "delay, us")
"""Short headings of the columns of `simulated_handoff`. The gain is that of requests/s over no
handoff; the delay is the median time that received host packets spend in the NIC."""

ADVICE_WIDTH = 100
"""The width of the advice, in columns."""

MOST_DECIMALS = 2
"""The greatest number of decimals in the table; more would not be accurate."""

EXAMPLE = "Example: perpacket demo --output handoff.html"


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("demo", epilog=EXAMPLE, rich_help_panel=options.REPEAT)(demo)


def demo(
    destination: Annotated[Path, typer.Option("--output", help="The HTML report.")] = Path(
        "perpacket-demo.html"
    ),
    charts: ChartsOption = None,
    live: Annotated[
        bool, typer.Option("--live/--no-live", help="Whether to measure this machine.")
    ] = True,
    workers: WorkersOption = None,
    warmup_packets: WarmupOption = None,
    packets: PacketsOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Measure a web server on this machine, simulate offloading its connections, and report.

    The last lines name the change that could make this machine's packets cheaper.
    """
    from perpacket_lab import demo as library
    from perpacket_lab.simulation import load_core

    check_destination("--output", destination)
    if charts is not None:
        check_folder("--charts", charts)
    load_core()  # report a missing simulator before a minute of measurements
    if live:
        progress.note(
            "Measuring this machine: a web server over loopback under three loads, with a profile. "
            "This needs no root.",
            quiet,
        )
    progress.note(
        "Simulating six configurations of a web server whose NIC can process connections, with a "
        "synthesized World Cup workload and five seeds each.",
        quiet,
    )
    with bars.of_study(quiet) as on_progress:
        demonstration = library.run(
            destination,
            measure=live,
            charts=charts,
            overrides=named_settings(run__warmup_packets=warmup_packets, run__packets=packets),
            workers=workers,
            on_progress=on_progress,
        )
    if output_format is Format.JSON:
        output.write_json(describe(demonstration))
    else:
        if demonstration.live is not None and demonstration.live.rows:
            print_live(demonstration.live)
        print_table(demonstration)
        print_advice(demonstration.advice)
    for note in (
        *(demonstration.live.notes if demonstration.live is not None else ()),
        *demonstration.simulated.notes,
    ):
        progress.note(f"note: {note}", quiet)
    if demonstration.charts:
        progress.note(f"charts: {len(demonstration.charts)} files in {charts}", quiet)
    progress.note(f"report: {demonstration.report}", quiet)


def print_live(live: Live) -> None:
    """Print a line for each number of connections: requests, latency, and each layer's cost."""
    from perpacket_lab.demo.live import LAYERS, study

    layers = [name for name in LAYERS if all(f"ns.{name}" in row for row in live.rows.values())]
    headings = ("connections", "requests/s", "p99, us", *layers)
    rows = [
        (
            str(connections),
            *(live_text(row.get(name)) for name in ("requests_per_s", "latency_us.service.p99")),
            *(live_text(row[f"ns.{name}"]) for name in layers),
        )
        for connections, row in live.rows.items()
    ]
    title = (
        "This machine: a 10 KB file over loopback; layers in ns of processor time per packet "
        "(frames sent and received),\n"
        f"each the mean of {len(study().seeds)} short windows with its 95 % interval."
    )
    output.write_table(title, headings, rows, right=headings)
    if any(OVER in cell for row in rows for cell in row):
        output.write_line(
            "Other work disturbed the windows: run the demo again on a quiet machine."
        )


OVER = "over 100 %"
"""Printed in place of a half-width that is greater than the value."""


def live_text(interval: Interval | None) -> str:
    """`1,890 ± 120`, or `1,890 ± over 100 %`; a dash without a measurement."""
    if interval is None:
        return "-"
    from perpacket.analysis.statistics import format_number

    side = interval.high - interval.value
    decimals = 0 if interval.value >= 10 else 1
    value = format_number(interval.value, decimals)
    if not interval.is_bounded:
        return value
    return f"{value} ± {OVER if side > interval.value else format_number(side, decimals)}"


def print_advice(advised: Advised | None) -> None:
    """Print the change most worth trying on this machine, and the result of its trial if any."""
    from perpacket.show import advice_tables, trial_tables

    first = None if advised is None else advised.report.to_try
    if advised is not None and first is not None:
        output.write_line("The change most worth trying on this machine, for `serve web`:")
        for line in advice_tables.entry(1, replace(first, command=""), ADVICE_WIDTH):
            output.write_line(line)
        if advised.trial is not None:
            output.write_line("     Tried in short windows, on a second server:")
            for line in trial_tables.wrapped(
                trial_tables.headline(advised.trial), ADVICE_WIDTH - 5
            ):
                output.write_line(f"     {line}")
        output.write_line(
            "For your server: `perpacket advise --pid PID`, then `perpacket trial CHANGE`."
        )


def print_table(demonstration: Demo) -> None:
    """Print two lines for each configuration: published numbers, then simulated ones."""
    from perpacket_lab.demo.simulated_handoff import POLICIES

    rows: list[tuple[str, ...]] = []
    for name, cells in demonstration.simulated.rows.items():
        rows.append((name, "paper", *(paper_text(cell) for cell in cells)))
        rows.append((f"  {POLICIES[name]}", "simulated", *(simulated_text(cell) for cell in cells)))
    title = (
        "Connection handoff: published, and simulated with 95 % intervals "
        "(c: used to calibrate the simulator).\n"
        "gain: requests/s over no handoff; delay: median time of received host packets in the NIC."
    )
    output.write_table(title, ("configuration", "", *HEADINGS), rows, right=HEADINGS)


def paper_text(cell: HandoffCell) -> str:
    """`23,031 c`; a dash where nothing is published."""
    if cell.published is None:
        return "-"
    from perpacket.analysis.statistics import number_text

    return number_text(cell.published) + (" c" if cell.calibration else "")


def simulated_text(cell: HandoffCell) -> str:
    """`23,102 ± 310`, with the wider side of an asymmetric interval."""
    from perpacket.analysis.statistics import format_number

    interval = cell.simulated
    if interval is None:
        return "-"
    decimals = min(interval.decimals, MOST_DECIMALS)
    value = format_number(interval.value, decimals)
    if not interval.is_bounded:
        return value
    side = max(interval.high - interval.value, interval.value - interval.low)
    return f"{value} ± {format_number(side, decimals)}"


def describe(demonstration: Demo) -> dict[str, object]:
    """The demo as a JSON document."""
    from perpacket.show import advice_tables, trial_tables

    tried = None if demonstration.advice is None else demonstration.advice.trial
    live = demonstration.live
    return {
        "schema": SCHEMA,
        "report": str(demonstration.report),
        "live": None
        if live is None
        else {
            "rows": [
                {"connections": n, **{name: value.as_dict() for name, value in row.items()}}
                for n, row in live.rows.items()
            ],
            "notes": list(live.notes),
        },
        "advice": None
        if demonstration.advice is None
        else advice_tables.document(demonstration.advice.report),
        "trial": None if tried is None else trial_tables.effects_document(tried.effects),
        "rows": [
            {
                "configuration": name,
                **{
                    cell.quantity: {
                        "unit": cell.unit,
                        "published": cell.published,
                        "calibration": cell.calibration,
                        "simulated": None if cell.simulated is None else cell.simulated.as_dict(),
                    }
                    for cell in row
                },
            }
            for name, row in demonstration.simulated.rows.items()
        ],
        "notes": list(demonstration.simulated.notes),
    }
