"""Every quantity of a result and of a document, as `quantities.toml` lists them.

A quantity is a number that is computed from one observation, a flat row with dotted names. A
*column* is a number of the result, named by its key (`layers.tcp.cpu_ns_per_segment`). A *named
quantity* is computed from columns (`busy_share.TCP`), and may compare an observation with that of a
baseline (`gain_request_rate`).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import accumulate, product
from typing import Final, Literal

from perpacket.errors import CorruptObservation
from perpacket_lab.study import other_programs

Row = Mapping[str, object]
"""One observation: `point`, `configuration`, `seed`, factors and the result's numbers."""

Rows = Mapping[str, Mapping[int, Row]]
"""Observations by point and seed."""

Value = Callable[[Row], float | None]
"""A quantity of an observation; None if it has no meaning."""

Kind = Literal["amount", "share", "percent", "change"]

BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "amount": (0.0, math.inf),
    "share": (0.0, 1.0),
    "percent": (0.0, 100.0),
    "change": (-math.inf, math.inf),
}
"""The least and the greatest value of a quantity of each kind."""

REGIONS: Final = {
    "User": ("user",),
    "SystemCall": ("syscall", "socket"),
    "TCP": ("tcp",),
    "IP": ("ip",),
    "Ethernet": ("ethernet",),
    "Driver": ("driver", "bypass"),
    "Other": ("udp", "interrupt", "scheduler", "other"),
    "Stack": ("syscall", "socket", "tcp", "ip", "ethernet", "driver", "bypass"),
}
"""The layers of each region of TR05-450 (section 3; its "stack" is five of the seven regions),
without the idle processor. `Layer::region` in crates/base/cost is the same table."""

SEVEN: Final = tuple(region for region in REGIONS if region != "Stack")
"""The seven regions of the busy processor."""

NETWORK: Final = ("socket", "tcp", "udp", "ip", "ethernet")
"""The layers of the network code of Communication Breakdown (2004), without the NIC's driver."""

CLIENT_IDLE_LEAST: Final = 0.10
"""The least idle share of the clients' processor time. Below this share, the clients may be the
limit, and the result may include queueing in the clients."""

BUSY: Final = tuple(dict.fromkeys(layer for region in SEVEN for layer in REGIONS[region]))
"""Every layer except the idle processor."""

CPU_LAYERS: Final[Mapping[str, Sequence[str]]] = {
    "network": NETWORK,
    "driver": ("driver",),
    "network and driver": (*NETWORK, "driver"),
    "scheduling": ("scheduler",),
    "kernel": [layer for layer in BUSY if layer != "user"],
}
"""The layers of each part of the server's busy time."""

EVENTS: Final = {
    "cycles": ("cycles_per_packet", "cycles", "cycles/packet"),
    "instructions": ("instructions_per_packet", "instructions", "instructions/packet"),
    "l1_misses": ("l1d_misses_per_packet", "l1 misses", "misses/packet"),
    "l1i_misses": ("l1i_misses_per_packet", "l1 instruction misses", "misses/packet"),
    "l2_misses": ("l2_misses_per_packet", "l2 misses", "misses/packet"),
    "itlb_misses": ("itlb_misses_per_packet", "instruction TLB misses", "misses/packet"),
    "dtlb_misses": ("dtlb_misses_per_packet", "data TLB misses", "misses/packet"),
    "ns": ("cpu_ns_per_segment", "processor time", "ns/segment"),
}
"""The events of a layer by their name in quantities: the name in results, the title, the unit."""

REGION_TITLES: Final = {"SystemCall": "System call", "Stack": "Whole stack"}
"""Titles of regions that differ from the region's name."""

STATISTICS: Final = {
    "p50": "median",
    "p90": "90th percentile",
    "p99": "99th percentile",
    "p999": "99.9th percentile",
    "max": "highest",
    "send": "sent",
    "receive": "received",
}
"""Parts of a key in words."""

