"""The settings of one emulation: the scenario, the modelled caches, and the numbers of packets."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from perpacket.errors import ConfigurationError
from perpacket_lab.emulate.caches import Shape, shape, shapes
from perpacket_lab.emulate.cycles import MACHINES
from perpacket_lab.emulate.hardware import ONE, Hardware

Protocol = Literal["mesi", "moesi"]
Policy = Literal["non-inclusive", "inclusive", "exclusive"]
Dma = Literal["invalidate", "allocate", "none"]

STREAMS = ("bulk", "bulk-receive")
"""The sender and the receiver of bulk data, both `load stream`."""
DATAGRAMS = ("datagrams", "forward")
"""A server that answers each datagram, and a router that forwards datagrams."""
TLS = "web-tls"
"""`serve web` with TLS. The emulator cannot read its responses."""

PLACEHOLDERS = ("{root}", "{address}", "{port}", "{connections}")
"""The words of a server's or client's command that have values in the guest."""
PLACEHOLDER = re.compile(r"\{[a-z]+\}")

OWN_SERVERS = ("nginx", "web", TLS, *STREAMS, *DATAGRAMS)
"""Servers that perpacket configures."""

DEFAULT_SIZES = dict.fromkeys(STREAMS, 1448) | dict.fromkeys(DATAGRAMS, 64)
"""Default size of a write, one full segment with a timestamp, and of a datagram."""
MOST_DATAGRAM = 1472
"""Bytes of the longest datagram in one frame."""
WEB_BYTES = 10_240

WARMUP_FRAMES = 4000
WARMUP_FRAMES_PER_CONNECTION = 12
"""Frames for each connection before counting begins, while TCP's window grows and caches fill."""

WARMUP_REQUESTS = 400
"""Requests before counting begins in a window of requests, besides one for each connection."""

TURN_INSTRUCTIONS = 20_000
SOCKET_BUFFER_BYTES = 32_768
LEAST_SOCKET_BUFFER = 4096
"""The default `min` of tcp_rmem and tcp_wmem (Documentation/networking/ip-sysctl.rst)."""
MOST_SOCKET_BUFFER = 64 << 20
MOST_CONNECTIONS = 20_000
GREATEST_SEED = 1_000_000_000
VARIANTS = 5

TLB_ENTRIES = 64
TLB_WAYS = 4


