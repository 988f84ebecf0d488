"""The files of the guest: busybox, the agent, the servers, and the libraries that they load."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import struct
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from perpacket import executables
from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.measure import agent
from perpacket_lab.emulate import guest_changes, server_root
from perpacket_lab.emulate.archive import Archive
from perpacket_lab.emulate.guest_changes import GuestChange
from perpacket_lab.emulate.kernel import Kernel

PASSWORDS = b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
GROUPS = b"root:x:0:\nnogroup:x:65534:\n"

SERVER_FOLDER = "etc/server-folder"
"""The file with the working folder of a server whose command names files relative to it."""

ELF_64 = b"\x7fELF\x02\x01"
LOADER_FOLDERS = [
    folder + machine
    for folder in ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
    for machine in ("", "/x86_64-linux-gnu")
]
"""The folders in which the guest's loader searches for libraries."""

LOADER = 3
"""The type of a program header that names the loader, PT_INTERP (include/uapi/linux/elf.h)."""


def archive(kernel: Kernel) -> bytes:
    """The initial file system of a guest.

    Raises `MachineLacks` when a program is missing on this machine.
    """
    files = Archive()
    source = resources.files("perpacket_lab.emulate") / "guest"
    files.add("init", (source / "init").read_bytes(), executable=True)
    files.add("etc/passwd", PASSWORDS)
    files.add("etc/group", GROUPS)
    # The certificate of the server with TLS is an input, so that every guest has the same bytes.
    for name in ("nginx.conf", "tls.crt", "tls.key"):
        files.add(f"etc/{name}", (source / name).read_bytes())
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


def server_archive(
    server: Sequence[str],
    extra: Sequence[Path],
    root: Path | None = None,
    environment: Sequence[str] = (),
    changes: Sequence[GuestChange] = (),
    kernel: Kernel | None = None,
    client: Sequence[str] = (),
) -> bytes:
    """The files of a server that perpacket does not configure; empty without any.

    The guest unpacks them after it is restored, so that all servers and all versions of a server
    run on the same stored guest. `server` is the server's command, and `extra` has its files.
    `root` is the root folder of the server, or the tar of an image. `environment` has words
    `NAME=VALUE`. `changes` also have files: modules of `kernel`, and programs. `client` is the
    command of the clients if it is not the load generator.

    Raises `MachineLacks` when a library is missing, and `ConfigurationError` when a file is.
    """
    files = Archive()
    if kernel is not None:
        add_changes(files, changes, kernel)
    if server:
        add_server(files, server[0], root, environment, extra)
    if client:
        add_program(files, program_of(client[0], "--client"), f"host/{Path(client[0]).name}")
    for path in (*([] if root else named_files(server)), *named_files(client), *extra):
        add_tree(files, path)
    if not root and any(not path.is_absolute() for path in named_files(server)):
        folder = Path.cwd()
        files.folder(str(folder))
        files.add(SERVER_FOLDER, os.fsencode(folder))
    return files.pack() if files.size_bytes else b""


def add_changes(files: Archive, changes: Sequence[GuestChange], kernel: Kernel) -> None:
    """Add the modules and programs of changes; raises `MachineLacks` without a program."""
    for name in sorted(set().union(*(change.programs for change in changes))):
        add_program(files, needed(name, guest_changes.PROGRAMS[name]), f"host/{name}")
    modules = guest_changes.modules_of(changes, kernel)
    for name, code in modules:
        files.add(f"{guest_changes.FOLDER}/{name}.ko", code)
    if modules:
        order = "".join(f"{name}.ko\n" for name, _ in modules)
        files.add(f"{guest_changes.FOLDER}/order", order.encode())


def add_server(
    files: Archive,
    name: str,
    root: Path | None,
    environment: Sequence[str],
    extra: Sequence[Path] = (),
) -> None:
    """Add a server's program, or a script that starts it in its root and environment.

    A program in a folder of `extra` runs at its own place, because it may look for files beside
    itself. Others have the same place in the guest, wherever they are on this machine.
    """
    place = f"host/{Path(name).name}"
    if root is None:
        source = program_of(name).absolute()
        is_beside = any(source.is_relative_to(path.absolute()) for path in extra if path.is_dir())
        program = f"host/program/{source.name}" if environment else place
        program = str(source).lstrip("/") if is_beside else program
        add_program(files, source, program)
        if program == place:
            return
        lines = [f'exec {shlex.quote(f"/{program}")} "$@"']
    else:
        environment = [*server_root.add_root(files, root), *environment]
        inside = server_root.program_in(files, name, environment)
        check_interpreter(files, inside)
        folder = f"/{server_root.FOLDER}"
        lines = [
            f"cd {folder} && mkdir -p proc sys dev tmp www && chmod 1777 tmp",
            "mount -t proc proc proc; mount -t sysfs sys sys; mount -t devtmpfs dev dev",
            "mount --bind /www www",
            f'exec /bin/chroot {folder} {shlex.quote(inside)} "$@"',
        ]
    for word in environment:
        variable, _, value = word.partition("=")
        lines.insert(-1, f"export {variable}={shlex.quote(value)}")
    files.add(place, "\n".join(["#!/bin/sh", *lines, ""]).encode(), executable=True)


