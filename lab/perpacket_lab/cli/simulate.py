"""`perpacket simulate`: one configuration of the host and its NIC."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import options, output, progress
from perpacket.cli.destination import check_destination
from perpacket.cli.failure import CheckFailed
from perpacket.cli.options import (
    Format,
    FormatOption,
    PacketsOption,
    QuietOption,
    SeedOption,
    SetOption,
    WarmupOption,
    named_settings,
    parse_settings,
)
from perpacket.cli.quantities import bits_per_s, seconds, size_bytes
from perpacket.errors import ConfigurationError
from perpacket_lab.cli import bars

if TYPE_CHECKING:
    from perpacket_lab.simulation import Parameter

EXAMPLE = (
    "Example: perpacket simulate W-1024-P-N-FCFS-400 --seed 1   or: perpacket simulate bulk "
    "--machine athlon-xp-2600 --connections 2048 --bit-rate 100Mb/s --latency 0 --l2-size 256KiB "
    "--prefetch none --format json"
)

TIMELINE_SUFFIXES = (".csv", ".json", ".parquet")

EXPLANATION_TITLES = {
    "host": "the host's operations, per {unit}",
    "nic": "the NIC's work, per {unit}",
    "queues": "waiting jobs in each queue, per {unit}",
}


ConfigurationArgument = Annotated[
    str,
    typer.Argument(help="A configuration such as W-1024-P-N-FCFS-400, or bulk."),
]
TraceOption = Annotated[
    Path | None, typer.Option(help="Replay this access log instead of synthesized requests.")
]
MachineOption = Annotated[
    str | None, typer.Option(help="The host: osdi06, athlon-xp-2600 or linux-6.1.")
]
ConnectionsOption = Annotated[int | None, typer.Option(help="Concurrent connections.")]
BitRateOption = Annotated[
    float | None,
    typer.Option(parser=bits_per_s, metavar="BIT-RATE", help="Rate of the bulk sender."),
]
LatencyOption = Annotated[
    float | None,
    typer.Option(parser=seconds, metavar="TIME", help="Added latency of the network, one way."),
]
CacheOption = Annotated[
    int | None, typer.Option(parser=size_bytes, metavar="SIZE", help="Level-2 cache.")
]
PrefetchOption = Annotated[
    str | None,
    typer.Option(help="Prefetch connection structures: none, or a number of packets ahead."),
]
TimelineOption = Annotated[
    Path | None, typer.Option(help="Write the state over time: .csv, .json or .parquet.")
]
ExplainOption = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Print the host's cycles and the NIC's instructions by operation, and the jobs that "
        "wait in each queue.",
    ),
]
ShowConfigOption = Annotated[
    bool, typer.Option("--show-config", help="Print every parameter and do not run.")
]


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("simulate", epilog=EXAMPLE, rich_help_panel=options.EXPLORE)(simulate)


def simulate(
    configuration: ConfigurationArgument,
    seed: SeedOption = 1,
    trace: TraceOption = None,
    machine: MachineOption = None,
    connections: ConnectionsOption = None,
    bit_rate: BitRateOption = None,
    latency: LatencyOption = None,
    l2_size: CacheOption = None,
    prefetch: PrefetchOption = None,
    warmup_packets: WarmupOption = None,
    packets: PacketsOption = None,
    settings: SetOption = None,
    timeline: TimelineOption = None,
    explain: ExplainOption = False,
    show_config: ShowConfigOption = False,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Simulate one configuration of a host whose NIC can own TCP connections.

    A configuration is WORKLOAD-CONNECTIONS-ORDER-LOAD-SELECTION-MIPS:

    - WORKLOAD: W (World Cup), I (IBM), D (SPECweb99), S (its static part)

    - CONNECTIONS: the most that the NIC may own; 0 is no handoff

    - ORDER: P (host packets first) or N (order of arrival)

    - LOAD: N (no load control), L (load control), R (L, and returns connections)

    - SELECTION: FCFS, Tn (at the n-th enqueue to send), LIFETIME or ORACLE

    - MIPS: the NIC's million instructions per second
    """
    from perpacket_lab.show.notebook.simulated import SimulatedRun
    from perpacket_lab.simulation import Simulation, run_cancellable

    if timeline is not None:
        check_timeline(timeline)
    overrides = named_settings(
        machine=machine,
        workload__connections=connections,
        workload__rate_mbps=in_unit(bit_rate, 1e6),
        network__added_latency_ms=in_unit(latency, 1e-3),
        machine__l2__size_kib=in_unit(l2_size, 1024),
        host__prefetch=prefetch,
        run__warmup_packets=warmup_packets,
        run__packets=packets,
    )
    simulation = Simulation(
        configuration,
        seed=seed,
        overrides=overrides + parse_settings(settings),
        trace=trace,
        timeline=timeline is not None,
    )
    if show_config:
        print_parameters(configuration, simulation.parameters(), output_format)
        return
    with bars.of_packets(quiet) as report:
        text = run_cancellable(simulation, report)
    result = json.loads(text)
    if rejected := result.get("trace", {}).get("rejected"):
        progress.note(f"note: {rejected} lines of {trace} were skipped; see `trace info`", quiet)
    if timeline is not None:
        write_timeline(timeline, simulation.timeline())
        progress.note(f"timeline: {timeline}", quiet)
    run = f"{configuration}, seed {seed}"
    if explain:
        print_explanation(run, simulation.explanation(), output_format)
    elif output_format is Format.JSON:
        output.write_text(text if text.endswith("\n") else text + "\n")
    else:
        for table in SimulatedRun(result).tables():
            output.write_rows(table)
    check_conserved(result, run)


