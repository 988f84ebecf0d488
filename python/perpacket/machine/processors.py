"""Processors, their shared resources, quota and stolen time, and the clock.

A server and its clients need processors of their own. Shared resources (a core, a cache, a quota,
the host of a virtual machine) affect every measurement.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from perpacket.machine.capability import Capability, Check, Group
from perpacket.machine.files import Files
from perpacket.measure.cpu_lists import ranges

CPUS = "/sys/devices/system/cpu"

CLOCKS_READ_WITHOUT_A_SYSTEM_CALL = (
    *("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"),
    "arch_sys_counter",
)
"""Clock sources of x86 and of Arm that the vDSO reads in user space."""

STEAL_FIELD, COUNTED_FIELDS = 7, 8
"""Fields of a processor's line of /proc/stat, counted without the processor's name: the index of
stolen time, and the number of fields to sum (proc_stat(5))."""

MOST_GROUPS = 4
"""Most groups of processors that are listed."""

STEAL_LIMIT = 0.005
"""Largest share of stolen time that counts as none."""

TWO = Check(
    "two_processors",
    Group.PROCESSORS,
    "server and clients share a processor: the clients' work delays the server",
    "add a processor to this machine or container, or put the clients on another machine",
)
ALL = Check(
    "all_processors",
    Group.PROCESSORS,
    "other processors run interrupts and programs that a profile here does not include",
    "start without taskset, or widen the cpuset of the container",
)
CORES = Check(
    "own_cores",
    Group.PROCESSORS,
    "processors are threads of one core: the client's work slows the server down",
    "choose CPUs of different cores with --cpus, or turn SMT off",
)
CACHE = Check(
    "own_caches",
    Group.PROCESSORS,
    "the client's data evicts the server's data from the shared cache",
    "put the clients on another socket, or on another machine",
)
QUOTA = Check(
    "no_quota",
    Group.PROCESSORS,
    "the kernel stops all processes here when the quota of a period is used up, which limits rates "
    "and increases tail latencies",
    "raise cpu.max of the control group, such as with `docker run --cpus`",
)
STEAL = Check(
    "no_steal",
    Group.PROCESSORS,
    "the hypervisor runs other machines on these processors: results need more replications, and "
    "times include the time of those machines",
    "use a machine with processors of its own",
)
CLOCK = Check(
    "fast_clock",
    Group.PROCESSORS,
    "every read of the clock is a system call: the load generator loses rate and precision",
    "as root: `echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource`, if "
    "`available_clocksource` there lists it",
)


CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def capabilities(files: Files, usable: Sequence[int] | None = None) -> list[Capability]:
    """The capabilities of processors; `usable` are those that this process may use.

    With `usable`, the files are copies, and a capability whose file was not copied is left out.
    """
    ours = sorted(os.sched_getaffinity(0) if usable is None else usable)
    all_online = online(files) or ours
    sources = {
        CORES.name: f"{CPUS}/cpu{ours[0]}/topology/thread_siblings_list",
        CACHE.name: f"{CPUS}/cpu{ours[0]}/cache/index0/shared_cpu_list",
        QUOTA.name: "/proc/self/cgroup",
        STEAL.name: "/proc/stat",
        CLOCK.name: CLOCK_SOURCE,
    }
    found = [
        TWO.result(len(ours) > 1, f"{len(ours)} usable: {ranges(ours)}"),
        ALL.result(set(all_online) <= set(ours), f"{ranges(ours)} of {ranges(all_online)} usable"),
        cores(files, ours),
        caches(files, ours),
        quota(files),
        steal(files),
        clock(files),
    ]
    if usable is None:
        return found
    return [one for one in found if one.name not in sources or files.text(sources[one.name])]


def online(files: Files) -> list[int]:
    """The processors that are online; none if the files do not list them."""
    return files.cpus(f"{CPUS}/online")


def cores(files: Files, ours: Sequence[int]) -> Capability:
    """Whether each usable processor is a core of its own."""
    groups = {
        siblings
        for cpu in ours
        if len(siblings := shared(files, ours, f"{CPUS}/cpu{cpu}/topology/thread_siblings_list"))
        > 1
    }
    if not groups:
        return CORES.result(True, "no two share a core")
    listed = _listed(groups, "; ")
    return CORES.result(False, f"threads of one core: {listed}")


def caches(files: Files, ours: Sequence[int]) -> Capability:
    """Whether usable processors share a cache."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for cpu in ours:
        for index in files.names(f"{CPUS}/cpu{cpu}/cache"):
            folder = f"{CPUS}/cpu{cpu}/cache/{index}"
            group = shared(files, ours, f"{folder}/shared_cpu_list")
            level, size = files.text(f"{folder}/level"), files.text(f"{folder}/size")
            if len(group) > 1 and level:
                found.setdefault(f"L{level} of {size or 'unknown size'}", set()).add(group)
    if not found:
        return CACHE.result(True, "the kernel reports no shared cache")
    listed = [f"{name} by {_listed(found[name], ' and ')}" for name in sorted(found)]
    return CACHE.result(False, f"shared: {'; '.join(listed)}")