PLACEHOLDERS: Final = {"LAYER": r"\w+", "PART": r"\w+", "EVENT": r"\w+"}
"""The placeholders in keys, with their regular expressions. GROUP is one of `GROUPS`."""

FUNCTIONS: Final = "functions"
"""The part of a result with the costs of hundreds of functions, which are no columns."""

EMULATION_SCHEMA: Final = 1
"""The version of an emulation's document."""

GROUPS: Final = ("layers", "kinds", "regions", "categories", "host_stack")
"""The ways in which a profile divides the processor's time."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of one observation: its title, its unit and its bounds.

    With `of_ratio` the number is compared with a baseline: the function converts the ratio of the
    two numbers.
    """

    name: str
    title: str
    unit: str
    value: Value
    of_ratio: Callable[[float], float] | None = None
    kind: Kind = "amount"
    better: Literal["higher", "lower", ""] = ""
    counts: str = ""
    """The things that the quantity counts."""
    measured: str = ""
    """The method by which the quantity is measured."""
    column: str = ""
    """The key of the result that has the same number; empty if the quantity is computed."""
    runs: tuple[str, ...] = ()
    """The kinds of studies whose results always have the quantity."""
    in_table: bool = False
    """Whether the report's table of configurations shows the quantity."""

    @property
    def paired(self) -> bool:
        """Whether the quantity needs a baseline."""
        return self.of_ratio is not None

    @property
    def least(self) -> float:
        """The least possible value."""
        return BOUNDS[self.kind][0]

    @property
    def most(self) -> float:
        """The greatest possible value."""
        return BOUNDS[self.kind][1]

    @property
    def in_percent(self) -> Quantity:
        """The quantity as reports print it: a share in per cent, any other unchanged."""
        if self.kind != "share":
            return self
        return replace(self, kind="percent", unit="%", value=scaled(self.value, 100), column="")

    @property
    def heading(self) -> str:
        """`Requests/s`, `Host idle (%)`: the title with the unit."""
        if self.unit == f"{self.title.lower()}/s":
            return f"{self.title}/s"
        unit = UNITS.get(self.unit, self.unit)
        return f"{self.title} ({unit})" if unit and unit != self.title.lower() else self.title


UNITS: Final = {"us": "\N{MICRO SIGN}s", "req/s": "requests/s"}
"""The printed form of units that keys and documents write in another way."""


