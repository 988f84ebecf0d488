"""A folder of an application: files with placeholders replaced, and running programs.

The preparation has a folder, and so has each running application. Programs run as an unprivileged
user, who owns the folder. `Folder.values` lists the placeholders, such as `@folder@`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from perpacket.errors import ConfigurationError, RunFailed
from perpacket.measure.hosts.contract import Host, Process
from perpacket_lab.measure.applications.application_file import (
    PLACEHOLDER,
    ApplicationProgram,
    Definition,
    PreparationStep,
)

USER = "nobody"
"""The user of all programs that root starts, because PostgreSQL and others refuse to run as
root."""

READY_S = 120.0
"""Time limit for a program to listen; a JVM on a busy machine needs half of this time."""

STEP_S = 900.0
"""Time limit of a step of the preparation."""

LAST_LINES = 5
"""The number of lines of a program's errors in a message."""

STOP_S = 20.0
"""Time limit for a program to end. A database first writes its memory to disk."""

AGENT = "perpacket-agent"
"""The copy of the agent in the folder, for programs of applications."""

LISTENING = "0A"
"""The state of a listening socket in /proc/net/tcp (include/net/tcp_states.h)."""


@dataclass
class Folder:
    """An application's folder on a host of this machine, and the programs that run in it."""

    definition: Definition
    path: Path
    host: Host
    ports: Mapping[str, int]
    running: dict[str, Process] = field(default_factory=dict)
    """The running programs by name, in the order of their starts."""

    @property
    def values(self) -> dict[str, str]:
        """The placeholders: folder, agent, address, user, group, settings and ports."""
        user, group = identity()
        return {
            "folder": str(self.path),
            "agent": str(self.path / AGENT),
            "address": self.host.address,
            "user": user,
            "group": group,
            **self.definition.settings,
            **{f"{name}_port": str(port) for name, port in self.ports.items()},
        }

    @property
    def url(self) -> str:
        """The URL of the server of the pages."""
        scheme = "https" if self.definition.application.tls else "http"
        return f"{scheme}://{self.host.address}:{self.ports['web']}"

    def write_files(self) -> None:
        """Write the files of all components, and make the programs' user the folder's owner."""
        for place, part in self.definition.parts:
            for name in part.files:
                source = place / name
                if not source.is_file():
                    raise ConfigurationError(f"{place}: files: there is no {name}")
                target = self.path / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(self.fill(source.read_text(encoding="utf-8"), source))
        if self.definition.uses_agent:
            # The programs' user may lack the right to read perpacket's installation.
            shutil.copy2(self.host.agent(), self.path / AGENT)
        own(self.path)

    def fill(self, text: str, where: object) -> str:
        """A text with placeholders replaced; an unknown one is an error that names `where`."""
        values = self.values
        for name in PLACEHOLDER.findall(text):
            if name not in values:
                raise ConfigurationError(
                    f"{where}: there is no @{name}@, expected one of "
                    + ", ".join(f"@{value}@" for value in values)
                )
        return PLACEHOLDER.sub(lambda match: values[match[1]], text)

    def command(self, words: Sequence[str]) -> list[str]:
        """A command that runs as the programs' user, with the application's variables and PATH."""
        definition = self.definition
        path = ":".join([*definition.paths, os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
        # The programs' user may lack the right to write to root's folder for temporary files.
        own = {"PATH": path, "LC_ALL": "C.UTF-8", "TMPDIR": "@folder@"}
        variables = own | dict(definition.environment)
        settings = [f"{name}={self.fill(text, name)}" for name, text in variables.items()]
        filled = [self.fill(word, "command") for word in words]
        return [*as_user(), "env", f"--chdir={self.path}", *settings, *filled]

    def run(self, step: PreparationStep) -> None:
        """Run a step to its end. The programs in the step's `during` run meanwhile."""
        for program in self.definition.programs:
            if program.name in step.during:
                self.start(program)
        try:
            done = self.host.run(self.command(step.command), timeout_s=STEP_S)
        finally:
            self.stop()
        if done.returncode != 0:
            words = (
                done.stderr.strip() or done.stdout.strip() or "it printed nothing"
            ).splitlines()
            raise RunFailed(
                f"{self.definition.name}: `{' '.join(step.command)}` ended with {done.returncode}",
                "\n".join(words[-5:]),
            )

    def start(self, program: ApplicationProgram) -> None:
        """Start a program and wait until it listens."""
        process = self.host.start(self.command(program.command))
        self.running[program.name] = process
        deadline = time.monotonic() + READY_S
        while not self.is_ready(program, process):
            status = process.poll()
            if status is not None:
                raise RunFailed(
                    f"{self.definition.name}: {program.name} ended with {status} at its start",
                    self.last_words(program, process),
                )
            if time.monotonic() > deadline:
                raise RunFailed(
                    f"{self.definition.name}: {program.name} is not ready after {READY_S:g} s",
                    self.last_words(program, process),
                )
            time.sleep(0.05)

    def is_ready(self, program: ApplicationProgram, process: Process) -> bool:
        """Whether a program listens on its port, or its socket exists."""
        if "@" in program.ready:
            return Path(self.fill(program.ready, "ready")).exists()
        return listens(process.pid, self.ports[program.ready])

    def last_words(self, program: ApplicationProgram, process: Process) -> str:
        """The last lines of a program's errors."""
        text = process.stderr
        if program.log and (log := self.path / program.log).exists():
            text += log.read_text(encoding="utf-8", errors="replace")
        lines = text.strip().splitlines()[-LAST_LINES:]
        return "\n".join(["it printed:", *lines]) if lines else "it printed nothing"

    def stop(self) -> None:
        """Stop the programs in reverse order of their starts."""
        for process in reversed(list(self.running.values())):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)  # MariaDB ignores the first signal of `stop`
            process.stop(STOP_S)
        self.running.clear()


def identity() -> tuple[str, str]:
    """The user and group of the programs: `USER` if root starts them, else the current ones."""
    import grp

    entry = pwd.getpwnam(USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    return entry.pw_name, grp.getgrgid(entry.pw_gid).gr_name


def as_user() -> list[str]:
    """The words before a command that make it run as the programs' user; only root needs them.

    The command still ends when its parent ends.
    """
    if os.geteuid() != 0:
        return []
    user, group = identity()
    return [
        *("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"),
        *("--pdeathsig=KILL", "--"),
    ]


def own(folder: Path) -> None:
    """Make the programs' user the owner of a folder and of everything in it."""
    if os.geteuid() != 0:
        return
    user, group = identity()
    for place, _, files in os.walk(folder):
        shutil.chown(place, user, group)
        for name in files:
            if not os.path.islink(file := os.path.join(place, name)):
                shutil.chown(file, user, group)


def listens(pid: int, port: int) -> bool:
    """Whether a port listens in the network namespace of a process."""
    return port in set(listening(Path(f"/proc/{pid}/net/tcp"))) | set(
        listening(Path(f"/proc/{pid}/net/tcp6"))
    )


def listening(table: Path) -> Iterable[int]:
    """The ports of the listening sockets of a table such as /proc/net/tcp (proc_net(5))."""
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if fields[3] == LISTENING:
            yield int(fields[1].rpartition(":")[2], 16)
