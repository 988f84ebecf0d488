"""`perpacket model`: the closed forms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import output, progress
from perpacket.cli.options import Format, FormatOption, QuietOption
from perpacket.cli.quantities import seconds, size_bytes
from perpacket.errors import ConfigurationError
from perpacket_lab.cli.study_options import DirectoryArgument

if TYPE_CHECKING:
    from perpacket_lab.models.bounds import ServerMachine

SCHEMA = 1
"""Version of the JSON these verbs print."""

app = typer.Typer(
    help="Closed-form models: the gain by offload and handoff, the bounds of throughput, the cost "
    "of cache misses and of TLS.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SWEEP_STEPS = 20
"""The steps of a sweep of the share of work or connections, from 0 to 1."""

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
    float,
    typer.Option(
        help="Lag ratio: NIC time over host time for the same work. With 0 the NIC is never the "
        "limit."
    ),
]
StructuralOption = Annotated[
    float,
    typer.Option(help="Structural ratio: share of the offloaded work that the NIC has to do."),
]
WireOption = Annotated[
    float,
    typer.Option(
        help="Wire ratio: share of the wire's bandwidth that the host fills without offload. With "
        "0 the wire is never the limit."
    ),
]
HostTimeOption = Annotated[
    float,
    typer.Option(
        "--host", parser=seconds, metavar="TIME", help="A: host time per request, without handoff."
    ),
]
SavedTimeOption = Annotated[
    float,
    typer.Option(
        "--saved",
        parser=seconds,
        metavar="TIME",
        help="S: host time that handoff saves per request.",
    ),
]
NicHostTimeOption = Annotated[
    float,
    typer.Option(
        "--nic-host",
        parser=seconds,
        metavar="TIME",
        help="n0: NIC time per request on a connection that the host owns.",
    ),
]
NicExtraTimeOption = Annotated[
    float,
    typer.Option(
        "--nic-extra",
        parser=seconds,
        metavar="TIME",
        help="n1: additional NIC time per request on a connection that the NIC owns.",
    ),
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
        bool, typer.Option("--published", help="Print the published table with computed gains.")
    ] = False,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Compute the gain in throughput when communication work moves from the host to its NIC.

    The gain is an upper bound, by the LAWS model (Shivam and Chase, 2003).
    """
    from perpacket_lab.models import laws as model

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
        refuse_beside("--sweep", {"--offloaded": offloaded}, "a sweep has every share p")
    share = share_of(network_share, profile)
    gamma = float(model.gamma_of_share(share))
    shares = (
        [step / SWEEP_STEPS for step in range(SWEEP_STEPS + 1)]
        if sweep
        else [1.0 if offloaded is None else offloaded]
    )
    gains = model.offload(gamma, shares, alpha=alpha, beta=beta, sigma=sigma)
    limits = [
        model.LIMITS[index] if math.isfinite(gain) else None
        for index, gain in zip(gains.limit, gains.gain, strict=True)
    ]
    if output_format is Format.JSON:
        points = [
            {"p": p, "gain": output.finite(float(gain)), "limit": limit}
            for p, gain, limit in zip(shares, gains.gain, limits, strict=True)
        ]
        result: dict[str, object] = {"schema": SCHEMA, "network_share": share, "gamma": gamma}
        output.write_json(result | ({"sweep": points} if sweep else points[0]))
        return
    rows = [
        (f"{p:.2f}", f"{100 * gain:.2f}", limit or "nothing")
        for p, gain, limit in zip(shares, gains.gain, limits, strict=True)
    ]
    title = f"Network share {100 * share:.3g} %, gamma {gamma:.4g}: gain in throughput by offload"
    output.write_table(title, ("p", "gain, %", "limited by"), rows, right=("p", "gain, %"))
    progress.note(
        "This is an upper bound: the model assumes that work is divisible and that handoff is "
        "free. See perpacket_lab.models.laws.",
        quiet,
    )


