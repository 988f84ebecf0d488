"""A made-up /proc and /sys: 256 processors on two nodes, and a card with 128 queues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CPUS, QUEUES = 256, 128
NODES = {0: "0-127", 1: "128-255"}
UPTIME_S = 1000
CARD = "sys/class/net/eth0"


def make(root: Path, hot: int) -> None:
    """Write the files. The first `hot` processors receive all packets, and are busy."""
    for name, text in files(hot):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


def files(hot: int) -> Iterator[tuple[str, str]]:
    """The name and the text of each file."""
    idle = [5_000 if cpu < hot else 98_000 for cpu in range(CPUS)]
    busy = [100 * UPTIME_S - ticks for ticks in idle]
    rows = [f"cpu{cpu} 0 0 0 {idle[cpu]} 0 0 {busy[cpu]} 0 0 0" for cpu in range(CPUS)]
    yield "proc/stat", "\n".join([f"cpu 0 0 0 {sum(idle)} 0 0 {sum(busy)} 0 0 0", *rows])
    yield "proc/uptime", f"{UPTIME_S}.00 5.00"
    packets = [1_000_000 if cpu < hot else 10 for cpu in range(CPUS)]
    softnet = [
        f"{count:08x} 00000000 {count // 500:08x} {'00000000 ' * 9}{cpu:08x}"
        for cpu, count in enumerate(packets)
    ]
    yield "proc/net/softnet_stat", "\n".join(softnet)
    yield "sys/devices/system/cpu/online", f"0-{CPUS - 1}"
    for cpu in range(CPUS):
        topology = f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        yield topology, f"{cpu % 128},{cpu % 128 + 128}"
    yield "sys/devices/system/node/online", "0-1"
    for node, cpus in NODES.items():
        yield f"sys/devices/system/node/node{node}/cpulist", cpus
    yield f"{CARD}/mtu", "1500"
    yield f"{CARD}/device/numa_node", "1"
    for queue in range(QUEUES):
        irq, cpu = 100 + queue, queue % hot
        yield f"{CARD}/queues/rx-{queue}/rps_cpus", ",".join(["00000000"] * (CPUS // 32))
        yield f"{CARD}/queues/tx-{queue}/xps_cpus", ",".join(["00000000"] * (CPUS // 32))
        yield f"{CARD}/device/msi_irqs/{irq}", "msix"
        yield f"proc/irq/{irq}/effective_affinity_list", str(cpu)
        yield f"sys/kernel/irq/{irq}/actions", f"eth0-TxRx-{queue}"
        counts = ",".join("900" if place == cpu else "0" for place in range(CPUS))
        yield f"sys/kernel/irq/{irq}/per_cpu_count", counts
    yield "proc/sys/net/core/busy_poll", "0"
    yield "proc/sys/net/core/rps_sock_flow_entries", "0"
    yield "proc/sys/net/ipv4/tcp_autocorking", "1"
