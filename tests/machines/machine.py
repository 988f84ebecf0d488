"""Machines under QEMU that stand for the machines people have.

`NAME.toml` describes a machine. In its guest, `init` runs the machine's script, which passes
commands to `check`. A run has the output of each.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from machines import cross
from perpacket.errors import MachineLacks, RunFailed
from perpacket.measure import agent
from perpacket_lab.emulate import debian, files, folders, kernel, qemu
from perpacket_lab.emulate.archive import Archive
from perpacket_lab.emulate.kernel import Kernel
from perpacket_lab.emulate.machine import start

HERE = Path(__file__).parent
FILE_BYTES = 10_000
"""Size of the file that the web server serves."""

BOOT_S = 900.0
"""The longest time of a guest. A loaded machine may be many times slower than an idle one."""

POLL_S = 0.2

PREPARING = Lock()
"""Locked during the download and the build of a machine's parts, which two machines may share."""

SECTION = re.compile(
    r"=== begin (\S+) ===\n(.*?)\n?=== errors ===\n(.*?)=== end (\d+) ===", re.DOTALL
)
TIMERS = "tsc=reliable no_timer_check nowatchdog"
"""Options of x86 kernels: on a loaded machine, their checks of the emulated timers fail."""

TARGETS = {"arm64": "aarch64-unknown-linux-gnu"}
"""The target for which the agent is built, by Debian's name of the architecture. Other guests have
no agent."""