@dataclass(frozen=True, slots=True)
class Scenario:
    """A server, its clients and the network between them."""

    server: str = "nginx"
    """One of `OWN_SERVERS`, or the command of another server."""
    connections: int = 32
    size_bytes: int = 0
    """Bytes of a response, or of a write of the bulk sender; 0 for the server's default."""
    latency_ms: float = 0.0
    """Added one way."""
    rate_mbps: float = 0.0
    """Payload rate of the bulk sender; 0 for as fast as possible."""
    offloads: bool = False
    """Whether TSO, GSO and GRO stay as the driver sets them."""
    socket_buffer_bytes: int = SOCKET_BUFFER_BYTES
    """Bytes of the buffers of each socket; 0 lets the kernel grow them."""
    keep_alive: bool = True
    """Whether requests share connections; if not, each request of a web client opens one."""
    server_options: str = ""
    """Options of `web`, or directives of nginx, in which `{folder}` is a folder for its files."""
    client: str = ""
    """The command of the clients, in place of the load generator; empty for that."""

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` for values that cannot be run."""
        within("--connections", self.connections, 1, MOST_CONNECTIONS)
        within("--latency in ms", self.latency_ms, 0, 10_000)
        within("--bit-rate in Mb/s", self.rate_mbps, 0, 100_000)
        within("--size", self.size_bytes, 0, 100_000_000)
        if self.socket_buffer_bytes:
            size = self.socket_buffer_bytes
            within("--socket-buffer", size, LEAST_SOCKET_BUFFER, MOST_SOCKET_BUFFER, "0, or ")
        if self.server in DATAGRAMS:
            within("--size", self.bytes, 1, MOST_DATAGRAM)
        if self.rate_mbps and not self.is_bulk:
            raise ConfigurationError(
                f"--bit-rate {self.rate_mbps:g}Mb/s: only the server bulk sends at a rate",
                parameter="--bit-rate",
                hint="clients of a web server send their next request after each response",
            )
        if not self.words:
            raise ConfigurationError("--server: expected a server", parameter="--server")
        if self.client and not self.is_http:
            raise ConfigurationError(
                f"--client: the server {self.server} has clients of its own", parameter="--client"
            )
        if self.client and not self.client_command:
            raise ConfigurationError("--client: expected a command", parameter="--client")

    @property
    def is_bulk(self) -> bool:
        """Whether the server sends or receives bulk data."""
        return self.server in STREAMS

    @property
    def is_http(self) -> bool:
        """Whether the server sends responses that the emulator can read."""
        return self.server not in (*STREAMS, *DATAGRAMS, TLS)

    @property
    def words(self) -> list[str]:
        """The command of another server, as words; raises `ConfigurationError`."""
        return words_of("--server", self.server)

    @property
    def command(self) -> list[str]:
        """The command of a server that is not in `OWN_SERVERS`; empty for those in it."""
        return [] if self.server in OWN_SERVERS else self.words

    @property
    def client_command(self) -> list[str]:
        """The command of the clients; empty for the load generator."""
        return words_of("--client", self.client)

    @property
    def program(self) -> str:
        """The program of the server."""
        return {"web": "perpacket-agent", "bulk": "perpacket-agent"}.get(self.server, self.words[0])

    @property
    def bytes(self) -> int:
        """Bytes of a response or of a write."""
        return self.size_bytes or DEFAULT_SIZES.get(self.server, WEB_BYTES)


@dataclass(frozen=True, slots=True)
class Memory:
    """The modelled caches; any number of first and second levels are modelled in one pass."""

    l1: tuple[Shape, ...] = (Shape(64, 2),)
    """First levels. Each is a cache for instructions and an equal cache for data."""
    l2: tuple[Shape, ...] = (Shape(256, 16), Shape(512, 16), Shape(1024, 16))
    policy: Policy = "non-inclusive"
    next_line: bool = False
    tlb_entries: int = TLB_ENTRIES
    """Entries of each translation cache, in sets of four; 0 for none."""
    dma: Dma = "invalidate"
    l3: Shape | None = None
    """The third level, which groups of `l3_processors` processors share."""
    l3_processors: int = 0
    protocol: Protocol = "mesi"
    """The protocol that keeps the caches of several processors coherent."""

    @classmethod
    def of(
        cls,
        l1: str,
        l2: str,
        policy: str,
        prefetch: str,
        tlb: int,
        dma: str,
        l3: str = "none",
        protocol: str = "mesi",
    ) -> Memory:
        """The caches that the options describe; raises `ConfigurationError`."""
        for option, value, allowed in (
            ("--policy", policy, ("non-inclusive", "inclusive", "exclusive")),
            ("--prefetch", prefetch, ("none", "next-line")),
            ("--dma", dma, ("invalidate", "allocate", "none")),
            ("--protocol", protocol, ("mesi", "moesi")),
        ):
            if value not in allowed:
                raise ConfigurationError(
                    f"{option} {value}: expected {', '.join(allowed)}", parameter=option
                )
        if tlb and (tlb < TLB_WAYS or tlb & (tlb - 1) or tlb > 65_536):
            raise ConfigurationError(
                f"--tlb {tlb}: expected 0 or a power of two from {TLB_WAYS} to 65536",
                parameter="--tlb",
            )
        third, _, sharers = l3.rpartition(":")
        if l3 != "none" and (not third or not re.fullmatch("[1-8]", sharers)):
            raise ConfigurationError(
                f"--l3 {l3}: expected SIZE:WAYS:PROCESSORS or none", parameter="--l3"
            )
        return cls(
            shapes("--l1", l1),
            shapes("--l2", l2),
            policy,  # type: ignore[arg-type]  # checked above
            prefetch == "next-line",
            tlb,
            dma,  # type: ignore[arg-type]
            shape("--l3", third) if third else None,
            int(sharers) if third else 0,
            protocol,  # type: ignore[arg-type]
        )

    @property
    def coherence(self) -> dict[str, str]:
        """The arguments of the plugin for the caches of several processors."""
        third = f"{self.l3.kib}:{self.l3.ways}:{self.l3_processors}" if self.l3 else "none"
        return {"l3": third, "protocol": self.protocol}

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments of the plugin for these caches."""
        return {
            "l1": "+".join(f"{one.kib}:{one.ways}" for one in self.l1),
            "l2": "+".join(f"{one.kib}:{one.ways}" for one in self.l2),
            "policy": self.policy,
            "prefetch": "next-line" if self.next_line else "none",
            "tlb": f"{self.tlb_entries}:{TLB_WAYS}" if self.tlb_entries else "none",
            "dma": self.dma,
        }


@dataclass(frozen=True, slots=True)
class Settings:
    """One emulation."""

    scenario: Scenario = field(default_factory=Scenario)
    memory: Memory = field(default_factory=Memory)
    frames: int = 10_000
    """The number of frames to count: the sum of those sent and those received."""
    warmup_frames: int = 0
    """Frames before counting begins; 0 for a number that grows with the connections."""
    requests: int = 0
    """If not 0, the number of HTTP requests to count instead of `frames`."""
    warmup_requests: int = 0
    """Requests before such a window; 0 for a number that grows with the connections."""
    function: str = ""
    """The function of the server whose calls are the requests."""
    system_call: str = ""
    """The system call whose calls are the requests."""
    output: str = ""
    """A regular expression whose group is a number of requests in the output of the client. The
    window is then its second run."""
    variants: int = VARIANTS
    """The number of runs, each with another start of the window and another memory layout."""
    turn_instructions: int = TURN_INSTRUCTIONS
    """Instructions of one processor before the other processor runs."""
    seed: int = 1
    by: Literal["layer", "function", "structure"] = "layer"
    rules: Path | None = None
    """A file of rules that have priority over the built-in ones."""
    setup: Path | None = None
    """A script that the guest runs before its server starts."""
    changes: tuple[str, ...] = ()
    """Changes of the catalogue that the guest makes, such as `tso=off`."""
    cycles: str = MACHINES[0]
    """The machine of the simulator whose latencies the modelled cycles have."""
    hardware: Hardware = ONE

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` for values that cannot be run."""
        within("--frames", self.frames, 10, 100_000_000)
        within("--warmup-frames", self.warmup_frames, 0, 100_000_000)
        within("--requests", self.requests, 0, 100_000_000)
        within("--warmup-requests", self.warmup_requests, 0, 100_000_000)
        within("--replications", self.variants, 1, 100)
        within("--turn-instructions", self.turn_instructions, 1000, 1_000_000_000)
        within("--seed", self.seed, 0, GREATEST_SEED)
        if self.requests and not self.scenario.is_http:
            raise ConfigurationError(
                f"--requests {self.requests}: the server {self.scenario.server} has no responses "
                "that can be counted",
                parameter="--requests",
                hint="--frames sets the length of its window",
            )
        if self.warmup_requests and not self.requests:
            raise ConfigurationError(
                "--warmup-requests needs --requests", parameter="--warmup-requests"
            )
        self._check_counts()
        if self.rules and not self.rules.is_file():
            raise ConfigurationError(f"--rules {self.rules}: no such file", parameter="--rules")
        if self.setup and not self.setup.is_file():
            raise ConfigurationError(
                f"--guest-setup {self.setup}: no such file", parameter="--guest-setup"
            )
        if self.hardware.processors:
            check_shared(self.memory, self.hardware)
        elif self.memory.l3 or self.memory.protocol != "mesi":
            option = "--l3" if self.memory.l3 else "--protocol"
            raise ConfigurationError(f"{option} needs --processors", parameter=option)
        if self.cycles not in MACHINES:
            raise ConfigurationError(
                f"--cycles {self.cycles}: expected {' or '.join(MACHINES)}", parameter="--cycles"
            )

    def _check_counts(self) -> None:
        given = {
            "--count-function": self.function,
            "--count-syscall": self.system_call,
            "--count-output": self.output,
        }
        options = [option for option, value in given.items() if value]
        if len(options) > 1:
            raise ConfigurationError(
                f"{options[0]} and {options[1]}: requests are counted in one way",
                parameter=options[1],
            )
        if self.counts_calls and not self.requests:
            raise ConfigurationError(f"{options[0]} needs --requests", parameter=options[0])
        if not self.output:
            return
        if not self.scenario.client or self.requests:
            raise ConfigurationError(
                "--count-output needs --client, and excludes --requests: the window is the second "
                "run of the client",
                parameter="--count-output",
            )
        try:
            groups = re.compile(self.output).groups
        except re.error as error:
            raise ConfigurationError(
                f"--count-output {self.output}: {error}", parameter="--count-output"
            ) from None
        if groups != 1:
            raise ConfigurationError(
                f"--count-output {self.output}: expected a regular expression with one group, "
                "the number",
                parameter="--count-output",
                hint=r"for example --count-output '(\d+) requests completed'",
            )

    @property
    def counts_calls(self) -> bool:
        """Whether a request is a call of a function or system call."""
        return bool(self.function or self.system_call)

    @property
    def warmup(self) -> int:
        """The number of frames, or of requests, before counting begins."""
        connections = self.scenario.connections
        if self.requests:
            return self.warmup_requests or WARMUP_REQUESTS + connections
        return self.warmup_frames or WARMUP_FRAMES + WARMUP_FRAMES_PER_CONNECTION * connections

    def as_dict(self) -> dict[str, object]:
        """The settings for a result."""
        scenario = asdict(self.scenario) | {"size_bytes": self.scenario.bytes}
        for name in ("server_options", "client"):
            if not scenario[name]:
                del scenario[name]
        memory = asdict(self.memory)
        return {
            **scenario,
            **{name: memory[name] for name in ("policy", "tlb_entries", "dma")},
            "prefetch": "next-line" if self.memory.next_line else "none",
            **(
                {"requests": self.requests, "warmup_requests": self.warmup}
                if self.requests
                else {"frames": self.frames, "warmup_frames": self.warmup}
            ),
            **{
                name: value
                for name, value in (
                    ("count_function", self.function),
                    ("count_syscall", self.system_call),
                    ("count_output", self.output),
                )
                if value
            },
            "turn_instructions": self.turn_instructions,
            **self.hardware.as_dict(),
            **(self.memory.coherence if self.hardware.processors else {}),
            "seed": self.seed,
            **({"rules": str(self.rules)} if self.rules else {}),
            **({"guest_setup": str(self.setup)} if self.setup else {}),
            **({"changes": list(self.changes)} if self.changes else {}),
        }


def words_of(option: str, command: str) -> list[str]:
    """The words of a command; raises `ConfigurationError`, which names its option."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigurationError(
            f"{option} {command}: {str(error).lower()}", parameter=option
        ) from None
    for word in words:
        value = word.rpartition("=")[2]
        if PLACEHOLDER.fullmatch(value) and value not in PLACEHOLDERS:
            raise ConfigurationError(
                f"{option} {command}: {value} is not known, expected {', '.join(PLACEHOLDERS)}",
                parameter=option,
            )
    return words


