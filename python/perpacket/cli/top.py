"""`perpacket top`: the current cost of a packet, layer by layer, with any server."""

from __future__ import annotations

import enum
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli.options import MEASURE, Format, FormatOption
from perpacket.cli.quantities import cpu_list, seconds_from
from perpacket.profile_document import ProfileDocument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from perpacket.advise.glance import BackgroundProfile

EXAMPLE = "Example: perpacket top --cpus 0 --requests http://127.0.0.1:8080/.perpacket/report"

SHORTEST_S = 0.1
"""Shortest window and shortest run, in seconds."""

GLANCE_S = 2.0
"""Length of the profile for the advice in the last line."""

SHOWN_CPUS = 16
"""Most processors with a row; of more, those that run most."""

BAR_WIDTH = 40
"""The width of a bar for a share of 1, in columns."""

COLOURS = {
    "user": "green",
    "syscall": "cyan",
    "socket": "bright_cyan",
    "tcp": "blue",
    "udp": "bright_blue",
    "ip": "magenta",
    "ethernet": "bright_magenta",
    "driver": "red",
    "interrupt": "yellow",
    "scheduler": "bright_yellow",
}
"""A colour for each layer; other layers are grey. Each bar also has the layer's name."""


class By(enum.StrEnum):
    """A division that the display shows besides the layers."""

    CPU = "cpu"


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("top", epilog=EXAMPLE, rich_help_panel=MEASURE)(top)


def top(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="A file of `perpacket capture`: show that machine in place of this one.",
        ),
    ] = None,
    cpus: Annotated[
        str | None,
        typer.Option(
            parser=cpu_list, metavar="LIST", help="CPUs to watch, as 0 or 0-3,6; by default all."
        ),
    ] = None,
    requests: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The URL at which the server reports its requests: /.perpacket/report of `serve "
            "web`, or nginx's stub_status.",
        ),
    ] = None,
    pid: Annotated[
        int | None, typer.Option(help="Count packets in this process's network namespace.")
    ] = None,
    cgroup: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Watch a control group and everything below it."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(metavar="NAME", help="Watch a systemd unit, as nginx.service.")
    ] = None,
    container: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Watch a container, by the beginning of its identifier."),
    ] = None,
    by: Annotated[
        By | None,
        typer.Option(help="Also show the processors, with their shares of packets and softirqs."),
    ] = None,
    hosts: Annotated[
        str,
        typer.Option(metavar="LIST", help="Watch these machines over ssh, as web1,root@web2:2222."),
    ] = "",
    every: Annotated[
        float,
        typer.Option(
            parser=seconds_from(SHORTEST_S), metavar="TIME", help="Time between refreshes."
        ),
    ] = 1.0,
    duration: Annotated[
        float | None,
        typer.Option(
            parser=seconds_from(SHORTEST_S),
            metavar="TIME",
            help="Time to run, by default until Ctrl-C.",
        ),
    ] = None,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Show the current cost of a packet, layer by layer, refreshed every second.

    Needs the same rights as perf: `perpacket doctor` reports whether this machine grants them.
    """
    from perpacket.advise import glance
    from perpacket.measure import live

    if file is not None:
        of_case(file, output_format)
        return
    options: dict[str, object] = {
        **{"cpus": cpus, "requests": requests, "pid": pid},
        **{"cgroup": cgroup, "unit": unit, "container": container},
    }
    if hosts:
        from perpacket.cli import hosts as several

        with suppress(KeyboardInterrupt):
            several.top(hosts, options, every, duration, output_format)
        return
    end = None if duration is None else time.monotonic() + duration
    shows_advice = output_format is Format.TABLE
    advice = glance.BackgroundProfile(GLANCE_S, pid, requests or "") if shows_advice else None
    try:
        with live.windows(options, every) as documents:
            windows = until(map(ProfileDocument.parse, documents), end)
            if output_format is Format.JSON:
                for window in windows:
                    sys.stdout.write(json.dumps(window.document) + "\n")
                    sys.stdout.flush()
            elif sys.stdout.isatty():
                refresh(windows, by)
            else:
                follow(windows, by)
    except KeyboardInterrupt:
        pass  # Ctrl-C is the usual end of `top`
    if advice is not None:
        print_next(advice)


def of_case(file: Path, output_format: Format) -> None:
    """Print what a case shows of its machine."""
    from rich.console import Console

    from perpacket.advise import case
    from perpacket.cli import case_verb
    from perpacket.show import case_tables

    read = case.read([file])
    if output_format is Format.JSON:
        sys.stdout.write(json.dumps(dict(read.stacks(file).document)) + "\n")
        return
    seen = read.observation()
    console = Console(width=100, no_color=True, highlight=False)
    if not read.profile.is_missing:
        window = ProfileDocument.parse(dict(read.profile.document), str(file))
        console.print(picture(window, window.limits))
    for table in case_tables.tables(seen.grown):
        sys.stdout.write(f"{table}\n")
    case_verb.print_next(seen)


def print_next(advice: BackgroundProfile) -> None:
    """Print the change most worth trying, if the profile for the advice is complete."""
    from perpacket.show import advice_tables as shown

    report = advice.report()
    line = "" if report is None else shown.next_line(report)
    if line:
        sys.stdout.write(f"{line}\n")


def until(windows: Iterator[ProfileDocument], end: float | None) -> Iterator[ProfileDocument]:
    """The windows until a moment of the monotonic clock, or all."""
    for window in windows:
        yield window
        if end is not None and time.monotonic() >= end:
            return


def refresh(windows: Iterator[ProfileDocument], by: By | None) -> None:
    """Show each window on the terminal, in place of the last one."""
    from rich.console import Console
    from rich.live import Live

    with Live("profiling ...", console=Console(), screen=True, auto_refresh=False) as screen:
        for window in windows:
            screen.update(picture(window, window.limits, by), refresh=True)


def follow(windows: Iterator[ProfileDocument], by: By | None) -> None:
    """Print each window below the last one, for a pipe or a file, and each note once."""
    from rich.console import Console

    console = Console(width=100, no_color=True, highlight=False)
    printed: list[str] = []
    for window in windows:
        notes = window.limits
        new = [note for note in notes if note not in printed]
        console.print(picture(window, new, by))
        printed += notes


def picture(window: ProfileDocument, notes: list[str], by: By | None = None) -> RenderableType:
    """The rates of a window, a line and a bar for each layer, and notes on the numbers."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    counted = any(layer.cycles_per_packet is not None for layer in window.layers.values())
    unit = "cycles" if counted else "ns"
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("layer")
    table.add_column(f"{unit} per packet", justify="right")
    table.add_column("share", justify="right")
    table.add_column("", no_wrap=True)
    for name, layer in window.layers.items():
        share = layer.share or 0.0
        if name == "idle" or share == 0:
            continue
        colour = COLOURS.get(name, "bright_black")
        bar = Text("█" * max(1, round(BAR_WIDTH * share)), style=colour)
        cost = layer.cycles_per_packet if counted else layer.cpu_ns_per_packet
        table.add_row(name, amount(cost), f"{100 * share:.1f} %", bar)
    lines = [Text(finding, style="bold") for finding in window.findings]
    lines += [Text(f"note: {note}", style="dim") for note in notes]
    divided = [processors(window), Text()] if by is By.CPU else []
    return Group(Text(headline(window), style="bold"), Text(), table, Text(), *divided, *lines)


