"""Equations 3.1 to 3.14 of Isa 2003: the cost of moving data in a server's caches and on its buses.

| symbol | meaning |
|---|---|
| S | size of a transaction's data, in bytes |
| B_i, B_e | bandwidth of the internal bus (to memory) and the external one (to devices), in MB/s |
| T_CPU | processor time of a transaction, in microseconds |
| IC, AR | instructions, and memory accesses per instruction |
| MR, MP | miss rate of the accesses (0 to 1), and penalty of a miss, in cycles |
| CPI, CC | cycles per instruction with no miss, and the time of a cycle, in seconds |

A byte over a bus of one MB/s (10^6 bytes per second) needs a microsecond. Equations 3.6 to 3.14 are
computed by `models.bounds` from the published paths and transactions of its catalogue.

The source contradicts itself in some places. There the functions use the consistent form. Those
with `as_printed` can also use the printed form:

- Equation 3.6 divides S by the 32 bytes of a cache line, although the bandwidth counts bytes. The
  difference is also in equations 3.9, 3.10, 3.12 and 3.13. Table 3.1 uses them as printed.
- Equation 3.4 multiplies the cycles of misses by CPI, although MP is in cycles. The two forms
  agree for one cycle per instruction.
- Section 3.3.1 computes a miss rate of 6.25 % from 16 words in a line. Its line has 32 bytes, 8
  words of 4 bytes: the rate is 12.5 %.
- Section 3.4.3 concludes that all servers exceed 2 GByte/s. The bounds of its table 3.1 are 1862 to
  4264 Mb/s, which is 0.23 to 0.53 GByte/s.
- Table 3.1 prints 1066 MB/s for 64 bits at 133 MHz, which are 1064 MB/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from perpacket_lab.models import bounds
from perpacket_lab.models.checks import numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Numbers = NDArray[np.float64]

L1_MISS_PENALTY_CYCLES = 10.0
"""MP: the order of magnitude of the penalty of a first-level miss (section 3.3.1)."""


def stall_cycles(
    instructions: ArrayLike,
    miss_rate: ArrayLike,
    accesses_per_instruction: ArrayLike,
    miss_penalty_cycles: ArrayLike = L1_MISS_PENALTY_CYCLES,
) -> Numbers:
    """Equation 3.1: IC x AR x MR x MP, the cycles for which the processor waits for memory."""
    accesses = numbers("accesses_per_instruction", accesses_per_instruction)
    return accesses * stall_cycles_at_one_access(instructions, miss_rate, miss_penalty_cycles)


def stall_cycles_at_one_access(
    instructions: ArrayLike,
    miss_rate: ArrayLike,
    miss_penalty_cycles: ArrayLike = L1_MISS_PENALTY_CYCLES,
) -> Numbers:
    """Equation 3.2: IC x MR x MP, equation 3.1 with one access per instruction."""
    count = numbers("instructions", instructions)
    penalty = numbers("miss_penalty_cycles", miss_penalty_cycles)
    stalls: Numbers = count * numbers("miss_rate", miss_rate, high=1.0) * penalty
    return stalls


def time_without_cache_s(
    instructions: ArrayLike, cycles_per_instruction: ArrayLike, cycle_s: ArrayLike
) -> Numbers:
    """Equation 3.3: IC x CPI x CC, the seconds with a memory that is as fast as a cache."""
    cycles = numbers("cycles_per_instruction", cycles_per_instruction, positive=True)
    time_s: Numbers = numbers("instructions", instructions) * cycles * numbers("cycle_s", cycle_s)
    return time_s


def time_with_cache_s(
    instructions: ArrayLike,
    cycles_per_instruction: ArrayLike,
    cycle_s: ArrayLike,
    miss_rate: ArrayLike,
    miss_penalty_cycles: ArrayLike = L1_MISS_PENALTY_CYCLES,
    *,
    accesses_per_instruction: ArrayLike = 1.0,
    as_printed: bool = False,
) -> Numbers:
    """Equation 3.4: IC x CC x (CPI + AR x MR x MP), the seconds with a cache.

    The source has AR = 1. As printed it is IC x CPI x CC x (1 + MR x MP).
    """
    without = time_without_cache_s(instructions, cycles_per_instruction, cycle_s)
    overhead = cache_overhead(
        miss_rate,
        miss_penalty_cycles,
        accesses_per_instruction=accesses_per_instruction,
        cycles_per_instruction=1.0 if as_printed else cycles_per_instruction,
    )
    return without * overhead


def cache_overhead(
    miss_rate: ArrayLike,
    miss_penalty_cycles: ArrayLike = L1_MISS_PENALTY_CYCLES,
    *,
    accesses_per_instruction: ArrayLike = 1.0,
    cycles_per_instruction: ArrayLike = 1.0,
) -> Numbers:
    """Equation 3.5: 1 + MR x MP, the ratio of equations 3.4 and 3.3.

    The source has AR = 1, CPI = 1 and MP = 10. In general the ratio is 1 + AR x MR x MP / CPI.
    """
    cycles = numbers("cycles_per_instruction", cycles_per_instruction, positive=True)
    stalls = stall_cycles(1.0, miss_rate, accesses_per_instruction, miss_penalty_cycles)
    return 1.0 + stalls / cycles


def sequential_miss_rate(access_bytes: ArrayLike, line_bytes: ArrayLike) -> Numbers:
    """W/L: the miss rate of a sequential read of W bytes at a time in lines of L (section 3.3.1).

    A read of a whole line or more always misses.
    """
    import numpy as np

    line = numbers("line_bytes", line_bytes, positive=True)
    shares: Numbers = np.minimum(1.0, numbers("access_bytes", access_bytes, positive=True) / line)
    return shares


def buses(internal_mbytes_per_s: float, external_mbytes_per_s: float) -> bounds.ServerMachine:
    """A server with the internal bus B_i and the external bus B_e, in MB/s."""
    numbers("internal_mbytes_per_s", internal_mbytes_per_s, positive=True)
    numbers("external_mbytes_per_s", external_mbytes_per_s, positive=True)
    bandwidths = {"memory": internal_mbytes_per_s, "io": external_mbytes_per_s}
    return bounds.ServerMachine(name="server", buses_mbytes_per_s=bandwidths, source="arguments")


def memory_cpu_us(
    size_bytes: float, server: bounds.ServerMachine, *, as_printed: bool = False
) -> float:
    """Equation 3.6: S/B_i, the microseconds in which the processor reads S bytes.

    As printed it is S/(32 B_i).
    """
    return _path_us("cpu-memory", size_bytes, server, as_printed)


def memory_memory_us(size_bytes: float, server: bounds.ServerMachine) -> float:
    """Equation 3.7: 2 S/B_i, the microseconds of a copy of S bytes."""
    return _path_us("memory-memory", size_bytes, server)


def memory_network_us(size_bytes: float, server: bounds.ServerMachine) -> float:
    """Equation 3.8: S/B_e, the microseconds of S bytes between memory and a NIC, or a disk."""
    return _path_us("nic-memory", size_bytes, server)


def rtp_us(
    size_bytes: float,
    server: bounds.ServerMachine,
    cpu_us: float = 0.0,
    *,
    as_printed: bool = False,
) -> float:
    """Equation 3.9: T_CPU + S/B_i + 4 S/B_i + S/B_e, the microseconds of an RTP transaction.

    The processor reads the data once, the kernel copies them twice, the NIC reads them once. As
    printed the first term of the buses is S/(32 B_i).
    """
    return _transaction("rtp", server, size_bytes, cpu_us, as_printed).time_us


def http_us(
    size_bytes: float,
    server: bounds.ServerMachine,
    cpu_us: float = 0.0,
    *,
    as_printed: bool = False,
) -> float:
    """Equation 3.10: the microseconds of an HTTP transaction, by the formula of equation 3.9."""
    return _transaction("http", server, size_bytes, cpu_us, as_printed).time_us


def ip_us(size_bytes: float, server: bounds.ServerMachine, cpu_us: float = 0.0) -> float:
    """Equation 3.11: T_CPU + 2 S/B_e, the microseconds of a forwarded packet of S bytes."""
    return _transaction("ip-forwarding", server, size_bytes, cpu_us).time_us


def rtp_mbps(server: bounds.ServerMachine, *, as_printed: bool = False) -> float:
    """Equation 3.12: B_i B_e/(5 B_e + B_i), the bound of RTP, in Mb/s (10^6 bits per second).

    As printed it is 32 B_i B_e/(129 B_e + 32 B_i). Both are S divided by
    the time of equation 3.9 without T_CPU.
    """
    return _transaction("rtp", server, as_printed=as_printed).mbps


def http_mbps(server: bounds.ServerMachine, *, as_printed: bool = False) -> float:
    """Equation 3.13: the bound of HTTP in Mb/s, by the formula of equation 3.12."""
    return _transaction("http", server, as_printed=as_printed).mbps


def ip_mbps(server: bounds.ServerMachine) -> float:
    """Equation 3.14: B_e/2, the bound of forwarding, in Mb/s (10^6 bits per second)."""
    return _transaction("ip-forwarding", server).mbps


def _path_us(
    path: str, size_bytes: float, server: bounds.ServerMachine, as_printed: bool = False
) -> float:
    """The microseconds of S bytes over one path of the catalogue."""
    numbers("size_bytes", size_bytes)
    alone = bounds.Transaction(name=path, paths={path: 1}, source="one path")
    per_byte = bounds.bus_times(_catalogue(), server, alone, as_printed=as_printed)
    return size_bytes * sum(per_byte.values())


def _transaction(
    name: str,
    server: bounds.ServerMachine,
    size_bytes: float = 1.0,
    cpu_us: float = 0.0,
    as_printed: bool = False,
) -> bounds.MachineBound:
    """A published transaction of the catalogue on a server."""
    work = bounds.Work(size_bytes, cpu_us)
    transaction = _transactions()[name]
    return bounds.bound(_catalogue(), server, transaction, work, as_printed=as_printed)


@cache
def _catalogue() -> bounds.Catalogue:
    return bounds.read_catalogue()


@cache
def _transactions() -> Mapping[str, bounds.Transaction]:
    return {transaction.name: transaction for transaction in _catalogue().transaction}
