"""`perpacket emulate`: cache misses per packet of an unmodified kernel, without a PMU."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import output, progress
from perpacket.cli.destination import check_destination
from perpacket.cli.options import Format, FormatOption, QuietOption
from perpacket.cli.quantities import bits_per_s, seconds, size_bytes
from perpacket.errors import ConfigurationError
from perpacket.whole_file import write_whole
from perpacket_lab.cli.emulate_changes import ChangeOption, compare_changes
from perpacket_lab.cli.emulate_compare import compare
from perpacket_lab.cli.emulate_kernels import kernels

if TYPE_CHECKING:
    from perpacket_lab.emulate.hardware import Hardware
    from perpacket_lab.emulate.session import Guest, Session
    from perpacket_lab.show.notebook.emulated import EmulatedRun

EXAMPLES = (
    "Examples: perpacket emulate --server nginx --connections 32 · perpacket emulate --server bulk "
    "--connections 2048 --latency 20ms --l2 256K:16,512K:16 --format json · "
    "perpacket emulate --server 'lighttpd -D -f /etc/lighttpd.conf' --tlb 1024 · "
    "perpacket emulate --connections 1 --requests 500 --change nft-rules=200"
)


class CountedBy(StrEnum):
    """How costs are divided."""

    LAYER = "layer"
    FUNCTION = "function"
    STRUCTURE = "structure"


RECORD_BYTES = 4000
"""Approximate size of a recording of nginx, in bytes for each packet of warm-up and window."""
SEVERAL_RECORD_BYTES = 35_000
"""The same for several processors: a recording has the words of each access."""

app = typer.Typer(invoke_without_command=True, epilog=EXAMPLES)

KernelOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE|debian:VERSION",
        help="Kernel to run: a bzImage or vmlinux, or a kernel of Debian such as debian:6.12 "
        "(`emulate kernels` lists them). By default the kernel of Debian's package "
        "linux-image-amd64. Packages are unpacked and not installed.",
    ),
]
ModulesOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the kernel's modules, by default /lib/modules/VERSION."),
]
ServerOption = Annotated[
    str,
    typer.Option(
        metavar="NAME|COMMAND",
        help="nginx, web (`serve web`), bulk (`load stream`), or the command of another server; "
        "{root}, {address} and {port} in it are replaced.",
    ),
]
ServerFilesOption = Annotated[
    list[Path] | None,
    typer.Option(help="A file or folder that the other server needs; may be repeated."),
]
ServerRootOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER|TAR",
        help="Root folder of the other server: an unpacked root, or the tar of an OCI image.",
    ),
]
ServerEnvOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", help="A variable of the other server's environment; may be repeated."
    ),
]

ClientOption = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="Command of the clients, by default perpacket's load generator; {address}, {port} and "
        "{connections} in it are replaced.",
    ),
]
CountFunctionOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="With --requests: a request is a call of this function of the server."
    ),
]
CountSyscallOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="With --requests: a request is a call of this system call, as read."
    ),
]
CountOutputOption = Annotated[
    str,
    typer.Option(
        metavar="REGEX",
        help="Count during the second run of --client; its output has the number of requests "
        "where the group of REGEX is.",
    ),
]

ProcessorsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Processors of the server, 1 to 8, with coherent caches and igb cards. By default the "
        "machine has one, and e1000 cards.",
    ),
]
QueuesOption = Annotated[
    int, typer.Option(help="Queues of each igb card, 1 to 4. Queue K interrupts processor K.")
]

ThirdOption = Annotated[
    str,
    typer.Option(
        metavar="SIZE:WAYS:PROCESSORS",
        help="A third level that groups of so many processors share, or none; with --processors.",
    ),
]
ProtocolOption = Annotated[
    str, typer.Option(help="Protocol of the caches of several processors: mesi or moesi.")
]

FirstOption = Annotated[
    str, typer.Option(metavar="SIZE:WAYS,...", help="First-level caches of data and instructions.")
]
SecondOption = Annotated[
    str, typer.Option(metavar="SIZE:WAYS,...", help="Second-level caches; one pass models all.")
]
PolicyOption = Annotated[
    str, typer.Option(help="non-inclusive, inclusive or exclusive second levels.")
]
PrefetchOption = Annotated[str, typer.Option(help="none, or next-line into the second level.")]
TlbOption = Annotated[int, typer.Option(help="Entries of each TLB; 0 for none.")]
CyclesOption = Annotated[
    str,
    typer.Option(
        metavar="MACHINE",
        help="Latencies of the modelled cycles: osdi06, or athlon-xp-2600. Cycles are not "
        "measured.",
    ),
]
DmaOption = Annotated[
    str,
    typer.Option(
        help="Effect of a frame's DMA on caches: invalidate its lines, allocate them in the second "
        "level, or none."
    ),
]


@app.callback(invoke_without_command=True)
def emulate(
    context: typer.Context,
    server: ServerOption = "nginx",
    connections: Annotated[int, typer.Option(help="Connections of the clients.")] = 32,
    client: ClientOption = None,
    latency: Annotated[
        float,
        typer.Option(parser=seconds, metavar="TIME", help="Added latency, one way."),
    ] = 0.0,
    bit_rate: Annotated[
        int,
        typer.Option(
            parser=bits_per_s,
            metavar="RATE",
            help="Payload rate of the bulk sender, by default without a limit.",
        ),
    ] = 0,
    size: Annotated[
        int,
        typer.Option(
            parser=size_bytes,
            metavar="SIZE",
            help="Bytes of a response (default 10240), or of a write of the bulk sender (default "
            "1448).",
        ),
    ] = 0,
    offloads: Annotated[
        bool, typer.Option("--offloads", help="Leave TSO, GSO and GRO as the driver sets them.")
    ] = False,
    socket_buffer: Annotated[
        int,
        typer.Option(
            parser=size_bytes,
            metavar="SIZE",
            help="Buffers of each socket; 0 lets the kernel grow them.",
        ),
    ] = "32KiB",  # type: ignore[assignment]  # typer parses it
    l1: FirstOption = "64K:2",
    l2: SecondOption = "256K:16,512K:16,1M:16",
    policy: PolicyOption = "non-inclusive",
    prefetch: PrefetchOption = "none",
    tlb: TlbOption = 64,
    dma: DmaOption = "invalidate",
    cycles: CyclesOption = "osdi06",
    processors: ProcessorsOption = None,
    queues: QueuesOption = 1,
    l3: ThirdOption = "none",
    protocol: ProtocolOption = "mesi",
    turn_instructions: Annotated[
        int, typer.Option(help="Instructions of one processor before another one runs.")
    ] = 20_000,
    frames: Annotated[
        int,
        typer.Option(
            help="Packets to count, sent and received. A few more are counted if the card moves "
            "several at once."
        ),
    ] = 10_000,
    requests: Annotated[
        int,
        typer.Option(
            help="HTTP requests to count, instead of --frames. The window begins and ends with a "
            "response."
        ),
    ] = 0,
    count_function: CountFunctionOption = "",
    count_syscall: CountSyscallOption = "",
    count_output: CountOutputOption = "",
    warmup_requests: Annotated[
        int,
        typer.Option(
            help="Requests before such a window, by default 400 plus one for each connection."
        ),
    ] = 0,
    warmup_frames: Annotated[
        int,
        typer.Option(
            help="Packets before counting begins, by default 4000 plus 12 for each connection."
        ),
    ] = 0,
    replications: Annotated[
        int,
        typer.Option(
            help="Number of runs. Each has another start of the window and another memory layout."
        ),
    ] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the load and the memory layout.")] = 1,
    by: Annotated[
        CountedBy,
        typer.Option(
            help="Divide costs by layer or by layer and function, or divide data misses by kernel "
            "structure."
        ),
    ] = CountedBy.LAYER,
    rules: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file of rules that override the built-in ones, as for `profile`.",
        ),
    ] = None,
    guest_setup: Annotated[
        Path | None,
        typer.Option(
            metavar="SCRIPT",
            help="Shell script that the guest runs before its server starts. `$inside COMMAND` "
            "runs a command on the clients' side.",
        ),
    ] = None,
    change: ChangeOption = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the JSON, with all functions, for `emulate compare`."
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Write the first variant's accesses to this file, for `emulate replay`."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of runs at the same time, by default one for each core. Changes no "
            "result.",
        ),
    ] = None,
    kernel: KernelOption = None,
    modules: ModulesOption = None,
    server_files: ServerFilesOption = None,
    server_root: ServerRootOption = None,
    server_env: ServerEnvOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Run an unmodified kernel and server on an emulated machine; report the cost of a packet.

    Counts instructions and misses of modelled caches by layer, kind and direction. The counts of a
    stored guest are the same, whatever else runs on this machine. Needs QEMU 10 and no root.
    """
    if context.invoked_subcommand is not None:
        return
    from perpacket_lab import api
    from perpacket_lab.emulate.hardware import Hardware
    from perpacket_lab.emulate.settings import Memory, Scenario, Settings

    settings = Settings(
        Scenario(
            server,
            connections,
            size,
            latency * 1e3,
            bit_rate / 1e6,
            offloads,
            socket_buffer,
            client=client or "",
        ),
        Memory.of(l1, l2, policy, prefetch, tlb, dma, l3, protocol),
        frames=frames,
        warmup_frames=warmup_frames,
        requests=requests,
        warmup_requests=warmup_requests,
        function=count_function,
        system_call=count_syscall,
        output=count_output,
        variants=replications,
        turn_instructions=turn_instructions,
        seed=seed,
        by=(CountedBy.FUNCTION if save is not None and by is CountedBy.LAYER else by).value,
        rules=rules,
        setup=guest_setup,
        cycles=cycles,
        hardware=Hardware(processors or 0, queues),
    )
    inputs = replace(
        guest(
            kernel,
            modules,
            settings.scenario.command,
            server_files,
            server_root,
            server_env,
            hardware=settings.hardware,
        ),
        client=settings.scenario.client_command,
    )
    if change:
        for option in [name for name, file in (("--save", save), ("--record", record)) if file]:
            raise ConfigurationError(
                f"--change and {option}: a comparison is no single emulation", parameter=option
            )
        compare_changes(settings, inputs, change, output_format, workers or 0, stage(quiet), quiet)
        return
    if save is not None:
        check_destination("--save", save)
    if record is not None:
        check_destination("--record", record)
        each = SEVERAL_RECORD_BYTES if processors else RECORD_BYTES
        size_mb = (settings.frames + settings.warmup) * each / 1e6
        progress.note(f"the recording needs about {size_mb:,.0f} MB", quiet)
    with progress.of_share(quiet) as report:
        run = api.emulate(
            settings,
            inputs,
            workers=workers or 0,
            record=record,
            on_stage=stage(quiet),
            on_progress=report,
        )
    if save is not None:
        write_whole(save, json.dumps(run.as_dict()) + "\n")
    show(run, output_format)


