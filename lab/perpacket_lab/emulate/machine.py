"""The emulated machine: its command line, its process and its monitor.

The guest's commands (`work`), the plugin's counts, the console's output and QEMU's messages are
files in this process's memory, which disappear when this process ends. The kernel kills QEMU when
the thread that started it ends for any reason.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perpacket.errors import MachineLacks, RunFailed
from perpacket_lab.emulate.hardware import MEMORY_MIB, ONE, Hardware
from perpacket_lab.emulate.qemu import Qemu, plugin_option, refusal

PR_SET_PDEATHSIG = 1
"""Sets the signal that a process receives when the thread that started it ends
(include/uapi/linux/prctl.h)."""

POLL_S = 0.02
OUTPUTS = {"out": b"", "console": b"", "errors": b"", "maps": b""}
"""The files that QEMU and the plugin write, with their first content."""
REGISTERS = {"command-line": "info registers -a"}
"""The monitor's command that prints all registers of all processors."""
WITHOUT_MEMORY = [{"capability": "x-ignore-shared", "state": True}]
"""The memory is a file of its own, so the state need not contain it
(docs/system/vm-templating.rst of QEMU)."""
SETTLED_STATES = ("completed", "failed", "cancelled")
MESSAGE = "perpacket-emulate: "
"""The prefix of the plugin's messages."""

REFUSED = "Could not load plugin"
"""The beginning of QEMU's message if it does not accept a plugin (plugins/loader.c)."""

OUT_OF_MEMORY = "Out of memory: "
"""The beginning of the kernel's message when it ends a process to free memory (mm/oom_kill.c)."""

MEMORY_NEEDED = f"each variant needs {MEMORY_MIB + 512} MiB; --workers limits how many run at once"

GUEST_HINTS = {
    "No module named 'encodings'": "name the folder of Python's library with --server-files, such "
    "as /usr/lib/python3.11, and in the command the interpreter of that library, not one of a "
    "virtual environment",
    "the server sent no HTTP response": "a server of another protocol needs its own clients: "
    "--client; `perpacket emulate shell` opens a shell in the guest",
    "the server does not listen": "start it in `perpacket emulate shell`, with the same --server, "
    "to see its messages: it must listen at {address}:{port}; "
    "--server-files adds files that it needs",
    "no driver for": "name the folder of the kernel's modules with --modules, or use a kernel that "
    "has this driver, as the general kernels of distributions do",
    "a card without queues": "use a kernel whose driver of the card can set its queues, or leave "
    "out --processors",
    "cannot unpack": "pass fewer --server-files, such as a library's folder without its tests and "
    "without __pycache__",
    "processors, expected": "use fewer --processors, or a kernel that is built for more "
    "(CONFIG_NR_CPUS)",
}
"""The next step by a part of the guest's error."""

_libc = ctypes.CDLL(None)


class MemoryFile:
    """A file in memory that the emulator opens by its path."""

    def __init__(self, name: str, content: bytes = b"") -> None:
        """A file with this content."""
        self.descriptor = os.memfd_create(name)
        with open(self.descriptor, "wb", closefd=False) as file:
            file.write(content)

    @property
    def path(self) -> str:
        """The path with which a child that inherits the descriptor opens the file."""
        return f"/proc/self/fd/{self.descriptor}"

    def read(self) -> bytes:
        """The present content of the file."""
        size = os.fstat(self.descriptor).st_size
        return os.pread(self.descriptor, size, 0)

    def close(self) -> None:
        """Close the file, which removes it."""
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class Boot:
    """What to boot: the hardware, the kernel, and the initial file system if there is one."""

    kernel: Path
    archive: Path | None = None
    memory: Path | None = None
    """The file that is the guest's memory. A restored machine does not change it."""
    kernel_options: str = ONE.kernel_options
    hardware: Hardware = ONE

    def archive_bytes(self) -> bytes:
        """The initial file system."""
        return self.archive.read_bytes() if self.archive else b""

    def options(self, is_restored: bool) -> tuple[str, ...]:
        """The options of QEMU for this hardware and these files."""
        archive = ("-initrd", str(self.archive)) if self.archive else ()
        kernel = ("-kernel", str(self.kernel), *archive, "-append", self.kernel_options)
        return (*self.hardware.options, *kernel, *self._memory(is_restored))

    def _memory(self, is_restored: bool) -> tuple[str, ...]:
        if self.memory is None:
            return ()
        path = str(self.memory).replace(",", ",,")
        access = "share=off,readonly=on,rom=off" if is_restored else "share=on"
        backend = f"memory-backend-file,id=memory,size={MEMORY_MIB}M,mem-path={path},{access}"
        return ("-object", backend, "-machine", "memory-backend=memory")