def _listed(groups: set[tuple[int, ...]], separator: str) -> str:
    """Groups of processors; only the first ones if there are many."""
    first = separator.join(ranges(group) for group in sorted(groups)[:MOST_GROUPS])
    more = len(groups) - MOST_GROUPS
    return first if more <= 0 else f"{first} and {more} more groups"


def shared(files: Files, ours: Sequence[int], path: str) -> tuple[int, ...]:
    """The usable processors among those listed in a file."""
    return tuple(cpu for cpu in files.cpus(path) if cpu in ours)


def quota(files: Files) -> Capability:
    """Whether this process's control group, or a parent, limits the processors' time."""
    least: float | None = None
    for line in files.text("/proc/self/cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        for folder in folders_of(controllers, path):
            allowed = quota_of(files, folder)
            if allowed is not None:
                least = allowed if least is None else min(least, allowed)
    if least is None:
        return QUOTA.result(True, "no control group limits processor time")
    return QUOTA.result(False, f"limited to the time of {least:g} processors")


def folders_of(controllers: str, path: str) -> list[str]:
    """A control group's folder and its parents, if its controllers can limit processor time."""
    if controllers and "cpu" not in controllers.split(","):
        return []
    mount = "/sys/fs/cgroup" + (f"/{controllers}" if controllers else "")
    parts = [part for part in path.split("/") if part]
    return ["/".join([mount, *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def quota_of(files: Files, folder: str) -> float | None:
    """The number of processors whose time a control group may use; `None` without a limit.

    Reads version 1 and version 2 of control groups.
    """
    granted, _, period = files.text(f"{folder}/cpu.max").partition(" ")
    if not granted:
        granted = files.text(f"{folder}/cpu.cfs_quota_us")
        period = files.text(f"{folder}/cpu.cfs_period_us")
    if not granted.isdigit() or not period.isdigit() or int(period) == 0:
        return None  # `max`, -1, or no such file
    return int(granted) / int(period)


def steal(files: Files) -> Capability:
    """Whether the hypervisor has stolen time since the machine started."""
    features = files.text("/proc/cpuinfo").split()
    is_guest = "hypervisor" in features
    of_host = "no sign of a hypervisor" if features else "no file shows whether it is a guest"
    where = "a virtual machine" if is_guest else of_host
    fields = files.text("/proc/stat").partition("\n")[0].split()[1 : COUNTED_FIELDS + 1]
    if len(fields) <= STEAL_FIELD or not sum(map(int, fields)):
        return STEAL.result(not is_guest, f"{where}; the kernel does not count stolen time")
    share = int(fields[STEAL_FIELD]) / sum(map(int, fields))
    return STEAL.result(share < STEAL_LIMIT, f"{where}; {share:.2%} of its time stolen since start")


def clock(files: Files) -> Capability:
    """Whether programs read the time without a system call."""
    name = files.text(CLOCK_SOURCE)
    return CLOCK.result(name in CLOCKS_READ_WITHOUT_A_SYSTEM_CALL, name or "unknown")
