"""Every quantity that published figures and the results of runs are compared in.

A quantity turns one observation, a flat row with dotted names, into one number in the unit of its
name's entry. Gains and ratios take a second row: the baseline with the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from perpacket.analysis.statistics import Interval, StatisticsError, mean, paired_ratio
from perpacket.errors import CorruptObservation

Row = Mapping[str, object]
"""One observation: `point`, `configuration`, `seed`, factors and the result's numbers."""

REGIONS = {
    "User": ("user",),
    "SystemCall": ("syscall", "socket"),
    "TCP": ("tcp",),
    "IP": ("ip",),
    "Ethernet": ("ethernet",),
    "Driver": ("driver", "bypass"),
    "Other": ("udp", "interrupt", "scheduler", "other"),
    "Stack": ("syscall", "socket", "tcp", "ip", "ethernet", "driver", "bypass"),
}
"""The layers of each region of TR05-450 (section 3; its "stack" is five of the seven regions), as
`Layer::region` in crates/cost has them, without the idle processor."""

SEVEN = tuple(region for region in REGIONS if region != "Stack")
"""The seven regions that the busy processor is divided into."""

NETWORK = ("socket", "tcp", "udp", "ip", "ethernet")
"""The layers of the network code of Communication Breakdown (2004), without the NIC's driver."""

BUSY = tuple(dict.fromkeys(layer for region in SEVEN for layer in REGIONS[region]))
"""Every layer but the idle processor."""

EVENTS = {
    "cycles": "cycles_per_packet",
    "instructions": "instructions_per_packet",
    "l1_misses": "l1d_misses_per_packet",
    "l2_misses": "l2_misses_per_packet",
    "ns": "cpu_ns_per_segment",
}
"""The events of a layer: name in a quantity, name in a result."""

REGION_TITLES = {"SystemCall": "System call", "Stack": "Whole stack"}
"""Regions whose name reads better in another way."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of one observation.

    `value` gives it for a row, None where it has no meaning. With `paired`, the number is compared
    with that of a baseline's row: the ratio of the two goes through `of_ratio`.
    """

    name: str
    title: str
    unit: str
    value: Callable[[Row], float | None]
    of_ratio: Callable[[float], float] | None = None

    @property
    def paired(self) -> bool:
        """Whether it needs a baseline."""
        return self.of_ratio is not None


def number(row: Row, column: str) -> float | None:
    """A number of the result, None where it has no meaning (nor has, then, a group it is in).

    Raises `CorruptObservation` when the result has no such number.
    """
    groups = accumulate(column.split("."), "{}.{}".format)
    if any(group in row and row[group] is None for group in groups):
        return None
    if column not in row:
        raise CorruptObservation(f"point {row['point']}, seed {row['seed']}: no {column}")
    value = row[column]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CorruptObservation(
            f"point {row['point']}, seed {row['seed']}: {column} is {value!r}, expected a number"
        )
    return float(value)


def column(name: str, scale: float = 1.0) -> Callable[[Row], float | None]:
    """A quantity that is a column of the result, times `scale`."""

    def value(row: Row) -> float | None:
        found = number(row, name)
        return None if found is None else scale * found

    return value


def layers(event: str, names: Sequence[str]) -> Callable[[Row], float | None]:
    """The sum of an event over layers; a layer that the run did not have adds nothing."""
    columns = [f"layers.{name}.{EVENTS[event]}" for name in names]

    def value(row: Row) -> float | None:
        present = [number(row, name) for name in columns if name in row]
        return sum(found for found in present if found is not None) if present else None

    return value


def instructions_per_cycle(names: Sequence[str]) -> Callable[[Row], float | None]:
    """Instructions over cycles of the layers together."""

    def value(row: Row) -> float | None:
        cycles, instructions = layers("cycles", names)(row), layers("instructions", names)(row)
        return instructions / cycles if cycles and instructions is not None else None

    return value