class Machine:
    """A running emulated machine; leaving its context ends it."""

    def __init__(
        self,
        qemu: Qemu,
        boot: Boot,
        plugin: Path,
        arguments: Mapping[str, str],
        *,
        incoming: bool = False,
        work: bytes = b"",
        files: bytes = b"",
        terminal: bool = False,
        names_user: bool = False,
    ) -> None:
        """Start the machine; with `incoming` it waits for `restore`.

        `arguments` are the plugin's, without those for `work`, `files` and its output. With
        `terminal` the machine's console is this process's terminal. With `names_user`, costs by
        function are also by block of user code, and `mappings` lead to their functions.
        """
        self._files = {
            name: MemoryFile(name, content)
            for name, content in {**OUTPUTS, "work": work, "files": files}.items()
        }
        ours, theirs = socket.socketpair()
        passed = ("out", "work", "files", *(("maps",) if names_user else ()))
        given = {name: self._files[name].path for name in passed}
        options = {**given, **arguments}
        console = (
            "stdio,id=console,signal=off"
            if terminal
            else f"file,id=console,path={self._files['console'].path}"
        )
        command = [
            *(str(qemu.program), *boot.options(incoming)),
            *("-chardev", console, "-serial", "chardev:console"),
            *("-chardev", f"socket,id=monitor,fd={theirs.fileno()}"),
            *("-mon", "chardev=monitor,mode=control"),
            *("-plugin", plugin_option(plugin, options)),
            *(("-incoming", "defer") if incoming else ()),
        ]
        inherited = [theirs.fileno(), *(file.descriptor for file in self._files.values())]
        self._program, self._plugin = qemu.program, plugin
        self._servers = boot.hardware.servers
        self._process = start(command, inherited, self._files["errors"].descriptor, terminal)
        theirs.close()
        self._monitor = Monitor(ours, self.check)

    def __enter__(self) -> Machine:
        """The machine."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the machine."""
        self._process.kill()
        self._process.wait()
        self._monitor.close()
        for file in self._files.values():
            file.close()

    @property
    def console(self) -> str:
        """The output of the guest."""
        return self._files["console"].read().decode(errors="replace")

    @property
    def counts(self) -> str:
        """The output of the plugin."""
        return self._files["out"].read().decode()

    @property
    def mappings(self) -> str:
        """The mappings of the server's processes at the end of the window."""
        return self._files["maps"].read().decode(errors="replace")

    @property
    def messages(self) -> str:
        """The standard error of QEMU and the plugin."""
        return self._files["errors"].read().decode(errors="replace")

    def check(self) -> None:
        """Raise `RunFailed` or `MachineLacks` with the reason when the machine has ended."""
        if (status := self._process.poll()) is not None:
            raise self._ended(status)

    def wait(self) -> int:
        """Wait for the machine's end."""
        return self._process.wait()

    def wait_for(self, text: str, on_wait: Callable[[str], None] | None = None) -> None:
        """Wait until the guest, or the plugin for it, has printed `text`.

        Raises `RunFailed` with the guest's error, or the reason why the machine has ended.
        """
        while True:
            status = self._process.poll()
            console, end, _ = self.console.rpartition("\n")  # the last line may be incomplete
            printed = console + end + self.messages
            if error := after(printed, "perpacket: error: "):
                hints = [hint for part, hint in GUEST_HINTS.items() if part in error]
                raise RunFailed(f"the guest: {error}", *hints)
            if text in printed:
                return
            if killed := after(printed, OUT_OF_MEMORY):
                servers = self._servers
                raise RunFailed(
                    f"the guest's {MEMORY_MIB} MiB are too small for {servers} "
                    f"processor{'s' if servers > 1 else ''} of this server: {killed}",
                    "use fewer --processors or --connections, or a smaller --socket-buffer",
                )
            if "Kernel panic" in printed:
                raise RunFailed(f"the guest's kernel: {after(printed, 'Kernel panic - ')}")
            if status is not None:
                raise self._ended(status)
            if on_wait is not None:
                on_wait(printed)
            time.sleep(POLL_S)

    def _ended(self, status: int) -> RunFailed | MachineLacks:
        messages = self.messages.strip()
        reason = (
            after(messages, f"{MESSAGE}error: ")
            or (messages.splitlines() or ["no reason given"])[-1]
        )
        hint = after(messages, f"{MESSAGE}hint: ")
        if status == -signal.SIGKILL:
            return RunFailed(
                "the emulator was killed, perhaps because this machine has no more memory",
                MEMORY_NEEDED,
            )
        if REFUSED in messages and MESSAGE not in messages:
            return refusal(str(self._program), self._plugin, reason)
        if "annot allocate memory" in messages or "cannot set up guest memory" in messages:
            return MachineLacks(f"the emulator: {reason}", MEMORY_NEEDED)
        return RunFailed(f"the emulator ended with status {status}: {reason}", hint)

    def save(self, file: Path) -> str:
        """Stop the machine and write its state, except its memory, to a file.

        Returns the registers of the processors as text. Raises `RunFailed`.
        """
        self._monitor.execute("stop")
        registers = str(self._monitor.execute("human-monitor-command", **REGISTERS))
        self._monitor.execute("migrate-set-capabilities", capabilities=WITHOUT_MEMORY)
        self._monitor.execute("migrate", uri=f"file:{file}")
        while (state := self._monitor.execute("query-migrate")).get("status") not in SETTLED_STATES:
            time.sleep(POLL_S)
        if state.get("status") != "completed":
            raise RunFailed(
                f"{file}: the machine's state was not written: {state.get('error-desc', '')}",
                "free some space there",
            )
        return registers

    def restore(self, file: Path) -> None:
        """Read a machine's state and continue it; raises `RunFailed`.

        The cards must not send announcements, because QEMU would send these by the clock of
        the host, not of the guest.
        """
        try:
            self._monitor.execute("migrate-set-capabilities", capabilities=WITHOUT_MEMORY)
            self._monitor.execute("migrate-set-parameters", **{"announce-rounds": 0})
            self._monitor.execute("migrate-incoming", uri=f"file:{file}")
            while self._monitor.execute("query-status").get("status") == "inmigrate":
                time.sleep(POLL_S)
            self._monitor.execute("cont")
        except RunFailed as error:
            if MESSAGE in self.messages:
                raise  # the plugin's own reason
            raise RunFailed(
                f"{file}: the machine's state cannot be restored: {error}",
                f"remove {file.parent}; the next emulation prepares the machine again",
            ) from error