@app.command(epilog="Example: perpacket emulate prepare --kernel /boot/vmlinuz-6.1.0-28-amd64")
def prepare(
    install: Annotated[
        bool,
        typer.Option(
            "--install", help="First install QEMU and busybox from Debian's packages, as root."
        ),
    ] = False,
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Remove all stored guests and kernels, and boot none."),
    ] = False,
    kernel: KernelOption = None,
    modules: ModulesOption = None,
    server: ServerOption = "nginx",
    server_files: ServerFilesOption = None,
    server_root: ServerRootOption = None,
    server_env: ServerEnvOption = None,
    processors: ProcessorsOption = None,
    queues: QueuesOption = 1,
    quiet: QuietOption = False,
) -> None:
    """Boot a guest and store it, so that emulations start at once.

    `perpacket emulate` does the same when a guest is missing. The kernel's package is unpacked into
    the cache folder and not installed.
    """
    from perpacket_lab.emulate import folders
    from perpacket_lab.emulate.hardware import Hardware
    from perpacket_lab.emulate.settings import Scenario

    if remove:
        output.write_line(f"removed {folders.remove_stored() / 1e6:,.0f} MB in {folders.cache()}")
        return
    if install:
        from perpacket_lab.emulate.install import install as install_packages

        install_packages(lambda text: progress.note(text, quiet))
    command = Scenario(server).command
    inputs = guest(
        kernel,
        modules,
        command,
        server_files,
        server_root,
        server_env,
        newest=True,
        hardware=Hardware(processors or 0, queues),
    )
    session = open_session(inputs, quiet)
    output.write_line(f"Linux {session.machine.kernel} is ready in {session.machine.folder}")