def host_share(key: str) -> Callable[[Row], float | None]:
    """`host_cycles.key` in per cent of all host cycles, whatever unit the three are in."""

    def value(row: Row) -> float | None:
        parts = {part: number(row, f"host_cycles.{part}") for part in ("user", "kernel", "idle")}
        total = sum(part for part in parts.values() if part is not None)
        own = parts[key]
        return 100 * own / total if own is not None and total else None

    return value


def host_packet_delay_mean_us(row: Row) -> float | None:
    """Mean crossing time of host packets, the two directions taken as equally many.

    Every segment is acknowledged (delayed acknowledgement is off), so nearly as many packets are
    received as sent.
    """
    ways = [number(row, f"host_packet_delay_us.{way}.mean") for way in ("send", "receive")]
    present = [way for way in ways if way is not None]
    return sum(present) / len(present) if present else None


def active_on_nic(row: Row) -> float | None:
    """Per cent of the concurrent connections that are on the NIC, on average over the run."""
    on_nic, active = number(row, "connections_on_nic.mean"), number(row, "clients")
    return 100 * on_nic / active if on_nic is not None and active else None


def gain(ratio: float) -> float:
    """A ratio as per cent gained."""
    return 100 * (ratio - 1)


def loss(ratio: float) -> float:
    """A ratio as per cent lost."""
    return 100 * (1 - ratio)


def _simple() -> list[Quantity]:
    """The quantities of the web configurations."""
    delay = "host_packet_delay_us"
    send, receive = column(f"{delay}.send.median"), column(f"{delay}.receive.median")
    crossing = "Host packets crossing the NIC"
    requests, packets = column("requests_per_s"), column("packets_per_s")
    content = column("content_mbps")
    share = column("handed_off_share", 100)
    return [
        Quantity("request_rate", "Requests", "req/s", requests),
        Quantity("gain_request_rate", "Gain in requests", "%", requests, gain),
        Quantity("loss", "Loss of requests", "%", requests, loss),
        Quantity("gain_packet_rate", "Gain in packets", "%", packets, gain),
        Quantity("gain_http", "Gain in HTTP content", "%", content, gain),
        Quantity("host_idle", "Host idle", "%", column("host_idle", 100)),
        Quantity("nic_idle", "NIC idle", "%", column("nic_idle", 100)),
        Quantity("packet_delay_send_median", f"{crossing}, sent, median", "us", send),
        Quantity("packet_delay_receive_median", f"{crossing}, received, median", "us", receive),
        Quantity("packet_delay_mean", f"{crossing}, mean", "us", host_packet_delay_mean_us),
        Quantity("handed_off_connections", "Connections handed off", "%", share),
        Quantity("nic_packets", "Packets the NIC processed", "%", column("nic_packet_share", 100)),
        Quantity("active_on_nic", "Active connections on the NIC", "%", active_on_nic),
        Quantity(
            "connections_on_nic", "Connections on the NIC", "", column("connections_on_nic.mean")
        ),
        Quantity(
            "stack_share", "Host cycles below the system calls", "%", column("stack_share", 100)
        ),
        Quantity("kernel_share", "Host cycles in the kernel", "%", host_share("kernel")),
        Quantity("response_time_mean", "Response time, mean", "ms", column("response_ms.mean")),
        Quantity("drops", "Packets dropped", "packets", column("drops")),
    ]


def _by_region() -> list[Quantity]:
    """The quantities of TR05-450: `cycles.TCP`, `cycles.TCP increase`, `ipc.TCP`, ..."""
    found: list[Quantity] = []
    for region, names in REGIONS.items():
        for event in EVENTS:
            value, title = layers(event, names), f"{region} {event.replace('_', ' ')}"
            if event == "ns":
                title = f"{REGION_TITLES.get(region, region)} processor time"
            unit = f"{event.rsplit('_', 1)[-1]}/{'segment' if event == 'ns' else 'packet'}"
            found.append(Quantity(f"{event}.{region}", title, unit, value))
            found.append(
                Quantity(f"{event}.{region} increase", f"Increase of {title}", "%", value, gain)
            )
        ipc = instructions_per_cycle(names)
        found.append(
            Quantity(f"ipc.{region}", f"{region} instructions per cycle", "instr/cycle", ipc)
        )
    return found


