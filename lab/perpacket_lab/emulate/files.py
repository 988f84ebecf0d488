"""The files of the guest: busybox, the agent, the servers, and the libraries that they load."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from perpacket import executables
from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.measure import agent
from perpacket_lab.emulate.archive import Archive
from perpacket_lab.emulate.kernel import Kernel

PASSWORDS = b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
GROUPS = b"root:x:0:\nnogroup:x:65534:\n"


def archive(kernel: Kernel) -> bytes:
    """The initial file system of a guest.

    Raises `MachineLacks` when a program is missing on this machine.
    """
    files = Archive()
    source = resources.files("perpacket_lab.emulate") / "guest"
    files.add("init", (source / "init").read_bytes(), executable=True)
    files.add("etc/passwd", PASSWORDS)
    files.add("etc/group", GROUPS)
    files.add("etc/nginx.conf", (source / "nginx.conf").read_bytes())
    files.folder("www")
    for name, code in kernel.modules:
        files.add(f"modules/{name}.ko", code)
    files.add("modules/order", "".join(f"{name}.ko\n" for name, _ in kernel.modules).encode())
    files.add("bin/busybox", busybox().read_bytes(), executable=True)
    add_program(files, agent.find(), "bin/perpacket-agent")
    for name in ("ip", "tc"):
        add_program(files, needed(name, "iproute2"), f"host/{name}")
    if nginx := executables.find("nginx"):
        add_program(files, Path(nginx), "host/nginx")
    return files.pack()


def server_archive(server: Sequence[str], extra: Sequence[Path]) -> bytes:
    """The files of a server that perpacket does not configure; empty without one.

    The guest unpacks them after it is restored, so that all servers and all versions of a server
    run on the same stored guest. `server` is the server's command, and `extra` has its files.

    Raises `MachineLacks` when a library is missing, and `ConfigurationError` when a file is.
    """
    if not server and not extra:
        return b""
    files = Archive()
    if server:
        add_program(files, program_of(server), f"host/{Path(server[0]).name}")
    for path in (*named_files(server), *extra):
        add_tree(files, path)
    return files.pack()


def busybox() -> Path:
    """The shell and tools of the guest, in one program without libraries; raises `MachineLacks`."""
    program = needed("busybox", "busybox-static")
    if b"/ld-linux" in program.read_bytes()[:4096]:
        raise MachineLacks(
            "busybox needs libraries, but the guest's init must not need any",
            "`apt-get install busybox-static`",
        )
    return program


def needed(name: str, package: str) -> Path:
    """A program of this machine; raises `MachineLacks`."""
    path = executables.find(name)
    if path is None:
        raise MachineLacks(
            f"{name}: not found, and an emulated machine needs it", f"`apt-get install {package}`"
        )
    return Path(path)


def program_of(server: Sequence[str]) -> Path:
    """The program of a server's command; raises `ConfigurationError`."""
    path = executables.find(server[0])
    if path is None:
        raise ConfigurationError(
            f"--server {server[0]}: there is no such program on this machine",
            parameter="--server",
            hint="expected nginx, web, bulk, or the command of a server that is installed here",
        )
    return Path(path)


def named_files(server: Sequence[str]) -> list[Path]:
    """The files and folders that a command names by an absolute path."""
    words = [part for word in server[1:] for part in (word, word.partition("=")[2])]
    return [Path(word) for word in words if word.startswith("/") and Path(word).exists()]


def add_program(files: Archive, program: Path, path: str) -> None:
    """Add a program at `path`, and its libraries at the same paths as on this machine."""
    files.add(path, program.read_bytes(), executable=True)
    ldd = shutil.which("ldd") or "ldd"
    done = subprocess.run([ldd, str(program)], capture_output=True, text=True, check=False)
    if "not found" in done.stdout:
        missing = done.stdout.split("not found")[0].split()[-2]
        raise MachineLacks(f"{program} needs {missing}, which this machine does not have")
    for library in re.findall(r"(/\S+) \(0x", done.stdout):
        if not files.has(library):
            files.add(library, Path(library).read_bytes(), executable=True)


def add_tree(files: Archive, path: Path) -> None:
    """Add a file, or a folder with its content; raises `ConfigurationError` if it is missing."""
    try:
        for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if one.is_file():
                is_program = bool(one.stat().st_mode & 0o111)
                files.add(str(one.absolute()), one.read_bytes(), executable=is_program)
    except OSError as error:
        raise ConfigurationError(
            f"{path}: {(error.strerror or str(error)).lower()}", parameter="--server-files"
        ) from None