@app.command("part", epilog="Example: perpacket model part --share 0.75 --network-share 0.01")
def part(
    share: Annotated[
        float | None, typer.Option(help="Share of busy CPU time in the part, 0 to 1.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--part", help="Read the share of this part from --profile.")
    ] = None,
    network_share: ShareOption = None,
    profile: ProfileOption = None,
    cost: Annotated[
        float,
        typer.Option(min=0, max=1, help="Reduced cost of the part, as a share of its cost now."),
    ] = 0.5,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Compute the gain in throughput if a part of an application, such as perl, cost less.

    Prints the gain with the network unchanged, and the gain with the network offloaded too (LAWS).
    """
    from perpacket import server_cost
    from perpacket.profile_document import read_profile
    from perpacket_lab.models import laws as model

    if (share is None) == (name is None) or (name is not None) != (profile is not None):
        raise ConfigurationError(
            "expected --share, or --part with --profile",
            parameter="--part",
            hint="as in: perpacket model part --profile profile.json --part php",
        )
    if profile is not None and name is not None:
        document = read_profile(profile, f"--profile {profile}")
        share = document.part_share(name, str(profile))
        if network_share is None:
            network_share = server_cost.of_profile(document, str(profile)).network_share
    network = network_share or 0.0
    alone, both = (
        float(model.gain_of_cheaper_part(share or 0.0, cost, offloaded))
        for offloaded in (0.0, network)
    )
    if output_format is Format.JSON:
        shares = {"part_share": share, "network_share": network, "cost": cost}
        gains = {"gain": alone, "gain_with_offload": both}
        output.write_json({"schema": SCHEMA, **shares, **gains})
        return
    rows = [("as it is", f"{100 * alone:.1f}"), ("offloaded too", f"{100 * both:.1f}")]
    percent = f"{100 * (share or 0.0):.3g} %"
    title = f"A part with {percent} of the time, if it costs {cost:g} times as much"
    output.write_table(title, ("network", "gain, %"), rows, right=("gain, %",))


def refuse_beside(option: str, others: Mapping[str, object], why: str) -> None:
    """Raise `ConfigurationError` if an option in `others` was given: it has no effect."""
    for name, value in others.items():
        if value is not None:
            raise ConfigurationError(
                f"{name} has no effect with {option}: {why}",
                parameter=name,
                value=str(value),
                hint="use one of them",
            )


def share_of(network_share: float | None, profile: Path | None) -> float:
    """The network share, given or read from a profile.

    Raises `ConfigurationError` unless exactly one of both is given, and `RunFailed` for a profile
    of an idle server or of other programs.
    """
    from perpacket import server_cost
    from perpacket.profile_document import read_profile

    if (network_share is None) == (profile is None):
        raise ConfigurationError(
            "expected either --network-share or --profile",
            parameter="--network-share",
            hint="as in: perpacket model laws --network-share 0.34",
        )
    if network_share is not None:
        return network_share
    assert profile is not None
    document = read_profile(profile, f"--profile {profile}")
    cost = server_cost.of_profile(document, str(profile))
    if not cost.network_share:
        raise ConfigurationError(
            f"--profile {profile}: its network layers used no processor time, so there is no work "
            "to offload",
            parameter="--profile",
            value=str(profile),
            hint="profile the server while it is under load",
        )
    cost.require_load(f"--profile {profile}")
    return cost.network_share


def print_published(form: Format) -> None:
    """Print table 5 of *Communication Breakdown* beside the gains computed from its shares."""
    from perpacket_lab.models import laws as model

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
    title = "Communication Breakdown, table 5, beside the gains computed from its shares"
    output.write_table(title, names, cells, right=names[1:])
    output.write_line(model.COLUMNS_DIFFER)


@app.command(
    "handoff",
    epilog="Example: perpacket model handoff --host 42us --saved 15us --nic-host 16us "
    "--nic-extra 30us",
)
def handoff(
    host: HostTimeOption,
    saved: SavedTimeOption,
    nic_host: NicHostTimeOption,
    nic_extra: NicExtraTimeOption,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Compute the share of connections that a NIC should own, and the gain."""
    from perpacket_lab.models import handoff as model
    from perpacket_lab.models.checks import numbers

    # Check the options here, because errors of the model name its parameters.
    numbers("--host", host, positive=True)
    if saved > host:
        raise ConfigurationError(
            f"--saved {1e6 * saved:g}us: expected at most --host {1e6 * host:g}us",
            parameter="--saved",
            value=f"{1e6 * saved:g}us",
            hint="handoff cannot save more than a request costs",
        )
    costs = model.Costs(host, saved, nic_host, nic_extra)
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
        Path | None, typer.Option(help="A TOML file with your paths, transactions and servers.")
    ] = None,
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Use equation 3.6 as printed.")
    ] = False,
    overlap: Annotated[
        bool,
        typer.Option("--overlap", help="Buses work in parallel; the busiest one is the limit."),
    ] = False,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Add this machine with its measured memory bandwidth."),
    ] = False,
    bench: Annotated[
        Path | None,
        typer.Option(help="Add the machine in a report of `bench memory --format json`."),
    ] = None,
    io_bandwidth: Annotated[
        int | None,
        typer.Option(
            parser=size_bytes,
            metavar="SIZE",
            help="Data a second of that machine's I/O bus (with --measure or --bench).",
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            parser=size_bytes,
            metavar="SIZE",
            help="Print the time of a transaction with this much data.",
        ),
    ] = None,
    cpu: Annotated[
        float,
        typer.Option(
            parser=seconds,
            metavar="TIME",
            help="Processor time of a transaction (with --size).",
        ),
    ] = 0.0,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Compute the greatest throughput of servers from the cost of data movement.

    By equations 3.6 to 3.14 of Isa (2003). Without --cpu, processing takes no time.
    """
    from perpacket_lab.models import bounds as model

    if cpu and size is None:
        raise ConfigurationError(
            "--cpu is the time of one transaction: expected --size too",
            parameter="--cpu",
            value=f"{1e6 * cpu:g}us",
            hint="as in: perpacket model bounds --size 1460 --cpu 5us",
        )
    work = model.Work() if size is None else model.Work(size, 1e6 * cpu)
    if io_bandwidth is not None:
        check_io(io_bandwidth, measure or bench is not None)
    known = model.read_catalogue(catalogue)
    if measure or bench is not None:
        known.server.append(measured_server(bench, io_bandwidth, quiet))
    limits = model.all_bounds(known, work, as_printed=as_printed, overlap=overlap)
    missing = model.left_out(known)
    if output_format is Format.JSON:
        rows = [
            {
                "server": item.server,
                "transaction": item.transaction,
                "bound_mbps": item.mbps,
                "time_us": None if size is None else item.time_us,
                "limiting_bus": item.limiting_bus,
            }
            for item in limits
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
    timed = size is not None
    cells = [
        (
            *(item.server, item.transaction, f"{item.mbps:,.0f}"),
            *([f"{item.time_us:.4g}"] if timed else []),
            item.limiting_bus,
        )
        for item in limits
    ]
    title = "Upper bound of throughput, Mb/s (10^6 bits a second)"
    names = ("server", "transaction", "Mb/s", *(["time, us"] if timed else []), "busiest")
    output.write_table(title, names, cells, right=("Mb/s", "time, us"))
    progress.note(model.PRINTED_DIFFERENCE, quiet)
    for remark in missing:
        progress.note(f"note: {remark}", quiet)


@app.command("cache", epilog="Example: perpacket model cache --miss-rate 0.1")
def cache(
    miss_rate: Annotated[
        float | None, typer.Option(help="Share of memory accesses that miss the cache, 0 to 1.")
    ] = None,
    access: Annotated[
        int | None,
        typer.Option(
            parser=size_bytes,
            metavar="SIZE",
            help="In place of --miss-rate: size of each access of a sequential read (with --line).",
        ),
    ] = None,
    line: Annotated[
        int | None,
        typer.Option(parser=size_bytes, metavar="SIZE", help="Size of a cache line."),
    ] = None,
    penalty: Annotated[float, typer.Option(help="Penalty of a miss, cycles.")] = 10.0,
    accesses: Annotated[float, typer.Option(help="Memory accesses per instruction.")] = 1.0,
    cpi: Annotated[float, typer.Option(help="Cycles per instruction without misses.")] = 1.0,
    instructions: Annotated[float, typer.Option(help="Instructions.")] = 1.0,
    cycle: Annotated[
        float, typer.Option(parser=seconds, metavar="TIME", help="Time of a cycle.")
    ] = 1e-9,
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Use equation 3.4 as printed.")
    ] = False,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Compute the cost of cache misses, relative to a memory as fast as the cache.

    By equations 3.1 to 3.5 of Isa (2003).
    """
    from perpacket_lab.models import data_movement as model

    misses = miss_share(miss_rate, access, line)
    with_ar = {"accesses_per_instruction": accesses}
    overhead_cpi = 1.0 if as_printed else cpi
    document = {
        "miss_rate": misses,
        "stall_cycles": float(model.stall_cycles(instructions, misses, accesses, penalty)),
        "time_without_cache_s": float(model.time_without_cache_s(instructions, cpi, cycle)),
        "time_with_cache_s": float(
            model.time_with_cache_s(
                *(instructions, cpi, cycle, misses, penalty), **with_ar, as_printed=as_printed
            )
        ),
        "cache_overhead": float(
            model.cache_overhead(misses, penalty, **with_ar, cycles_per_instruction=overhead_cpi)
        ),
    }
    if output_format is Format.JSON:
        output.write_json({"schema": SCHEMA, "as_printed": as_printed, **document})
        return
    labels = {
        "miss_rate": "misses per access",
        "stall_cycles": "3.1: cycles of waiting for memory",
        "time_without_cache_s": "3.3: seconds with a memory as fast as the cache",
        "time_with_cache_s": "3.4: seconds with the cache",
        "cache_overhead": "3.5: the ratio of both",
    }
    rows = [(labels[name], f"{value:.4g}") for name, value in document.items()]
    output.write_table("The cost of cache misses", ("equation", "value"), rows, right=("value",))