app.command(
    epilog="Example: perpacket emulate --server './server {port}' --connections 1 --requests 500 "
    "--save old.json, later the same with --save new.json, then perpacket emulate compare old.json "
    "new.json --fail-if 'instructions_per_request > 1.01'"
)(compare)
app.command(
    epilog="Example: perpacket emulate kernels, then perpacket emulate --kernel debian:6.12"
)(kernels)


@app.command(epilog="Example: perpacket emulate shell")
def shell(
    kernel: KernelOption = None,
    modules: ModulesOption = None,
    server: ServerOption = "nginx",
    server_files: ServerFilesOption = None,
    server_root: ServerRootOption = None,
    server_env: ServerEnvOption = None,
    processors: ProcessorsOption = None,
    queues: QueuesOption = 1,
) -> None:
    """Open a shell in the guest. `exit` ends the guest and discards all changes."""
    from perpacket_lab.emulate.hardware import Hardware
    from perpacket_lab.emulate.machine import Machine
    from perpacket_lab.emulate.settings import Scenario
    from perpacket_lab.emulate.work import UNPACK

    inputs = guest(
        kernel,
        modules,
        Scenario(server).command,
        server_files,
        server_root,
        server_env,
        hardware=Hardware(processors or 0, queues),
    )
    session = open_session(inputs, False)
    arguments = {"turn": "20000"}
    with Machine(
        session.emulator,
        session.machine.boot,
        session.plugin,
        arguments,
        incoming=True,
        work=f"{UNPACK}\nexec setsid cttyhack sh\n".encode(),
        files=session.files,
        terminal=True,
    ) as machine:
        machine.restore(session.machine.state)
        machine.wait()


