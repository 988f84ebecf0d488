"""The speed of the emulated machine with perpacket's plugin and of the same QEMU without a plugin.

    .venv/bin/python benches/emulation_speed.py
    .venv/bin/python benches/emulation_speed.py --nginx 10

Both boot the same guest and do the same work: `serve web` on processor 0, which the plugin watches,
answers requests of `load http` on processor 1 over the two cards. The plugin models two levels of
caches, four second levels at once, and follows call stacks. Like QEMU alone, the plugin does not
limit the turns of the processors here. Both machines boot once. Then they alternate: one is
stopped while the other answers a number of requests. The rate is the requests per second of QEMU's
processor time. The bar is half the rate without a plugin.

With `--processors N`, a machine with N processors of the server, as many queues up to four, and
coherent caches alternates with that of one processor and e1000 cards. Both run `serve web` with 32
connections for each processor, with the default caches and turns. The rate is the instructions of
the server's processors per second of QEMU's processor time. The bar is half the rate of the machine
with one processor.

With `--nginx WINDOWS`, only the machine with the plugin runs, as `perpacket emulate --server nginx`
runs it, with the default caches and turns. The rate is the frames, sent and received, per second of
QEMU's processor time. The bar is 5,000.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any

from perpacket.analysis.statistics import mean, paired_ratio
from perpacket_lab.emulate import files, kernel, qemu, runs, work
from perpacket_lab.emulate import machine as emulated
from perpacket_lab.emulate.archive import Archive
from perpacket_lab.emulate.hardware import MOST_QUEUES, ONE, Hardware
from perpacket_lab.emulate.prepared import Prepared, prepare
from perpacket_lab.emulate.session import Guest, open_session
from perpacket_lab.emulate.settings import Memory, Scenario, Settings

BAR = 0.5
FRAMES_BAR = 5000
MARK = "bench: mark"
POLL_S = 0.005
LONGEST_S = 600.0

WORK = f"""
head -c 10240 /dev/zero >/www/file
taskset 1 perpacket-agent serve web --root /www --listen 10.0.0.1:80 --cpus 0 --quiet >/dev/null &
until cat /proc/net/tcp | grep -q ':0050 00000000:0000 0A'; do sleep 0.01; done
get() {{
    $inside taskset 2 perpacket-agent load http http://10.0.0.1/file --requests $1 \\
        --connections 32 --cpus 1 --check none --quiet >/dev/null
}}
[ -e /plain ] || {{ taskset 2 perpacket-agent guest count eth0 0 0 32 & }}
sleep 0.1
[ -e /plain ] || kill -9 $!
get 500
while echo '{MARK}'; do get REQUESTS; done
"""
"""`guest count` attaches the caches. It then wakes up every millisecond to learn whether its frames
have passed, and is ended, so that both guests do the same work. Attached caches stay attached."""

MEMORY = Memory.of("64K:2", "256K:16,512K:16,1M:16,2M:16", "non-inclusive", "none", 0, "invalidate")


def first_files(original: bytes, requests: int, is_plain: bool) -> bytes:
    """The guest's files, with the work of this benchmark.

    A later archive replaces files of an earlier one.
    """
    source = resources.files("perpacket_lab.emulate") / "guest" / "init"
    head = source.read_text().partition("store() {")[0]
    own = Archive()
    own.add("init", (head + WORK.replace("REQUESTS", str(requests))).encode(), executable=True)
    if is_plain:
        own.add("plain", b"")
    return original + own.pack()


class Machine:
    """A machine that does its work while it is not stopped."""

    def __init__(self, command: list[str], folder: Path) -> None:
        """Start it; it stops before the first request that counts."""
        self.console = folder / "console"
        folder.mkdir()
        device = f"file,id=console,path={self.console}"
        self.process = subprocess.Popen(
            [*command, "-chardev", device, "-serial", "chardev:console"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.marks = 0
        self.used_s = 0.0
        self.windows_per_s()

    def windows_per_s(self) -> float:
        """Run until the next mark, then stop; return the windows by second of processor time."""
        self.process.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + LONGEST_S
        before = self.marks, self.used_s
        while self.text().count(MARK) == self.marks:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the guest did not end its work:\n{self.text()[-500:]}")
            time.sleep(POLL_S)
        self.process.send_signal(signal.SIGSTOP)
        self.marks = self.text().count(MARK)
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        self.used_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return (self.marks - before[0]) / (self.used_s - before[1])

    def text(self) -> str:
        """What the guest has printed."""
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


def command(
    emulator: qemu.Qemu, plugin: Path | None, machine: Prepared, archive: Path
) -> list[str]:
    """The command of a machine."""
    words = [str(emulator.program), *ONE.options, "-initrd", str(archive)]
    words += ["-kernel", str(machine.boot.kernel), "-append", machine.boot.kernel_options]
    if plugin:
        settings = {"out": "/dev/null", "symbols": str(machine.symbols), "turn": "0"}
        settings |= MEMORY.arguments
        listed = ",".join(f"{key}={value}" for key, value in settings.items())
        words += ["-plugin", f"{plugin},{listed}"]
    return words


def window(
    emulator: qemu.Qemu, plugin: Path, machine: Prepared, settings: Settings, variant: int
) -> tuple[runs.Counts, float]:
    """The counts of a window, and its seconds of QEMU's processor time, which the plugin prints."""
    options = runs.arguments(machine, settings)
    script = work.script(settings, variant)
    with emulated.Machine(
        emulator, machine.boot, plugin, options, incoming=True, work=script
    ) as running:
        running.restore(machine.state)
        running.wait_for(runs.DONE)
        counts = runs.last_window(running.counts)
        used = re.search(r"([\d.]+) processor seconds", running.messages)
    if used is None:
        raise SystemExit("the plugin printed no processor time")
    return counts, float(used[1])