def miss_share(miss_rate: float | None, access: int | None, line: int | None) -> float:
    """The miss rate, given or computed for a sequential read.

    Raises `ConfigurationError` unless exactly one of both is given.
    """
    from perpacket_lab.models import data_movement

    sequential = access is not None and line is not None
    if (miss_rate is None) != sequential or (access is None) != (line is None):
        raise ConfigurationError(
            "expected either --miss-rate, or --access and --line",
            parameter="--miss-rate",
            hint="as in: perpacket model cache --access 4 --line 32",
        )
    if miss_rate is not None:
        return miss_rate
    return float(data_movement.sequential_miss_rate(access or 0, line or 0))


def check_io(io_bandwidth: int, is_described: bool) -> None:
    """Raise `ConfigurationError` for an invalid bandwidth, or one without a machine to describe."""
    from perpacket_lab.models.checks import numbers

    numbers("--io-bandwidth", io_bandwidth, positive=True)
    if not is_described:
        raise ConfigurationError(
            "--io-bandwidth describes a machine that only --measure or --bench adds",
            parameter="--io-bandwidth",
            value=str(io_bandwidth),
            hint="add one of them, or write the server into a --catalogue",
        )


def measured_server(bench: Path | None, io_bandwidth: int | None, quiet: bool) -> ServerMachine:
    """A catalogue server for this machine, or for the machine of a `bench memory` report."""
    from perpacket.profile_document import read_object
    from perpacket_lab.models import bandwidth
    from perpacket_lab.models.bounds import ServerMachine as Described

    if bench is None:
        name, copied = "this machine", bandwidth.copy_mbytes_per_s()
    else:
        name = f"machine of {bench.name}"
        document = read_object(bench, f"--bench {bench}")
        copied = bandwidth.of_bench(document, str(bench))
    progress.note(f"memory, copied by one core: {copied} MB/s read and written", quiet)
    buses = {"memory": copied.value}
    if io_bandwidth is not None:
        buses["io"] = io_bandwidth / 1e6
    else:
        progress.note(
            "the I/O bus cannot be measured without a device that fills it: use --io-bandwidth "
            "for transactions that cross it",
            quiet,
        )
    return Described(name=name, buses_mbytes_per_s=buses, source="measured, one core copying")


