"""The speed of the emulated machine with perpacket's plugin and of the same QEMU without a plugin.

    .venv/bin/python benches/emulation_speed.py

Both boot the same guest and do the same work: `serve web` on processor 0, which the plugin watches,
answers a number of requests of `load http` on processor 1 over the two cards. The plugin models two
levels of caches, four second levels at once, and follows call stacks. Like QEMU alone, the plugin
does not limit the turns of the processors here. The rate is the requests per second of QEMU's
processor time, from the first request to the last. Runs with and without the plugin alternate. The
bar is half the rate without a plugin.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path

from perpacket.analysis.statistics import paired_ratio
from perpacket.emulate import files, kernel, qemu
from perpacket.emulate.archive import Archive
from perpacket.emulate.machine import OPTIONS
from perpacket.emulate.prepared import prepare
from perpacket.emulate.settings import Memory

BAR = 0.5
BEGIN, END = "bench: begin", "bench: end"
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
get 500
echo '{BEGIN}'
get REQUESTS
echo '{END}'
poweroff -f
"""
"""`guest count` attaches the caches, and checks every millisecond whether its frames have
passed."""

MEMORY = Memory.of("64K:2", "256K:16,512K:16,1M:16,2M:16", "non-inclusive", "none", 0, "invalidate")


def first_files(original: bytes, requests: int, is_plain: bool) -> bytes:
    """The guest's files, with the work of this benchmark.

    A later archive replaces files of an earlier one.
    """
    source = files.resources.files("perpacket.emulate") / "guest" / "init"
    head = source.read_text().partition("store() {")[0]
    own = Archive()
    own.add("init", (head + WORK.replace("REQUESTS", str(requests))).encode(), executable=True)
    if is_plain:
        own.add("plain", b"")
    return original + own.pack()


def processor_s(pid: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds(command: list[str], folder: Path) -> float:
    """Run a machine; return its processor time between the two lines of its work."""
    console = folder / "console"
    console.unlink(missing_ok=True)
    machine = subprocess.Popen(
        [*command, "-chardev", f"file,id=console,path={console}", "-serial", "chardev:console"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    begun = 0.0
    deadline = time.monotonic() + LONGEST_S
    try:
        while time.monotonic() < deadline:
            now_s = processor_s(machine.pid)
            text = console.read_text(errors="replace") if console.exists() else ""
            if not begun and BEGIN in text:
                begun = now_s
            if END in text:
                return now_s - begun
            if machine.poll() is not None:
                break
            time.sleep(POLL_S)
        raise SystemExit(f"the guest did not end its work:\n{text[-500:]}")
    finally:
        machine.kill()
        machine.wait()


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pairs", type=int, default=8)
    options.add_argument("--requests", type=int, default=5000)
    given = options.parse_args()
    emulator, plugin = qemu.find(), qemu.plugin()
    guest = kernel.from_package()
    original = files.archive(guest)
    machine = prepare(emulator, plugin, guest, original, lambda text: print(text, "..."))
    print(f"QEMU {emulator.version}, Linux {guest.version} emulated on {platform.release()}")
    rates: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(given.pairs):
            for is_plain in (True, False) if number % 2 else (False, True):
                archive = folder / "archive"
                archive.write_bytes(first_files(original, given.requests, is_plain))
                command = [str(emulator.program), *OPTIONS, "-initrd", str(archive)]
                command += ["-kernel", str(machine.boot.kernel)]
                if not is_plain:
                    settings = {"out": "/dev/null", "symbols": str(machine.symbols)}
                    settings |= {"turn": "0", **MEMORY.arguments}
                    words = ",".join(f"{key}={value}" for key, value in settings.items())
                    command += ["-plugin", f"{plugin},{words}"]
                rates[is_plain].append(given.requests / seconds(command, folder))
            print(f"pair {number + 1}: {rates[False][-1]:,.0f} against {rates[True][-1]:,.0f}")
    ratio = paired_ratio(rates[False], rates[True])
    verdict = "not refuted" if ratio.high >= BAR else "refuted"
    print(
        f"requests by processor second, over those without a plugin: {ratio} (bar {BAR}: {verdict})"
    )


if __name__ == "__main__":
    main()
