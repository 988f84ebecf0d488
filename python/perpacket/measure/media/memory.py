"""How much memory a server may use, its part of the page cache included: a control group.

Where a group can be made (as root, with a memory controller that this host's processes can reach),
media that together exceed the limit cannot stay in the page cache, however much memory the machine
has. Where not, the files are only dropped from the cache before each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host
from perpacket.measure.media.plan import MediaPlan
from perpacket.measure.media.programs import MIB
from perpacket.measure.web.files import QUICK_S

OWN_BYTES = 128 * MIB
OWN_BYTES_PER_CLIENT = MIB // 4
"""What the server needs beside the media: a stream's threads, buffers and sockets."""

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
"""Version 2 of control groups has the one file, version 1 the other (cgroups(7)). A group's name
ends in the process id of who holds it and the start of that process, field 22 of proc_pid_stat(5):
what a killed study left behind goes first."""

ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A group on the server's host; without a limit's file it limits nothing."""

    host: Host
    limit: str

    @property
    def can_limit(self) -> bool:
        """Whether it limits anything."""
        return bool(self.limit)

    def confined(self, command: Sequence[str], plan: MediaPlan) -> tuple[list[str], int | None]:
        """The command as it runs in the group, and the limit in bytes; None where there is none.

        Only `multiple` is limited: one medium for all is to stay in memory.
        """
        if not self.limit or plan.distribution == "unique":
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
    """A group on a host, removed afterwards; one without a limit where none can be.

    `name` ends in a hyphen and the host's holder.
    """
    made = host.run(["sh", "-c", MAKE, name], timeout_s=QUICK_S)
    limit = made.stdout.strip() if made.returncode == 0 else ""
    try:
        yield MemoryGroup(host, limit)
    finally:
        if limit:
            with suppress(RunFailed):
                host.run(["rmdir", limit.rpartition("/")[0]], timeout_s=QUICK_S)