def frames_per_s(*inputs: Any) -> float:
    """Frames of a window per second of QEMU's processor time; the inputs are those of `window`."""
    counts, used_s = window(*inputs)
    frames: Any = counts["frames"]
    return float(frames["sent"] + frames["received"]) / used_s


def compare_processors(emulator: qemu.Qemu, plugin: Path, processors: int, pairs: int) -> None:
    """Alternate windows of a machine with several processors and of that with one; print."""
    rates: dict[Hardware, list[float]] = {ONE: []}
    several = Hardware(processors, min(processors, MOST_QUEUES))
    rates[several] = []
    machines = {
        hardware: open_session(Guest(hardware=hardware), lambda text: print(text, "...")).machine
        for hardware in rates
    }
    for number in range(pairs):
        for hardware, own in rates.items():
            scenario = Scenario("web", 32 * hardware.servers)
            settings = Settings(scenario, hardware=hardware)
            counts, used_s = window(emulator, plugin, machines[hardware], settings, number)
            instructions: Any = counts["instructions"]
            own.append(instructions / used_s)
        print(f"pair {number + 1}: {rates[several][-1]:,.0f} against {rates[ONE][-1]:,.0f}")
    ratio = paired_ratio(rates[several], rates[ONE])
    verdict = "not refuted" if ratio.high >= BAR else "refuted"
    print(
        f"instructions by processor second with {processors} processors, over those with one: "
        f"{ratio} (bar {BAR}: {verdict})"
    )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--pairs", type=int, default=24)
    options.add_argument("--requests", type=int, default=1000)
    options.add_argument("--nginx", type=int, metavar="WINDOWS", help="measure nginx instead")
    options.add_argument("--processors", type=int, help="measure a machine with so many instead")
    options.add_argument("--plugin", type=Path, default=qemu.plugin())
    given = options.parse_args()
    emulator = qemu.find()
    if given.processors:
        compare_processors(emulator, given.plugin, given.processors, given.pairs)
        return
    guest = kernel.from_package()
    original = files.archive(guest)
    prepared = prepare(emulator, qemu.plugin(), guest, original, lambda text: print(text, "..."))
    print(f"QEMU {emulator.version}, Linux {guest.version} emulated on {platform.release()}")
    if given.nginx:
        settings = Settings()
        found = [
            frames_per_s(emulator, given.plugin, prepared, settings, number)
            for number in range(given.nginx)
        ]
        rate = mean(found)
        verdict = "not refuted" if rate.high >= FRAMES_BAR else "refuted"
        print(f"frames by processor second with nginx: {rate} (bar {FRAMES_BAR}: {verdict})")
        return
    rates: dict[bool, list[float]] = {True: [], False: []}
    machines: dict[bool, Machine] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as ends:
        for is_plain in (True, False):
            archive = Path(name) / f"archive-{is_plain}"
            archive.write_bytes(first_files(original, given.requests, is_plain))
            words = command(emulator, None if is_plain else given.plugin, prepared, archive)
            machines[is_plain] = Machine(words, Path(name) / f"machine-{is_plain}")
            ends.callback(machines[is_plain].end)
        for number in range(given.pairs):
            for is_plain in (True, False) if number % 2 else (False, True):
                rates[is_plain].append(given.requests * machines[is_plain].windows_per_s())
            print(
                f"pair {number + 1}: {rates[False][-1]:,.0f} against {rates[True][-1]:,.0f}",
                flush=True,
            )
    ratio = paired_ratio(rates[False], rates[True])
    verdict = "not refuted" if ratio.high >= BAR else "refuted"
    print(
        f"requests by processor second, over those without a plugin: {ratio} (bar {BAR}: {verdict})"
    )


if __name__ == "__main__":
    main()