def busy_share(names: Sequence[str]) -> Callable[[Row], float | None]:
    """Processor time of some layers in per cent of that of all layers: of the busy processor."""

    def value(row: Row) -> float | None:
        own, whole = layers("ns", names)(row), layers("ns", BUSY)(row)
        return 100 * own / whole if own is not None and whole else None

    return value


def cpu_share(names: Sequence[str]) -> Callable[[Row], float | None]:
    """Processor time of some layers in per cent of the processor's, busy or idle.

    A layer's `share` is of all that ran, other programs included.
    """

    def value(row: Row) -> float | None:
        present = [f"layers.{name}.share" for name in names if f"layers.{name}.share" in row]
        shares = [number(row, share) for share in present]
        idle = number(row, "server_idle")
        if not shares or idle is None:
            return None
        return 100 * sum(share for share in shares if share is not None) * (1 - idle)

    return value


def category_share(name: str) -> Callable[[Row], float | None]:
    """A category of the profile in per cent of the processor's time, busy or idle."""

    def value(row: Row) -> float | None:
        share = number(row, f"categories.{name}.share") if _has(row, name) else None
        idle = number(row, "server_idle")
        return 100 * share * (1 - idle) if share is not None and idle is not None else None

    return value


def _has(row: Row, category: str) -> bool:
    """Whether the profile had samples of a category: one without any is not listed."""
    return f"categories.{category}.share" in row


def offload_gain(row: Row) -> float | None:
    """What taking the network code and the driver off the processor could gain at most, in %.

    LAWS with everything offloaded and nothing slower: share/(1 - share).
    """
    share = cpu_share((*NETWORK, "driver"))(row)
    return 100 * share / (100 - share) if share is not None and share < 100 else None


def _measured() -> list[Quantity]:
    """The quantities of measured profiles."""
    found = [
        Quantity(
            f"busy_share.{region}",
            f"{REGION_TITLES.get(region, region)} in the busy processor",
            "%",
            busy_share(names),
        )
        for region, names in REGIONS.items()
    ]
    parts = {
        "network": ("Network code", cpu_share(NETWORK)),
        "driver": ("NIC driver", cpu_share(("driver",))),
        "network and driver": ("Network code and driver", cpu_share((*NETWORK, "driver"))),
        "scheduling": ("Scheduling", cpu_share(("scheduler",))),
        "kernel": ("Kernel", cpu_share([layer for layer in BUSY if layer != "user"])),
        "server": ("Server program", category_share("server_program")),
        "libraries": ("Libraries", category_share("libraries")),
        "idle": ("Idle", column("server_idle", 100)),
    }
    for name, (title, value) in parts.items():
        found.append(Quantity(f"cpu_share.{name}", f"{title}, of all processor time", "%", value))
        change = f"Change of {title.lower()}'s share"
        found.append(Quantity(f"cpu_share.{name} increase", change, "%", value, gain))
    found.append(Quantity("offload_gain", "Most that offload could gain", "%", offload_gain))
    return found


def _servers() -> list[Quantity]:
    """The quantities of measured servers beside those of their profiles."""
    process = "server_process"
    found = []
    for name, title, unit, value in (
        ("content", "Content", "Mb/s", column("content_mbps")),
        ("latency_median", "Response, median", "us", column("latency_us.response.p50")),
        ("page_faults", "Page faults of the server", "faults/s",
         column(f"{process}.page_faults_per_s")),
        ("context_switches", "Context switches of the server", "switches/s",
         column(f"{process}.context_switches_per_s")),
        ("server_cpu", "Processor time of the server a request", "us",
         column("server_cpu_us_per_request")),
        ("busy", "Busy processor of the server", "%", busy),
    ):  # fmt: skip
        found.append(Quantity(name, title, unit, value))
        found.append(Quantity(f"{name} increase", f"Increase of {title.lower()}", "%", value, gain))
    return found


def busy(row: Row) -> float | None:
    """The server's processors in per cent of their time."""
    idle = number(row, "server_idle")
    return 100 * (1 - idle) if idle is not None else None