def check_shared(memory: Memory, hardware: Hardware) -> None:
    """Raise `ConfigurationError` for caches that cannot be modelled for several processors."""
    if memory.l3_processors > hardware.processors:
        raise ConfigurationError(
            f"--l3: {memory.l3_processors} processors share a third level, expected at most the "
            f"{hardware.processors} of --processors",
            parameter="--l3",
        )
    if memory.dma == "allocate" and memory.l3 is None:
        raise ConfigurationError(
            "--dma allocate: with --processors the card writes into the third level",
            parameter="--dma",
            hint="add a third level, such as --l3 8M:16:4",
        )
    for option, value, is_possible, expected in (
        ("--policy", memory.policy, memory.policy == "non-inclusive", "non-inclusive"),
        ("--prefetch", "next-line", not memory.next_line, "none"),
        ("--l1", ",".join(map(str, memory.l1)), len(memory.l1) == 1, "one size"),
    ):
        if not is_possible:
            raise ConfigurationError(
                f"{option} {value}: expected {expected} with --processors",
                parameter=option,
                hint="caches that are kept coherent are modelled only so",
            )


def within(option: str, value: float, least: float, most: float, also: str = "") -> None:
    """Raise `ConfigurationError` unless `value` is from `least` to `most`.

    `also` names other values, which the caller accepts.
    """
    if not least <= value <= most:
        raise ConfigurationError(
            f"{option} {value:,.10g}: expected {also}{least:,.10g} to {most:,.10g}",
            parameter=option,
        )


__all__ = ["Memory", "Scenario", "Settings", "shape"]
