"""The hardware of the emulated machine: its processors and its two network cards.

The processors take turns (`thread=single`), a guest nanosecond is one instruction (`shift=0`), and
idle time is skipped (`sleep=off`), so the guest's time does not depend on this machine. The cards
share a hub inside the QEMU process, so no frame leaves the process.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from perpacket.errors import ConfigurationError

MEMORY_MIB = 1024
CODE_MIB = 512
"""Memory for translated code. QEMU's default depends on the memory of this machine."""
PROCESSOR = "qemu64"
"""A processor without fast strings. With them, the kernel would use a `rep` of bytes, which the
emulator counts byte by byte."""

KERNEL_OPTIONS = (
    "console=ttyS0 quiet nokaslr mitigations=off nowatchdog tsc=reliable no_timer_check "
    "random.trust_bootloader=on panic=-1"
)
"""Options of the kernel. `nokaslr`, because symbols need fixed addresses. Watchdogs of clocks are
off."""

MOST_PROCESSORS = 8
MOST_QUEUES = 4
"""Queues whose registers the plugin knows. The card has eight."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine of the documents' studies, or one with several processors and queues."""

    processors: int = 0
    """The server's processors; 0 for the machine with one processor and e1000 cards. The clients
    have the processor after these."""
    queues: int = 1
    """Queues of each card, each for both directions."""

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` for values that the machine cannot have."""
        for option, value, least, most in (
            ("--processors", self.processors, 0, MOST_PROCESSORS),
            ("--queues", self.queues, 1, MOST_QUEUES),
        ):
            if not least <= value <= most:
                raise ConfigurationError(
                    f"{option} {value}: expected 1 to {most}", parameter=option
                )
        if self.queues > 1 and not self.processors:
            raise ConfigurationError(
                f"--queues {self.queues}: a machine without --processors has e1000 cards, which "
                "have one queue",
                parameter="--queues",
                hint=f"add --processors, such as --processors {self.queues}",
            )

    def as_dict(self) -> dict[str, int]:
        """The hardware for a result; empty for the machine of the documents' studies."""
        return asdict(self) if self.processors else {}

    @property
    def servers(self) -> int:
        """The number of the server's processors. The clients' processor has this number."""
        return self.processors or 1

    @property
    def server_mask(self) -> str:
        """The server's processors, as `taskset` reads a mask."""
        return f"{(1 << self.servers) - 1:x}"

    @property
    def client_mask(self) -> str:
        """The clients' processor, as `taskset` reads a mask."""
        return f"{1 << self.servers:x}"

    @property
    def server_list(self) -> str:
        """The server's processors, as a list of the agent: `0`, or `0-3`."""
        return "0" if self.servers == 1 else f"0-{self.servers - 1}"

    @property
    def card(self) -> str:
        """The driver of the cards."""
        return "igb" if self.processors else "e1000"

    @property
    def needed(self) -> tuple[str, ...]:
        """The modules that the guest needs: the cards' driver, and the queue that adds latency."""
        return (self.card, "sch_netem")

    @property
    def kernel_options(self) -> str:
        """The kernel's options. Init reads the last ones."""
        if not self.processors:
            return KERNEL_OPTIONS
        return f"{KERNEL_OPTIONS} servers={self.processors} card={self.card} queues={self.queues}"

    @property
    def options(self) -> tuple[str, ...]:
        """QEMU's options. A snapshot is only valid for the hardware with which it was made."""
        machine = "pc"
        ports: list[str] = []
        places = ["addr=4", "addr=5"]
        if self.processors:
            machine, places = "q35", ["bus=a", "bus=b"]
            # Each igb card needs a bus of its own for its virtual functions.
            for number, name in enumerate("ab", start=1):
                ports += ["-device", f"pcie-root-port,id={name},chassis={number},addr={number}"]
        return (
            *("-M", machine, "-accel", f"tcg,thread=single,tb-size={CODE_MIB}"),
            *("-smp", str(self.servers + 1)),
            *("-cpu", PROCESSOR, "-seed", "1", "-m", str(MEMORY_MIB)),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-icount", "shift=0,sleep=off", "-rtc", "base=2020-01-01,clock=vm"),
            *("-netdev", "hubport,id=a,hubid=0", "-netdev", "hubport,id=b,hubid=0"),
            *ports,
            *("-device", f"{self.card},netdev=a,mac=52:54:00:00:00:01,{places[0]},romfile="),
            *("-device", f"{self.card},netdev=b,mac=52:54:00:00:00:02,{places[1]},romfile="),
        )


ONE = Hardware()
"""The machine of the documents' studies."""