EMULATORS = {
    "amd64": qemu.PROGRAM,
    "arm64": "qemu-system-aarch64",
    "s390x": "qemu-system-s390x",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, as its file describes it. Unknown keys are errors."""

    name: str
    what: str
    architecture: str
    """Debian's name of it."""
    suite: str
    """The suite of Debian that has the kernel."""
    kernel: str
    """A package of a kernel, or one that depends on the current kernel."""
    console: str
    checks: str
    """The script of commands for the guest."""
    options: tuple[str, ...]
    capabilities: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    """Packages of the suite whose programs and libraries the guest has."""
    memory_mib: int = 1024
    kernel_options: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether programs of this machine run in the guest."""
        return self.architecture == "amd64"


@dataclass(frozen=True, slots=True)
class Check:
    """What a command in the guest wrote, and its exit status."""

    output: str
    errors: str
    status: int


@dataclass(frozen=True, slots=True)
class Run:
    """The checks of one run of a machine, by their names."""

    machine: Machine
    kernel: str
    seconds: float
    checks: dict[str, Check] = field(default_factory=dict)


def names() -> list[str]:
    """The names of all machines."""
    return sorted(path.stem for path in HERE.glob("*.toml"))


def read(name: str) -> Machine:
    """The machine of a file."""
    values = tomllib.loads((HERE / f"{name}.toml").read_text())
    lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    return Machine(name, **{**values, **lists})


def run(machine: Machine) -> Run:
    """Boot a machine and run its checks.

    Raises `MachineLacks` if a part of it cannot be had here, and `RunFailed` if the guest fails.
    """
    emulator = qemu.find(EMULATORS[machine.architecture])
    with PREPARING:
        image, content = prepared(machine)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perpacket-machine-") as folder:
        work = Path(folder)
        (work / "kernel").write_bytes(image.image)
        (work / "archive").write_bytes(content)
        command = [
            *(str(emulator.program), *machine.options, "-m", str(machine.memory_mib)),
            *("-display", "none", "-no-reboot", "-serial", f"file:{work / 'console'}"),
            *("-kernel", str(work / "kernel"), "-initrd", str(work / "archive")),
            *(
                "-append",
                f"console={machine.console} quiet mitigations=off panic=-1 "
                f"{TIMERS if machine.is_ours else ''} {machine.kernel_options}",
            ),
        ]
        with (work / "errors").open("wb") as errors:
            process = start(command, (), errors.fileno(), terminal=False)
            try:
                console = wait(process, work / "console", machine.name)
            finally:
                process.kill()
                process.wait()
        if "=== done ===" not in console:
            last = (work / "errors").read_text() + "\n".join(console.splitlines()[-30:])
            raise RunFailed(f"{machine.name}: the guest did not end its checks:\n{last}")
    checks = {
        name: Check(output, errors, int(status))
        for name, output, errors, status in SECTION.findall(console)
    }
    return Run(machine, image.version, time.monotonic() - began, checks)


def prepared(machine: Machine) -> tuple[Kernel, bytes]:
    """The kernel of a machine, and the initial file system of its guest."""
    image = kernel.from_packages(
        debian.suite(machine.suite, machine.architecture),
        machine.kernel,
        folders.cache()
        / "fleet"
        / "+".join((f"{machine.suite}-{machine.architecture}", *machine.modules)),
        machine.modules,
        is_plain=machine.is_ours,
    )
    return image, archive(machine, image)


def wait(process: subprocess.Popen[bytes], console: Path, name: str) -> str:
    """The console of a guest when it has ended; raises `RunFailed` if it does not end."""
    deadline = time.monotonic() + BOOT_S
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise RunFailed(
                f"{name}: the guest did not end within {BOOT_S:.0f} s:\n{text(console)}"
            )
        time.sleep(POLL_S)
    return text(console)


def text(console: Path) -> str:
    """The text of a console, with plain line ends."""
    return console.read_text(errors="replace").replace("\r", "") if console.exists() else ""


def archive(machine: Machine, image: Kernel) -> bytes:
    """The initial file system of a machine's guest."""
    content = Archive()
    content.add("init", (HERE / "init").read_bytes(), executable=True)
    for script in HERE.glob("*.sh"):
        content.add(script.name, script.read_bytes())
    content.add("checks", f". /{machine.checks}\n".encode())
    content.add("etc/passwd", files.PASSWORDS)
    content.add("etc/group", files.GROUPS)
    content.add("www/file", bytes(range(250)) * (FILE_BYTES // 250))
    for folder in ("proc", "sys", "dev", "tmp"):
        content.folder(folder)
    for name, code in image.modules:
        content.add(f"modules/{name}.ko", code)
    content.add("modules/order", "".join(f"{name}.ko\n" for name, _ in image.modules).encode())
    content.add("bin/busybox", busybox(machine).read_bytes(), executable=True)
    if machine.is_ours:
        files.add_program(content, agent.find(), "bin/perpacket-agent")
        files.add_program(content, files.needed("ip", "iproute2"), "bin/ip")
    elif machine.architecture in TARGETS:
        built = cross.agent(TARGETS[machine.architecture])
        content.add("bin/perpacket-agent", built.read_bytes(), executable=True)
    if machine.packages:
        add_packages(content, machine)
    return content.pack()


def add_packages(content: Archive, machine: Machine) -> None:
    """Add the programs and the shared libraries of a machine's packages, with their links."""
    label = "+".join((machine.suite, machine.architecture, *machine.packages))
    folder = folders.cache() / "fleet" / label
    if not folder.is_dir():
        with folders.made(folder) as new:
            packages = debian.suite(machine.suite, machine.architecture)
            packages.unpack_all(machine.packages, new / "root")
    root = folder / "root"
    content.link("lib", "usr/lib")
    # Packages of older suites also have files in `lib`, which is `usr/lib` in the guest.
    libraries = ("lib/*-linux-gnu/*.so*", "lib/ld*.so*")
    for pattern in ("usr/bin/*", *libraries, *(f"usr/{name}" for name in libraries)):
        for path in root.glob(pattern):
            place = path.relative_to(root)
            if place.parts[0] == "lib":
                place = "usr" / place
            place = Path("bin", path.name) if place.parts[:2] == ("usr", "bin") else place
            if path.is_file():  # of a link, the file to which it leads
                content.add(str(place), path.read_bytes(), executable=True)


def busybox(machine: Machine) -> Path:
    """busybox of a machine's architecture."""
    if machine.is_ours:
        return files.busybox()
    folder = folders.cache() / "fleet" / f"busybox-{machine.architecture}"
    if not folder.is_dir():
        with folders.made(folder) as new:
            debian.suite("sid", machine.architecture).unpack("busybox-static", new / "root")
    for place in ("usr/bin/busybox", "bin/busybox"):
        if (path := folder / "root" / place).is_file():
            return path
    raise MachineLacks(f"busybox-static: the package for {machine.architecture} has no busybox")