def where_counted(name: str) -> Callable[[Row], float | None]:
    """A column that a run has only where its machine could count it."""

    def value(row: Row) -> float | None:
        return number(row, name) if name in row else None

    return value


def of_no_single_run(row: Row) -> float | None:
    """The value of what only a whole design has: see `perpacket.study.library.sensitivity`."""
    return None


def _streams() -> list[Quantity]:
    """The quantities of stored media: what clients received, and what that took of the server."""
    columns = {
        "throughput": ("Throughput", "Mb/s", "throughput_mbps"),
        "server_cpu": ("Processor time of the server", "% of a core", "server_cpu_percent"),
        "page_faults": ("Page faults of the server", "1/s", "page_faults_per_s"),
        "context_switches": ("Context switches of the server", "1/s", "context_switches_per_s"),
        "cache_misses": ("Last-level cache misses", "1/s", "cache_misses_per_s"),
        "jitter": (
            "Jitter (mean difference of inter-arrival times)",
            "us",
            "mean_gap_difference_us.mean",
        ),
        "lost": ("Packets lost", "packets", "lost"),
        "threads_per_stream": ("Threads per stream", "threads", "threads_per_stream"),
    }
    found = []
    for name, (title, unit, source) in columns.items():
        value = where_counted(source) if name == "cache_misses" else column(source)
        found.append(Quantity(f"stream.{name}", title, unit, value))
        change = f"Change of {title[0].lower()}{title[1:]}"
        found.append(Quantity(f"stream.{name} increase", change, "%", value, gain))
    for part in ("clients", "encoding", "distribution", "interactions", "error"):
        title = f"Variation explained by {part}"
        found.append(Quantity(f"variation.{part}", title, "%", of_no_single_run))
    return found


def _counted() -> list[Quantity]:
    """What a router, memory and the scheduler are asked for, each with its change."""
    found = []
    for name, title, unit, value in (
        ("forwarded", "Forwarded", "Mb/s", column("forwarded_mbps")),
        (
            "machine_switches",
            "Context switches of the machine",
            "1/s",
            column("context_switches_per_s"),
        ),
        ("router_busy", "Busy processors of the router", "%", busy),
        ("router_user", "User code on the router's processors", "%", column("router_user", 100)),
        ("active_pages", "Active pages", "pages", column("active_pages")),
        ("memory_bandwidth", "Memory bandwidth", "MB/s", column("mbytes_per_s")),
        ("switch_cost", "Cost of a context switch", "ns", column("ns_per_switch")),
    ):
        found.append(Quantity(name, title, unit, value))
        change = f"Change of {title[0].lower()}{title[1:]}"
        found.append(Quantity(f"{name} increase", change, "%", value, gain))
    return found


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        *(*_simple(), *_by_region(), *_measured(), *_servers()),
        *(*_streams(), *_counted()),
    )
}
"""Every quantity by name."""


def estimate(
    quantity: Quantity, rows: Mapping[int, Row], against: Mapping[int, Row] | None = None
) -> tuple[Interval | None, list[float]]:
    """The quantity over replications, and its value in each, in the order of the seeds.

    `rows` and `against` map seeds to observations; a paired quantity uses the seeds both have.
    None when there is nothing to estimate it from.
    """
    if quantity.of_ratio is None:
        values = [
            found for seed in sorted(rows) if (found := quantity.value(rows[seed])) is not None
        ]
        return (mean(values) if values else None), values
    own: list[float] = []
    base: list[float] = []
    for seed in sorted(rows.keys() & (against or {}).keys()):
        first, second = quantity.value(rows[seed]), quantity.value((against or {})[seed])
        if first is not None and second is not None:
            own.append(first)
            base.append(second)
    try:
        interval = paired_ratio(own, base).map(quantity.of_ratio)
    except StatisticsError:
        return None, []
    ratios = [a / b for a, b in zip(own, base, strict=True)]
    return interval, [quantity.of_ratio(ratio) for ratio in ratios]