def check_interpreter(files: Archive, program: str) -> None:
    """Raise `ConfigurationError` if a root lacks the loader or the interpreter of a program."""
    content = files.content(files.resolve(server_root.FOLDER, program))
    interpreter = interpreter_of(content)
    if interpreter and not files.resolve(server_root.FOLDER, interpreter):
        raise ConfigurationError(
            f"--server {program}: it needs {interpreter}, which the root of --server-root lacks",
            parameter="--server-root",
        )


def interpreter_of(program: bytes) -> str:
    """The program that loads or interprets a program; empty for none."""
    if program.startswith(b"#!"):
        return (program[2:].split(b"\n")[0].split() or [b""])[0].decode(errors="replace")
    if not program.startswith(ELF_64):
        return ""
    try:
        (headers,) = struct.unpack_from("<Q", program, 32)
        size, number = struct.unpack_from("<HH", program, 54)
        for at in range(headers, headers + size * number, size or 1):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", program, at)
            if kind == LOADER:
                return program[offset : offset + length].rstrip(b"\0").decode(errors="replace")
    except struct.error:  # the guest's kernel reports a damaged program
        pass
    return ""


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


def program_of(name: str, option: str = "--server") -> Path:
    """The program of a command; raises `ConfigurationError`, which names its option."""
    path = executables.find(name)
    if path is None:
        raise ConfigurationError(
            f"{option} {name}: there is no such program on this machine",
            parameter=option,
            hint="expected nginx, web, bulk, or the command of a server that is installed here"
            if option == "--server"
            else "expected the command of a program that is installed here",
        )
    return Path(path)


def named_files(server: Sequence[str]) -> list[Path]:
    """The files that a command names, and the folders that it names by an absolute path."""
    words = [part for word in server[1:] for part in (word, word.partition("=")[2])]
    # These functions of os.path accept words that are no names, such as a program's text.
    return [
        Path(word)
        for word in words
        if os.path.isfile(word) or (os.path.isabs(word) and os.path.exists(word))
    ]


def add_program(files: Archive, program: Path, path: str) -> None:
    """Add a program at `path`, and its libraries at the same paths as on this machine.

    A script comes with its interpreter, also with that which it names for `/usr/bin/env`.
    """
    content = program.read_bytes()
    files.add(path, content, executable=True)
    if content.startswith(b"#!"):
        for word in content[2:].split(b"\n")[0].decode(errors="replace").split()[:2]:
            needed_program = executables.find(word)
            if needed_program is None and word.startswith("/"):
                raise MachineLacks(f"{program} needs {word}, which this machine does not have")
            is_shell = Path(word).name == "sh"  # the guest has one
            if needed_program and not is_shell and not files.has(needed_program):
                add_program(files, Path(needed_program), needed_program)
        return
    present, missing = libraries(program)
    if missing:
        raise MachineLacks(f"{program} needs {missing[0]}, which this machine does not have")
    add_libraries(files, present)


def libraries(program: Path) -> tuple[list[str], list[str]]:
    """The paths of the libraries that a program loads, and the names of those not found."""
    ldd = shutil.which("ldd") or "ldd"
    done = subprocess.run([ldd, str(program)], capture_output=True, text=True, check=False)
    missing = re.findall(r"(\S+) => not found", done.stdout)
    return re.findall(r"(\S*/\S+) \(0x", done.stdout), missing


def add_libraries(files: Archive, paths: Sequence[str]) -> None:
    """Add libraries at the same paths as on this machine.

    The loader of the guest knows no other folders than its own. So a library of another one, which
    this machine finds by LD_LIBRARY_PATH, beside the program or in its cache, is there too.
    """
    for library in paths:
        source = Path(library).absolute()
        known = str(source.parent) in LOADER_FOLDERS
        for place in [str(source)] if known else [str(source), f"/usr/lib/{source.name}"]:
            if not files.has(place):
                files.add(os.path.normpath(place), source.read_bytes(), executable=True)


def add_tree(files: Archive, path: Path) -> None:
    """Add a file, or a folder with its content; raises `ConfigurationError` if it is missing.

    Programs and libraries come with the libraries that they load.
    """
    try:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                is_program = bool(file.stat().st_mode & 0o111)
                content = file.read_bytes()
                files.add(os.path.normpath(file.absolute()), content, executable=is_program)
                if content.startswith(ELF_64):
                    add_libraries(files, libraries(file)[0])
    except OSError as error:
        raise ConfigurationError(
            f"{path}: {(error.strerror or str(error)).lower()}", parameter="--server-files"
        ) from None