def processors(window: ProfileDocument) -> RenderableType:
    """A row for each processor, or for those that run most."""
    from rich.table import Table

    rows = sorted(window.processors, key=lambda row: -(row.run_share or 0.0))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("CPU", "busy", "softirq", "packets/s", "of all", "ns per packet", "drops"):
        table.add_column(title, justify="right")
    span = window.window_s or 1.0
    for row in sorted(rows[:SHOWN_CPUS], key=lambda row: row.cpu):
        table.add_row(
            str(row.cpu),
            *(percent(share) for share in (row.run_share, row.softirq_share)),
            amount(rate(row.packets, span)),
            percent(row.packet_share),
            amount(row.cpu_ns_per_packet),
            amount(row.drops),
        )
    return table


def percent(share: float | None) -> str:
    """A share in percent; a dash for None."""
    return "-" if share is None else f"{100 * share:.0f} %"


def headline(window: ProfileDocument) -> str:
    """`41,210 packets/s sent · 41,198 received · 9,870 requests/s · CPU 97 % busy`."""
    span = window.window_s or 1.0
    parts = [
        f"{amount(rate(window.packets.sent, span))} packets/s sent",
        f"{amount(rate(window.packets.received, span))} received",
    ]
    if window.requests is not None:
        parts.append(f"{amount(window.requests / span)} requests/s")
    busy = None if window.closure is None else window.closure.profile_cpu_s
    if busy is not None and window.cpus:
        parts.append(f"CPU {100 * busy / span / len(window.cpus):.0f} % busy")
    return " · ".join(parts)


def rate(count: float | None, span: float) -> float | None:
    """A count over the window's seconds."""
    return None if count is None else count / span


def amount(value: float | None) -> str:
    """A number with separators; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"
