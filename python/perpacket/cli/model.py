"""`perpacket model`: the closed forms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import output, progress
from perpacket.cli.options import Format, FormatOption, QuietOption
from perpacket.errors import ConfigurationError

if TYPE_CHECKING:
    from perpacket.models.bounds import Server

SCHEMA = 1
"""Version of the JSON these verbs print."""

app = typer.Typer(
    help="Closed forms: what offload can gain, what memory allows.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SWEEP_STEPS = 20
"""Shares of work or connections in a sweep, from 0 to 1."""

ShareOption = Annotated[
    float | None, typer.Option(help="Share of busy CPU time in the network stack, 0 to 1.")
]
ProfileOption = Annotated[
    Path | None, typer.Option(help="Read the share from `perpacket profile --format json`.")
]
OffloadedOption = Annotated[
    float | None,
    typer.Option(
        "--offloaded", "-p", help="Share p of the communication work offloaded; 1 by default."
    ),
]
LagOption = Annotated[
    float, typer.Option(help="NIC's time for work over the host's; 0: the NIC never limits.")
]
StructuralOption = Annotated[
    float, typer.Option(help="Share of the offloaded work that remains for the NIC.")
]
WireOption = Annotated[
    float, typer.Option(help="Share of the wire the unaided host fills; 0: never limits.")
]
SweepOption = Annotated[
    bool, typer.Option("--sweep", help="Sweep the offloaded share from 0 to 1.")
]


@app.command("laws", epilog="Example: perpacket model laws --network-share 0.34")
def laws(
    network_share: ShareOption = None,
    profile: ProfileOption = None,
    offloaded: OffloadedOption = None,
    alpha: LagOption = 0.0,
    beta: StructuralOption = 1.0,
    sigma: WireOption = 0.0,
    sweep: SweepOption = False,
    published: Annotated[
        bool, typer.Option("--published", help="The published table beside the computed one.")
    ] = False,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """How much throughput gains when communication work moves from the host to its NIC."""
    from perpacket.models import laws as model

    if published:
        own = {
            "--network-share": network_share,
            "--profile": profile,
            "--offloaded": offloaded,
            "--alpha": alpha or None,
            "--beta": None if beta == 1.0 else beta,
            "--sigma": sigma or None,
            "--sweep": sweep or None,
        }
        refuse_beside("--published", own, "the published table has its own shares")
        print_published(output_format)
        return
    if sweep:
        refuse_beside("--sweep", {"--offloaded": offloaded}, "a sweep goes over every share p")
    share = share_of(network_share, profile)
    gamma = float(model.gamma_of_share(share))
    shares = (
        [step / SWEEP_STEPS for step in range(SWEEP_STEPS + 1)]
        if sweep
        else [1.0 if offloaded is None else offloaded]
    )
    found = model.offload(gamma, shares, alpha=alpha, beta=beta, sigma=sigma)
    limits = [
        model.LIMITS[index] if math.isfinite(gain) else None
        for index, gain in zip(found.limit, found.gain, strict=True)
    ]
    if output_format is Format.JSON:
        points = [
            {"p": p, "gain": output.finite(float(gain)), "limit": limit}
            for p, gain, limit in zip(shares, found.gain, limits, strict=True)
        ]
        result: dict[str, object] = {"schema": SCHEMA, "network_share": share, "gamma": gamma}
        output.write_json(result | ({"sweep": points} if sweep else points[0]))
        return
    rows = [
        (f"{p:.2f}", f"{100 * gain:.2f}", limit or "nothing")
        for p, gain, limit in zip(shares, found.gain, limits, strict=True)
    ]
    title = f"Network share {100 * share:.3g} %, gamma {gamma:.4g}: throughput gained by offload"
    output.write_table(title, ("p", "gain, %", "limited by"), rows, right=("p", "gain, %"))
    progress.note(
        "An upper bound: work is divisible, and handing it over costs nothing; see the "
        "documentation of perpacket.models.laws.",
        quiet,
    )


def refuse_beside(option: str, others: Mapping[str, object], why: str) -> None:
    """Raise `ConfigurationError` on the first of `others` that has a value: it would do nothing."""
    for name, value in others.items():
        if value is not None:
            raise ConfigurationError(
                f"{name} does nothing beside {option}: {why}",
                parameter=name,
                value=str(value),
                hint="use one of them",
            )


def share_of(network_share: float | None, profile: Path | None) -> float:
    """The network share, or that of a profile; raises `ConfigurationError` without either."""
    from perpacket.models import profiled

    if (network_share is None) == (profile is None):
        raise ConfigurationError(
            "expected either --network-share or --profile",
            parameter="--network-share",
            hint="as in: perpacket model laws --network-share 0.34",
        )
    if network_share is not None:
        return network_share
    assert profile is not None
    share = profiled.network_share(
        profiled.read_document(profile, f"--profile {profile}"), str(profile)
    )
    if not share:
        raise ConfigurationError(
            f"--profile {profile}: its network layers took no processor time, so that there is "
            "nothing to offload",
            parameter="--profile",
            value=str(profile),
            hint="profile the server while it is under load",
        )
    return share


def print_published(form: Format) -> None:
    """Table 5 of *Communication Breakdown* beside the gains of its network shares."""
    from perpacket.models import laws as model

    rows = []
    for workload, percent, gamma, gain in model.PUBLISHED:
        exact = float(model.gamma_of_share(percent / 100))
        computed = 100 * float(model.offload(exact).gain)
        rows.append((workload, percent, gamma, exact, gain, computed))
    names = ("workload", "network share, %", "gamma", "exact", "gain, %", "computed")
    if form is Format.JSON:
        shares = ("workload", "network_share_percent", "gamma_published", "gamma")
        keys = (*shares, "gain_percent_published", "gain_percent")
        table = [dict(zip(keys, row, strict=True)) for row in rows]
        output.write_json({"schema": SCHEMA, "rows": table, "note": model.COLUMNS_DIFFER})
        return
    cells = [(row[0], *(f"{value:.4g}" for value in row[1:])) for row in rows]
    title = "Communication Breakdown, table 5, beside the gains of its shares"
    output.write_table(title, names, cells, right=names[1:])
    output.write_line(model.COLUMNS_DIFFER)


@app.command(
    "handoff",
    epilog="Example: perpacket model handoff --host-us 42 --saved-us 15 --nic-host-us 16 "
    "--nic-extra-us 30",
)
def handoff(
    host_us: Annotated[float, typer.Option(help="A: host time of a host connection's request.")],
    saved_us: Annotated[float, typer.Option(help="S: host time saved by the NIC.")],
    nic_host_us: Annotated[float, typer.Option(help="n0: NIC time of such a request.")],
    nic_extra_us: Annotated[float, typer.Option(help="n1: NIC time added when the NIC owns it.")],
    output_format: FormatOption = Format.TABLE,
) -> None:
    """How many of the connections a NIC should own, and the gain."""
    from perpacket.models import handoff as model
    from perpacket.models.checks import numbers

    # Checked here, because the model's own error names its parameters instead of the options.
    numbers("--host-us", host_us, positive=True)
    numbers("--saved-us", saved_us)
    numbers("--nic-host-us", nic_host_us)
    numbers("--nic-extra-us", nic_extra_us)
    if saved_us > host_us:
        raise ConfigurationError(
            f"--saved-us {saved_us:g}: expected at most --host-us {host_us:g}",
            parameter="--saved-us",
            value=f"{saved_us:g}",
            hint="a request cannot save more than it costs",
        )
    costs = model.Costs(*(value / 1e6 for value in (host_us, saved_us, nic_host_us, nic_extra_us)))
    best = model.best_share(costs)
    shares = sorted({step / SWEEP_STEPS for step in range(SWEEP_STEPS + 1)} | {best})
    rates = model.throughput(costs, shares)
    gains = model.gain(costs, shares)
    if output_format is Format.JSON:
        points = [
            {
                "share": share,
                "requests_per_s": output.finite(float(rate)),
                "gain": output.finite(float(gain)),
            }
            for share, rate, gain in zip(shares, rates, gains, strict=True)
        ]
        chosen = points[shares.index(best)]
        output.write_json({"schema": SCHEMA, "best": chosen, "sweep": points})
        return
    rows = [
        (f"{share:.3f}" + (" best" if share == best else ""), f"{rate:,.0f}", f"{100 * gain:.2f}")
        for share, rate, gain in zip(shares, rates, gains, strict=True)
    ]
    names = ("share on the NIC", "requests/s", "gain, %")
    output.write_table("Throughput against the share of connections", names, rows, right=names[1:])


@app.command("bounds", epilog="Example: perpacket model bounds --as-printed")
def bounds(
    catalogue: Annotated[
        Path | None, typer.Option(help="Paths, transactions and servers of your own (TOML).")
    ] = None,
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Equation 3.6 as it is printed.")
    ] = False,
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Buses work side by side; the busiest limits.")
    ] = False,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Add this machine, with its measured memory bandwidth."),
    ] = False,
    bench: Annotated[
        Path | None,
        typer.Option(help="Add the machine of a report of `bench memory --format json`."),
    ] = None,
    io_mbytes_per_s: Annotated[
        float | None, typer.Option(help="That machine's I/O bus, MB/s (--measure or --bench).")
    ] = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """How fast servers can be when only moving data costs time."""
    from perpacket.models import bounds as model

    if io_mbytes_per_s is not None:
        check_io(io_mbytes_per_s, measure or bench is not None)
    known = model.read_catalogue(catalogue)
    if measure or bench is not None:
        known.server.append(measured_server(bench, io_mbytes_per_s, quiet))
    found = model.all_bounds(known, as_printed=as_printed, overlap=overlap)
    missing = model.left_out(known)
    if output_format is Format.JSON:
        rows = [
            {
                "server": item.server,
                "transaction": item.transaction,
                "bound_mbps": item.mbps,
                "limiting_bus": item.limiting_bus,
            }
            for item in found
        ]
        output.write_json(
            {
                "schema": SCHEMA,
                "as_printed": as_printed,
                "overlap": overlap,
                "rows": rows,
                "left_out": missing,
            }
        )
        return
    cells = [
        (item.server, item.transaction, f"{item.mbps:,.0f}", item.limiting_bus) for item in found
    ]
    title = "Upper bound of throughput, Mb/s (10^6 bits a second)"
    names = ("server", "transaction", "Mb/s", "busiest bus")
    output.write_table(title, names, cells, right=("Mb/s",))
    progress.note(model.PRINTED_DIFFERENCE, quiet)
    for remark in missing:
        progress.note(f"note: {remark}", quiet)


def check_io(io_mbytes_per_s: float, is_described: bool) -> None:
    """Raise `ConfigurationError` where no machine is added, or the bandwidth is invalid."""
    from perpacket.models.checks import numbers

    numbers("--io-mbytes-per-s", io_mbytes_per_s, positive=True)
    if not is_described:
        raise ConfigurationError(
            "--io-mbytes-per-s describes a machine that only --measure or --bench adds",
            parameter="--io-mbytes-per-s",
            value=str(io_mbytes_per_s),
            hint="use one of them too, or write the server into a --catalogue",
        )


def measured_server(bench: Path | None, io_mbytes_per_s: float | None, quiet: bool) -> Server:
    """A catalogue server for this machine, or for the machine of a `bench memory` report."""
    from perpacket.models import bandwidth, profiled
    from perpacket.models.bounds import Server as Described

    if bench is None:
        name, copied = "this machine", bandwidth.copy_mbytes_per_s()
    else:
        name = f"machine of {bench.name}"
        document = profiled.read_document(bench, f"--bench {bench}")
        copied = bandwidth.of_bench(document, str(bench))
    progress.note(f"memory, copied by one core: {copied} MB/s read and written", quiet)
    buses = {"memory": copied.value}
    if io_mbytes_per_s is not None:
        buses["io"] = io_mbytes_per_s
    else:
        progress.note(
            "a machine's I/O bus cannot be measured without a device that fills it: use "
            "--io-mbytes-per-s for transactions that cross it",
            quiet,
        )
    return Described(name=name, buses_mbytes_per_s=buses, source="measured, one core copying")