@app.command(epilog="Example: perpacket emulate replay nginx.rec --l2 256K:16,4M:16 --tlb 1024")
def replay(
    file: Annotated[Path, typer.Argument(help="A recording of `emulate --record`.")],
    l1: FirstOption = "64K:2",
    l2: SecondOption = "256K:16,512K:16,1M:16",
    policy: PolicyOption = "non-inclusive",
    prefetch: PrefetchOption = "none",
    tlb: TlbOption = 64,
    dma: DmaOption = "invalidate",
    cycles: CyclesOption = "osdi06",
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Count the misses of other caches on a recording; an emulation would count the same."""
    from perpacket_lab.emulate.replay import replay as replayed
    from perpacket_lab.emulate.settings import Memory
    from perpacket_lab.show.notebook.emulated import EmulatedRun

    memory = Memory.of(l1, l2, policy, prefetch, tlb, dma)
    show(EmulatedRun(replayed(file, memory, cycles)), output_format)


@app.command(epilog="Example: perpacket emulate footprint bulk.rec --name linux-6.12")
def footprint(
    file: Annotated[Path, typer.Argument(help="A recording of `emulate --server bulk --record`.")],
    name: Annotated[str, typer.Option(help="Name of the machine.")] = "recorded",
) -> None:
    """Print a machine for the simulator: the memory that each recorded operation touches.

    The output is a parameter file like those in lab/crates/simulate/data/machines.
    """
    from perpacket_lab.emulate import footprint as footprints

    output.write_line(footprints.machine(footprints.footprint(file), name).rstrip())


def guest(
    kernel: Path | None,
    modules: Path | None,
    command: list[str],
    server_files: list[Path] | None,
    server_root: Path | None,
    server_env: list[str] | None,
    *,
    newest: bool = False,
    hardware: Hardware | None = None,
) -> Guest:
    """The guest that the options describe."""
    from perpacket_lab.emulate.hardware import ONE
    from perpacket_lab.emulate.session import Guest

    return Guest(
        kernel,
        modules,
        command,
        server_files or (),
        newest,
        server_root,
        server_env or (),
        hardware=hardware or ONE,
    )


def open_session(guest: Guest, quiet: bool) -> Session:
    """Open the session of a guest. A note reports the boot of the guest, which takes a minute."""
    from perpacket_lab.emulate.session import open_session as opened

    return opened(guest, stage(quiet))


def stage(quiet: bool) -> Callable[[str], None]:
    """A function that prints what is prepared."""
    return lambda text: progress.note(f"{text} ...", quiet)


def show(run: EmulatedRun, output_format: Format) -> None:
    """Print the result of an emulation."""
    if output_format is Format.JSON:
        output.write_json(run.as_dict())
        return
    output.write_line(run.headline)
    for table in run.tables():
        output.write_rows(table)
    for limit in run.document["limits"]:
        output.write_line(f"note: {limit}")
