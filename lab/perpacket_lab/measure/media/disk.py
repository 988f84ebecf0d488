"""The media on the server's disk: made once, dropped from the page cache before a run, read slowly.

A disk of the published machines needed milliseconds to find a block. A solid-state disk needs a
fraction of a millisecond. This module measures the time of a read. If that time is below
`disk.read_ms` of the study, the server's reader delays each read. With `disk.rate_mbps`, it also
serves one read after another, at this rate.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from perpacket.errors import MachineLacks, RunFailed
from perpacket.measure.hosts.contract import Host
from perpacket_lab.measure.host_files import QUICK_S, SLOW_S, made_folder, output_of
from perpacket_lab.measure.media import media_programs
from perpacket_lab.measure.media.media_plan import MediaPlan

IN_MEMORY = ("tmpfs", "ramfs")
"""File systems in memory, from which nothing can be dropped."""

FORGET = """
number=0
while [ "$number" -lt "$1" ]; do
    file=$(printf '%s/stream-%05d.ts' "$0" "$number")
    dd if="$file" iflag=nocache count=0 status=none || exit 1
    number=$((number + 1))
done
"""
"""dd(1) advises the kernel that the whole file is not needed (posix_fadvise, DONTNEED)."""

READ = 'LC_ALL=C dd if="$0" of=/dev/null bs=64k count=1'
READ_TIME = re.compile(r"copied, ([0-9.e+-]+) s")
MOST_READS = 16


@dataclass(frozen=True, slots=True)
class Media:
    """Media on the server's host, and the speed of its disk."""

    folder: str
    file_system: str
    read_ms: float | None
    """Time to read 64 KiB from the disk; `None` if the media are in memory."""

    def root(self, plan: MediaPlan) -> str:
        """The folder of a plan's media."""
        return root(self.folder, plan)

    def read_delay_ms(self, plan: MediaPlan) -> int:
        """Delay of each read in whole milliseconds; 0 on a slow disk, and for other servers."""
        if plan.is_foreign:
            return 0
        own_ms = self.read_ms or 0.0
        return round(plan.read_ms) if own_ms < plan.read_ms else 0

    def sentences(self, plans: Sequence[MediaPlan]) -> list[str]:
        """Sentences about the disk for the report."""
        texts = []
        if self.read_ms is None:
            texts.append(
                f"The media are on {self.file_system}, in memory: nothing was read from a disk. "
                "Set TMPDIR to a folder on one"
            )
        slowed = sorted({plan.read_ms for plan in plans if self.read_delay_ms(plan)})
        if slowed:
            own = "is from memory" if self.read_ms is None else f"takes {self.read_ms:.2f} ms"
            wanted = " and ".join(f"{read_ms:g} ms" for read_ms in slowed)
            texts.append(
                f"A slow disk is emulated: a read of 64 KiB {own} here, and a delay in the "
                f"server's reader makes every read of multiple media take {wanted} longer"
            )
        rates = sorted({plan.disk_rate_mbps for plan in plans if plan.disk_rate_mbps})
        if rates:
            each = " and ".join(f"{rate:g} Mb/s" for rate in rates)
            texts.append(
                f"Where it has a rate, it serves one read of 128 KiB after another at {each}"
            )
        return texts


def root(folder: str, plan: MediaPlan) -> str:
    """The folder of a plan's media, below the study's."""
    return f"{folder}/{plan.rate_bps}bps"


@contextmanager
def media_files(host: Host, plans: Sequence[MediaPlan]) -> Iterator[Media]:
    """The media of the plans, removed afterwards.

    Raises `MachineLacks` when the disk has no room, `RunFailed` for a command that fails.
    """
    with made_folder(host) as folder:
        _check_room(host, folder, plans)
        for rate_bps in sorted({plan.rate_bps for plan in plans}):
            same = [plan for plan in plans if plan.rate_bps == rate_bps]
            files = max(plan.files for plan in same)
            duration_s = max(plan.medium_s for plan in same)
            into = root(folder, same[0])
            output_of(
                host, media_programs.synthesize(host, into, rate_bps, files, duration_s), SLOW_S
            )
        # Pages that are not yet written cannot be dropped from memory.
        output_of(host, ["find", folder, "-name", "*.ts", "-exec", "sync", "{}", "+"], SLOW_S)
        file_system = output_of(host, ["stat", "-f", "-c", "%T", folder], QUICK_S).strip()
        largest = max(plans, key=lambda plan: plan.files)
        read_ms = None if file_system in IN_MEMORY else _read_ms(host, folder, largest)
        yield Media(folder, file_system, read_ms)


def forget(host: Host, folder: str, files: int) -> None:
    """Drop the first `files` media of a folder from the page cache; raises `RunFailed`."""
    output_of(host, ["sh", "-c", FORGET, folder, str(files)], SLOW_S)


def _check_room(host: Host, folder: str, plans: Sequence[MediaPlan]) -> None:
    """Raise `MachineLacks` unless the disk of a folder has room for all media."""
    needed = 0
    for rate_bps in {plan.rate_bps for plan in plans}:
        same = [plan for plan in plans if plan.rate_bps == rate_bps]
        duration_s = max(plan.medium_s for plan in same)
        needed += round(max(plan.files for plan in same) * rate_bps / 8 * duration_s)
    free = int(output_of(host, ["df", "-Pk", folder], QUICK_S).splitlines()[-1].split()[3]) * 1024
    if needed > free:
        raise MachineLacks(
            f"the media of this study need {needed / 1e9:.1f} GB, and {folder} on {host.name} has "
            f"{free / 1e9:.1f} GB left",
            hint="set TMPDIR to a folder with more room, or lower media.most_files",
        )


def _read_ms(host: Host, folder: str, plan: MediaPlan) -> float:
    """Time to read 64 KiB from the disk, the median over media."""
    files = min(plan.files, MOST_READS)
    forget(host, root(folder, plan), files)
    times_s = []
    for number in range(files):
        name = f"{root(folder, plan)}/stream-{number:05d}.ts"
        read = host.run(["sh", "-c", READ, name], timeout_s=QUICK_S)
        match = READ_TIME.search(read.stderr)
        if read.returncode or match is None:
            raise RunFailed(f"{name} on {host.name} cannot be read: {read.stderr.strip()}")
        times_s.append(float(match[1]))
    return 1000 * statistics.median(times_s)
