"""A control group that limits a server's memory, its part of the page cache included.

Making a group needs root, and a memory controller for this host's processes. With a group, media
that are larger than the limit together do not stay in the page cache, even if the machine has much
memory. Without a group, the files are only dropped from the cache before each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host
from perpacket_lab.measure.host_files import QUICK_S
from perpacket_lab.measure.media.media_plan import MediaPlan
from perpacket_lab.measure.media.media_programs import MIB

OWN_BYTES = 128 * MIB
OWN_BYTES_PER_CLIENT = MIB // 4
"""Memory of the server besides the media: threads, buffers and sockets of each stream."""

MAKE = """
for parent in /sys/fs/cgroup /sys/fs/cgroup/memory; do
    for left in "$parent/${0%-*-*}"-*-*; do
        [ -d "$left" ] || continue
        owner="${left#"$parent/${0%-*-*}-"}"
        stat="/proc/${owner%-*}/stat"
        started=$(sed -n 's/.*) [^ZX] /- /p' "$stat" 2>/dev/null | cut -d ' ' -f 20)
        [ "$started" = "${owner#*-}" ] || rmdir "$left" 2>/dev/null
    done
    group="$parent/$0"
    mkdir "$group" 2>/dev/null || continue
    for limit in memory.max memory.limit_in_bytes; do
        if [ -w "$group/$limit" ]; then echo "$group/$limit"; exit 0; fi
    done
    rmdir "$group"
done
exit 1
"""
"""Control groups of version 2 have `memory.max`, those of version 1 have `memory.limit_in_bytes`
(cgroups(7)). A group's name ends in its owner's process id and start time, field 22 of
proc_pid_stat(5). The script removes the groups of killed studies first."""

ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A group on the server's host. `limit` is the path of its limit's file; empty for no limit."""

    host: Host
    limit: str

    @property
    def can_limit(self) -> bool:
        """Whether the group has a limit."""
        return bool(self.limit)

    def confined(self, command: Sequence[str], plan: MediaPlan) -> tuple[list[str], int | None]:
        """The command in the group, and the limit in bytes; `None` if there is none.

        Only runs with the distribution `multiple` are limited: the one medium of `unique` stays in
        memory. A foreign server is not limited: the memory that it needs for a stream is not known,
        and the kernel kills a server that needs more than its limit.
        """
        if not self.limit or plan.distribution == "unique" or plan.is_foreign:
            return list(command), None
        most = OWN_BYTES + OWN_BYTES_PER_CLIENT * plan.clients + plan.cache_bytes
        script = 'echo "$1" > "$0"'
        done = self.host.run(["sh", "-c", script, self.limit, str(most)], timeout_s=QUICK_S)
        if done.returncode:
            return list(command), None
        folder = self.limit.rpartition("/")[0]
        return ["sh", "-c", ENTER, folder, *command], most


@contextmanager
def memory_group(host: Host, name: str) -> Iterator[MemoryGroup]:
    """A group on a host, removed afterwards; it has no limit if none can be set.

    `name` ends in a hyphen and the owner of the run's files on the host.
    """
    made = host.run(["sh", "-c", MAKE, name], timeout_s=QUICK_S)
    limit = made.stdout.strip() if made.returncode == 0 else ""
    try:
        yield MemoryGroup(host, limit)
    finally:
        if limit:
            with suppress(RunFailed):
                host.run(["rmdir", limit.rpartition("/")[0]], timeout_s=QUICK_S)