class Monitor:
    """QEMU's monitor, in its machine protocol (QMP)."""

    def __init__(self, connection: socket.socket, check: Callable[[], None]) -> None:
        """A monitor on a connection; `check` raises an error if the process has ended."""
        self._connection = connection
        self._lines = connection.makefile("rw")
        self._check = check
        self._is_greeted = False

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._lines.close()
        self._connection.close()

    def execute(self, command: str, **arguments: object) -> Any:
        """The answer to a command; raises `RunFailed` with QEMU's error."""
        if not self._is_greeted:
            self._is_greeted = True
            self.execute("qmp_capabilities")
        try:
            self._lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
            self._lines.flush()
            while line := self._lines.readline():
                answer = json.loads(line)
                if "error" in answer:
                    raise RunFailed(f"the emulator's {command}: {answer['error']['desc']}")
                if "return" in answer:
                    return answer["return"]
        except OSError:
            pass
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:  # the exit status is available shortly after the last
            # message
            self._check()
            time.sleep(POLL_S)
        raise RunFailed(f"the emulator does not respond to {command}")


def start(
    command: Sequence[str], inherited: Sequence[int], errors: int, terminal: bool
) -> subprocess.Popen[bytes]:
    """Start a process that ends when the calling thread ends."""
    parent = os.getpid()

    def before_exec() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)

    return subprocess.Popen(
        command,
        stdin=None if terminal else subprocess.DEVNULL,
        stdout=None if terminal else subprocess.DEVNULL,
        stderr=errors,
        pass_fds=inherited,
        # Ctrl-C must reach only this process.
        start_new_session=not terminal,
        preexec_fn=before_exec,  # noqa: PLW1509 - it makes system calls only
    )


def after(text: str, mark: str) -> str:
    """The text after `mark` in the first line that contains it; empty without such a line."""
    return next((line.partition(mark)[2].strip() for line in text.splitlines() if mark in line), "")