@app.command("tls", epilog="Example: perpacket model tls runs/tls-cost")
def tls(directory: DirectoryArgument, output_format: FormatOption = Format.TABLE) -> None:
    """Fit the cost of a TLS handshake and of an encrypted byte to a run of the study `tls-cost`.

    A cost is the processor time that TLS adds to that of the same requests without TLS.
    """
    from perpacket_lab.analysis import tls as model
    from perpacket_lab.analysis.analysis import analyze
    from perpacket_lab.run.directory import RunDirectory

    run = RunDirectory.open(directory)
    costs = model.costs(analyze(run.study(), run))
    if output_format is Format.JSON:
        rows = [
            {
                "server": cost.server,
                "security": cost.security,
                "handshake_us": cost.handshake_us.as_dict(),
                "byte_ns": cost.byte_ns.as_dict(),
                "request_us": cost.request_us.as_dict(),
                "worst_us": cost.worst_us,
            }
            for cost in costs
        ]
        output.write_json({"schema": SCHEMA, "costs": rows})
        return
    names = ("library", "TLS", "handshake, us", "byte, ns", "request, us", "misfit, us")
    cells = [
        (
            *(cost.server, cost.security),
            *(str(estimate) for estimate in (cost.handshake_us, cost.byte_ns, cost.request_us)),
            "" if cost.worst_us is None else f"{cost.worst_us:.1f}",
        )
        for cost in costs
    ]
    title = "What TLS adds to the server's processor time [95 % interval]"
    output.write_table(title, names, cells, right=names[2:])
