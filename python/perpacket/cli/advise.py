"""`perpacket advise`: changes that could make packets cheaper here. It changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from perpacket.cli import options, output, progress
from perpacket.cli.options import Format, FormatOption, QuietOption
from perpacket.cli.quantities import seconds_from
from perpacket.errors import ConfigurationError

EXAMPLE = (
    "Examples: perpacket advise --pid $(pidof -s nginx), and with files of another machine: "
    "perpacket advise stacks.txt softnet_stat interrupts ethtool-S-eth0.txt"
)

SHORTEST_S = 0.5


NARROWEST, WIDEST = 70, 100
"""The least and the greatest width of the text, in columns."""


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("advise", epilog=EXAMPLE, rich_help_panel=options.IMPROVE)(advise)


def advise(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Files and folders of another machine, recognized by their contents: a profile, "
            "perf.data, stacks as text; softnet_stat, interrupts, snmp, netstat; the output of "
            "ethtool -S -k -l -c -g, ss -ti, nstat, mpstat, tc -s qdisc, ip -d link, sysctl -a; a "
            "copy of /proc and /sys (--root). Then nothing of this machine is read.",
        ),
    ] = None,
    root: options.RootOption = None,
    pid: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Process of the server. perpacket reads its options and its network namespace.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Use this profile, written by `perpacket profile --format json`.",
        ),
    ] = None,
    folded: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Call chains of that profile, written by `perpacket profile --folded`.",
        ),
    ] = None,
    interface: Annotated[
        str, typer.Option(metavar="IF", help="Interface, by default all that carried packets.")
    ] = "",
    requests: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="URL at which the server reports its requests: /.perpacket/report of `serve "
            "web`, or nginx's stub_status.",
        ),
    ] = "",
    duration: Annotated[
        float,
        typer.Option(
            parser=seconds_from(SHORTEST_S), metavar="TIME", help="Length of the profile."
        ),
    ] = 5.0,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """List the changes that could make packets cheaper here, with evidence, bound and risk.

    Changes nothing. A profile needs the same rights as perf. Notes list what cannot be read.
    """
    from perpacket import api, machine
    from perpacket.advise import observation
    from perpacket.machine.files import Files
    from perpacket.show import advice_tables as shown

    if folded is not None and profile is None:
        raise ConfigurationError(
            "--folded needs --profile",
            parameter="--folded",
            value=str(folded),
            hint="add --profile FILE, the profile that these call chains belong to",
        )
    if root is not None and root.resolve() != Path("/"):  # / is this machine
        machine.check_copy(Files(root))
        files = [*(files or ()), root]
    if files and (pid is not None or profile is not None or requests):
        raise ConfigurationError(
            "files of another machine exclude --pid, --profile and --requests, which name things "
            "of this machine",
            parameter="FILE",
            value=str(files[0]),
            hint="name the profile as one of the files",
        )
    if not files:
        observation.check(pid, interface)
    if profile is None and not files:
        progress.note(f"profiling for {duration:g} s ...", quiet)
    result = api.advise(
        duration,
        pid=pid,
        interface=interface,
        requests=requests,
        profile=profile,
        folded=folded,
        files=files or (),
    )
    report = result.report
    if output_format is Format.JSON:
        output.write_json(result.as_dict())
        return
    columns = max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))
    for line in shown.lines(report, columns):
        output.write_line(line)
    for note in report.notes:
        progress.note(f"note: {note}", quiet)