def flatten(content: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """The leaves of nested objects with dotted names: the keys of a row."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def number(row: Row, name: str) -> float | None:
    """A number of the result; None if the number, or an object that contains it, is null.

    Raises `CorruptObservation` when the result has no such number.
    """
    groups = accumulate(name.split("."), "{}.{}".format)
    if any(group in row and row[group] is None for group in groups):
        return None
    if name not in row:
        raise CorruptObservation(f"point {row['point']}, seed {row['seed']}: no {name}")
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CorruptObservation(
            f"point {row['point']}, seed {row['seed']}: {name} is {value!r}, expected a number"
        )
    return float(value)


def present(row: Row, name: str) -> float | None:
    """A number of the result; None if the result has no such number."""
    value = row.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]


def scaled(value: Value, scale: float) -> Value:
    """A quantity in another unit."""

    def product_of(row: Row) -> float | None:
        amount = value(row)
        return None if amount is None else scale * amount

    return value if scale == 1 else product_of


def layers(event: str, names: Sequence[str]) -> Value:
    """The sum of an event over layers; a layer that the run lacks adds nothing."""
    columns = [f"layers.{name}.{EVENTS[event][0]}" for name in names]

    def value(row: Row) -> float | None:
        numbers = [number(row, name) for name in columns if name in row]
        return sum(itembers for itembers in numbers if itembers is not None) if numbers else None

    return value


def instructions_per_cycle(names: Sequence[str]) -> Value:
    """The instructions of all these layers over their cycles."""

    def value(row: Row) -> float | None:
        cycles, instructions = layers("cycles", names)(row), layers("instructions", names)(row)
        return instructions / cycles if cycles and instructions is not None else None

    return value


def kernel_share(row: Row) -> float | None:
    """`host_cycles.kernel` in per cent of all host cycles. The unit of the three cancels out."""
    parts = {part: number(row, f"host_cycles.{part}") for part in ("user", "kernel", "idle")}
    total = sum(part for part in parts.values() if part is not None)
    own = parts["kernel"]
    return 100 * own / total if own is not None and total else None


def host_packet_delay_mean_us(row: Row) -> float | None:
    """The mean crossing time of host packets, with equal weights for both directions.

    Every segment is acknowledged (delayed acknowledgement is off), so the numbers of received and
    sent packets are nearly equal.
    """
    ways = [number(row, f"host_packet_delay_us.{way}.mean") for way in ("send", "receive")]
    known = [way for way in ways if way is not None]
    return sum(known) / len(known) if known else None


def active_on_nic(row: Row) -> float | None:
    """The share (%) of the concurrent connections that the NIC owns, averaged over the run."""
    on_nic, active = number(row, "connections_on_nic.mean"), number(row, "clients")
    return 100 * on_nic / active if on_nic is not None and active else None


def busy(row: Row) -> float | None:
    """Busy time of the server's processors in per cent of all their time."""
    idle = number(row, "server_idle")
    return 100 * (1 - idle) if idle is not None else None


def busy_share(names: Sequence[str]) -> Value:
    """Processor time of some layers in per cent of the busy time; of a simulation, its cycles."""

    def value(row: Row) -> float | None:
        event = "ns" if layers("ns", BUSY)(row) is not None else "cycles"
        own, whole = layers(event, names)(row), layers(event, BUSY)(row)
        return 100 * own / whole if own is not None and whole else None

    return value


def of_own_busy(share: float, row: Row) -> float | None:
    """A share of the busy time in per cent of the busy time without other programs."""
    own = 1 - (present(row, other_programs.SHARE) or 0.0)
    return 100 * share / own if own > 0 else None


def cpu_share(names: Sequence[str]) -> Value:
    """Processor time of some layers in per cent of the server's own busy time."""

    def value(row: Row) -> float | None:
        shares = [number(row, share) for name in names if (share := f"layers.{name}.share") in row]
        if not shares:
            return None
        return of_own_busy(sum(share for share in shares if share is not None), row)

    return value


def named_share(keys: Sequence[str]) -> Value:
    """Categories of the profile, or parts of an application, of the server's own busy time.

    A profile does not list a category without samples.
    """

    def value(row: Row) -> float | None:
        found = [present(row, f"{key}.share") for key in keys]
        shares = [share for share in found if share is not None]
        return of_own_busy(sum(shares), row) if shares else None

    return value


def part_share(names: Sequence[str]) -> Value:
    """Parts of an application in per cent of the server's own busy time."""
    return named_share([f"parts.{name}" for name in names])


def gamma(row: Row) -> float | None:
    """The application's work divided by that of network code and driver: (1 - share) / share."""
    share = cpu_share(CPU_LAYERS["network and driver"])(row)
    return (100 - share) / share if share else None


INTERPRETERS: Final = (
    *("perl", "php", "php opcache", "python", "ruby", "javascript engine", "jvm interpreter"),
)
"""The parts of an application that interpret its code."""


def half_interpreter_gain(row: Row) -> float | None:
    """The gain (%) if interpreters cost half as much, and network code and driver cost nothing.

    Section 5.2 of *Communication Breakdown*; see `models.laws.gain_of_cheaper_part`.
    """
    interpreted = part_share(INTERPRETERS)(row)
    network = cpu_share(CPU_LAYERS["network and driver"])(row)
    if interpreted is None or network is None:
        return None
    left = 100 - interpreted / 2 - network
    return gain(100 / left) if left > 0 else None


def offload_gain(row: Row) -> float | None:
    """The upper bound (%) of the gain if network code and driver leave the processor.

    LAWS with all communication offloaded to a NIC that is never the limit: share / (1 - share).
    """
    share = cpu_share(CPU_LAYERS["network and driver"])(row)
    return 100 * share / (100 - share) if share is not None and share < 100 else None


def of_no_single_run(row: Row) -> float | None:
    """Returns None, because only a whole design has a value of the quantity."""
    return None


COMPUTED: Final[Mapping[str, Value]] = {
    function.__name__: function
    for function in (
        *(kernel_share, host_packet_delay_mean_us, active_on_nic),
        *(busy, gamma, half_interpreter_gain, offload_gain, of_no_single_run),
    )
}
"""The functions that `compute` names."""


def gain(ratio: float) -> float:
    """A ratio as per cent gained."""
    return 100 * (ratio - 1)


def loss(ratio: float) -> float:
    """A ratio as per cent lost."""
    return 100 * (1 - ratio)


RATIOS: Final = {"gain": gain, "loss": loss}
"""The functions that `ratio` names."""


def read_entries() -> list[dict[str, object]]:
    """The entries of `quantities.toml`, one for each key."""
    text = (files(__package__) / "quantities.toml").read_text(encoding="utf-8")
    return [fields for entry in tomllib.loads(text)["quantity"] for fields in expanded(entry)]


def expanded(entry: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """An entry for each combination of its `each` lists, with words inserted in key and title."""
    each = entry.get("each", {})
    assert isinstance(each, dict)
    for parts in product(*each.values()):
        named = dict(zip(each, parts, strict=True))
        words = {name: STATISTICS.get(part, part) for name, part in named.items()}
        table = entry.get("in_table", False)
        yield {
            **entry,
            "key": str(entry["key"]).format(**named),
            "title": str(entry["title"]).format(**words),
            "in_table": parts[-1] in table if isinstance(table, list) else table,
        }


def of_entry(entry: Mapping[str, object]) -> list[Quantity]:
    """The quantity of an entry, and its change if the entry has one."""
    key, value, name = str(entry["key"]), value_of(entry), entry.get("from")
    plain = Quantity(
        name=key,
        title=str(entry["title"]),
        unit=str(entry["unit"]),
        value=value,
        of_ratio=RATIOS[str(entry["ratio"])] if "ratio" in entry else None,
        kind=entry["kind"],  # type: ignore[arg-type]
        better=entry.get("better", ""),  # type: ignore[arg-type]
        counts=str(entry["counts"]),
        measured=str(entry["measured"]),
        column=str(name) if name and entry.get("scale", 1) == 1 else "",
        runs=tuple(entry.get("runs", ())),  # type: ignore[arg-type]
        in_table=bool(entry.get("in_table")),
    )
    title = str(entry.get("change_title", ""))
    if "change" in entry:
        title = f"{entry['change']} {plain.title[0].lower()}{plain.title[1:]}"
    return [plain, change_of(plain, title)] if title else [plain]


def value_of(entry: Mapping[str, object]) -> Value:
    """The function that computes the quantity of an entry."""
    if "compute" in entry:
        return COMPUTED[str(entry["compute"])]
    if "cpu_layers" in entry:
        return cpu_share(CPU_LAYERS[str(entry["cpu_layers"])])
    if "parts" in entry:
        return part_share(entry["parts"])  # type: ignore[arg-type]
    if "category" in entry:
        return named_share([f"categories.{entry['category']}"])
    name, scale = str(entry.get("from", entry["key"])), float(entry.get("scale", 1))  # type: ignore[arg-type]
    if "from" not in entry or entry.get("optional"):
        return lambda row: present(row, name)
    return scaled(lambda row: number(row, name), scale)


def change_of(quantity: Quantity, title: str) -> Quantity:
    """The change of a quantity against a baseline, in per cent."""
    return replace(
        quantity,
        name=f"{quantity.name} increase",
        title=title,
        unit="%",
        of_ratio=gain,
        kind="change",
        better="",
        measured="paired by seed or block",
        column="",
    )


def by_region() -> Iterator[Quantity]:
    """The quantities of the regions: `cycles.TCP`, `cycles.TCP increase`, `ipc.TCP`, ..."""
    for region, names in REGIONS.items():
        title = REGION_TITLES.get(region, region)
        for event, (key, words, unit) in EVENTS.items():
            quantity = Quantity(
                f"{event}.{region}",
                f"{title if event == 'ns' else region} {words}",
                unit,
                layers(event, names),
                better="lower",
                counts=f"{words} of the layers {', '.join(names)}",
                measured="the sum over layers",
                column=f"layers.{names[0]}.{key}" if len(names) == 1 else "",
            )
            yield quantity
            yield change_of(quantity, f"Increase of {quantity.title}")
        yield Quantity(
            f"ipc.{region}",
            f"{region} instructions per cycle",
            "instr/cycle",
            instructions_per_cycle(names),
            counts=f"instructions over cycles of the layers {', '.join(names)}",
            measured="simulated cycles",
        )
        yield Quantity(
            f"busy_share.{region}",
            f"{title} in the busy processor",
            "%",
            busy_share(names),
            kind="percent",
            counts=f"processor time of the layers {', '.join(names)}, of all layers",
            measured="samples of the profile",
        )


ENTRIES: Final = read_entries()

COLUMNS: Final = {
    quantity.name: quantity
    for entry in ENTRIES
    if not {"from", "compute", "cpu_layers", "category", "parts"} & entry.keys()
    for quantity in of_entry(entry)
}
"""Every number of a result by its key. Words in capitals are placeholders for names."""

QUANTITIES: Final = {
    quantity.name: quantity
    for quantity in (
        *(quantity for entry in ENTRIES if entry["key"] not in COLUMNS or "from" in entry
          for quantity in of_entry(entry)),
        *by_region(),
    )
}  # fmt: skip
"""Every named quantity."""


def pattern_of(key: str) -> re.Pattern[str]:
    """The regular expression of a key with placeholders."""
    text = re.escape(key).replace("GROUP", f"(?:{'|'.join(GROUPS)})")
    for name, instead in PLACEHOLDERS.items():
        text = text.replace(name, instead)
    return re.compile(text)


PATTERNS: Final = [
    (pattern_of(key), entry) for key, entry in COLUMNS.items() if re.search("[A-Z]{4}", key)
]


def column(name: str) -> Quantity:
    """The number of the result with that key. Without an entry for the key it has no unit."""
    column = COLUMNS.get(name)
    if column is not None:
        return column

    def value(row: Row) -> float | None:
        return present(row, name)

    for pattern, entry in PATTERNS:
        if pattern.fullmatch(name):
            title = f"{name.split('.')[1]}: {entry.title}"
            return replace(entry, name=name, title=title, value=value)
    return Quantity(name, name, "", value, kind="change")


def quantity(name: str) -> Quantity:
    """The named quantity, or else the number of the result; paired quantities are excluded."""
    known = QUANTITIES.get(name)
    return known if known is not None and not known.paired else column(name)


def is_known(runs: str, name: str) -> bool:
    """Whether a run of that kind, `simulated` or `measured`, can have the quantity."""
    known = QUANTITIES.get(name)
    return (known is not None and not known.paired) or is_column(runs, name)


def is_column(runs: str, name: str) -> bool:
    """Whether the name is a key of results of that kind."""
    return runs in column(name).runs or any(
        runs in entry.runs and pattern.fullmatch(name) for pattern, entry in PATTERNS
    )


def known(runs: str) -> str:
    """The keys of results of that kind, as text for messages."""
    plain = [key for key, entry in COLUMNS.items() if runs in entry.runs]
    return f"{', '.join(plain)}; a quantity, as ns.TCP or busy_share.TCP"


def columns(rows: Iterable[Row]) -> list[str]:
    """The numbers of results that any of these rows has, without the machine's timings."""
    identity = {"point", "configuration", "seed", "schema"}
    names = {
        name: None
        for row in rows
        for name, value in row.items()
        if isinstance(value, float) and name not in identity and not name.startswith("timing.")
    }
    return list(names)