def check_conserved(result: Mapping[str, object], run: str) -> None:
    """Raise `CheckFailed` when the packets of a run do not balance."""
    from perpacket_lab.simulation import REPORT_HINT

    if result.get("conserved") is False:
        raise CheckFailed(
            f"{run}: the packets sent are not the sum of those delivered, dropped and in flight",
            hint=REPORT_HINT,
        )


def in_unit(value: float | None, unit: float) -> float | None:
    """A value divided by the unit of a parameter; None if the option was not given."""
    return None if value is None else round(value / unit, 9)


def print_parameters(configuration: str, parameters: list[Parameter], form: Format) -> None:
    """Print every parameter with its unit and source."""
    if form is Format.JSON:
        output.write_json([asdict(parameter) for parameter in parameters])
        return
    rows = [
        (item.name, output.plain_text(item.value), item.unit, item.source) for item in parameters
    ]
    title = f"Parameters of {configuration}"
    output.write_table(title, ("parameter", "value", "unit", "source"), rows, right=("value",))


def print_explanation(run: str, explanation: Mapping[str, object], form: Format) -> None:
    """Print the cycles, the instructions and the waits of a run, each in one table."""
    from perpacket.analysis.statistics import number_text

    if form is Format.JSON:
        output.write_json(explanation)
        return
    for key, title in EXPLANATION_TITLES.items():
        rows = explanation[key]
        if isinstance(rows, list) and rows:
            names = tuple(rows[0])
            texts = [
                [
                    row[name] if isinstance(row[name], str) else number_text(row[name])
                    for name in names
                ]
                for row in rows
            ]
            numbers = [name for name in names if not isinstance(rows[0][name], str)]
            full_title = f"{run}: {title.format(unit=explanation['unit'])}"
            output.write_table(full_title, names, texts, right=numbers)


def check_timeline(file: Path) -> None:
    """Raise `ConfigurationError` when the timeline cannot be written to this file."""
    if file.suffix not in TIMELINE_SUFFIXES:
        raise ConfigurationError(
            f"--timeline {file}: no format for the suffix {file.suffix!r}",
            parameter="--timeline",
            value=str(file),
            allowed=f"use a file that ends in {', '.join(TIMELINE_SUFFIXES)}",
        )
    check_destination("--timeline", file)


def write_timeline(file: Path, columns: Mapping[str, list[object]]) -> None:
    """Write the timeline in the format its suffix names."""
    if file.suffix == ".parquet":
        import polars

        polars.DataFrame(columns).write_parquet(file)
        return
    with file.open("w", encoding="utf-8", newline="") as stream:
        if file.suffix == ".json":
            json.dump(columns, stream)
            stream.write("\n")
        else:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
