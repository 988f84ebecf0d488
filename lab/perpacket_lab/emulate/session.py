"""Finds the machine that the options describe, prepares it if needed, runs it, and reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perpacket.errors import ConfigurationError, MachineLacks
from perpacket_lab.emulate import (
    debian_kernels,
    files,
    kernel,
    kernel_options,
    prepared,
    qemu,
    report,
    runs,
    self_test,
)
from perpacket_lab.emulate.guest_changes import GuestChange
from perpacket_lab.emulate.hardware import ONE, Hardware
from perpacket_lab.emulate.kernel import Kernel
from perpacket_lab.emulate.kernel_options import KernelOptions
from perpacket_lab.emulate.prepared import Prepared
from perpacket_lab.emulate.qemu import Qemu
from perpacket_lab.emulate.settings import Settings

OnProgress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Guest:
    """The inputs of a guest: the kernel, and the files of another server than perpacket's."""

    kernel: Path | None = None
    """The file of a kernel, or `debian:VERSION`; by default that of Debian's package."""
    modules: Path | None = None
    server: Sequence[str] = ()
    server_files: Sequence[Path] = field(default=())
    newest: bool = False
    """Whether to look for a newer package of the kernel."""
    server_root: Path | None = None
    """The root folder of the server, or the tar of an image."""
    server_env: Sequence[str] = ()
    """The environment of the server, as words `NAME=VALUE`."""
    changes: Sequence[GuestChange] = ()
    """All changes that are compared, whose files the guest has."""
    client: Sequence[str] = ()
    """The command of the clients, if it is not the load generator."""
    kernel_options: str = ""
    """Further options of the kernel's command line."""
    hardware: Hardware = ONE

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` for options that contradict each other."""
        if self.modules and (not self.kernel or debian_kernels.name_in(self.kernel)):
            raise ConfigurationError(
                "--modules needs --kernel with the file of a kernel", parameter="--modules"
            )
        for word in self.server_env:
            if not re.fullmatch(r"[A-Za-z_]\w*=.*", word, re.DOTALL | re.ASCII):
                raise ConfigurationError(
                    f"--server-env {word}: expected NAME=VALUE", parameter="--server-env"
                )
        given = {"--server-root": self.server_root, "--server-env": self.server_env}
        for option in [option for option, value in given.items() if value and not self.server]:
            raise ConfigurationError(
                f"{option} needs --server with the command of another server", parameter=option
            )
        for path in self.server_files:
            if not path.exists():
                raise ConfigurationError(
                    f"--server-files {path}: no such file", parameter="--server-files"
                )


@dataclass(frozen=True, slots=True)
class Session:
    """QEMU, the plugin and a prepared machine."""

    emulator: Qemu
    plugin: Path
    machine: Prepared
    files: bytes = b""
    """The archive with the files of another server."""
    kernel_options: KernelOptions = field(default_factory=dict)
    """The options of the kernel's configuration that change the cost of packets, by group."""

    def emulate(
        self,
        settings: Settings,
        on_progress: OnProgress = lambda text, share: None,
        *,
        workers: int = 0,
        record: Path | None = None,
    ) -> dict[str, object]:
        """The document of one emulation; raises `RunFailed` if a guest does not end its window.

        Raises `ConfigurationError` for settings of other hardware than the prepared machine's.
        """
        if settings.hardware != self.machine.hardware:
            raise ConfigurationError(
                f"settings of {settings.hardware} for a guest of {self.machine.hardware}",
                parameter="hardware",
                hint="open the session with Guest(hardware=settings.hardware)",
            )
        counts = runs.emulate(
            self.emulator,
            self.plugin,
            self.machine,
            settings,
            files=self.files,
            workers=workers,
            record=record,
            on_progress=on_progress,
        )
        return report.report(settings, counts, self.facts)

    @property
    def facts(self) -> dict[str, object]:
        """The facts that determine the result, besides the settings."""
        return {
            "kernel": self.machine.kernel,
            "qemu": self.emulator.version,
            "machine": self.machine.key,
            "state": self.machine.state_digest,
            **({"server_files": qemu.digest(self.files)[:20]} if self.files else {}),
            **({"kernel_options": self.kernel_options} if self.kernel_options else {}),
        }


def open_session(guest: Guest, on_stage: Callable[[str], None]) -> Session:
    """The session of a guest, which is prepared now if the cache has none.

    Raises `MachineLacks` when QEMU, the plugin or a program of the guest is missing or fails the
    self-test, and what `prepared.prepare` raises.
    """
    emulator, plugin = qemu.find(), qemu.plugin()
    source = kernel_of(guest)
    content = files.archive(source)
    own = files.server_archive(
        guest.server,
        guest.server_files,
        guest.server_root,
        guest.server_env,
        guest.changes,
        source,
        guest.client,
    )
    self_test.check(emulator, plugin)
    machine = prepared.prepare(
        emulator, plugin, source, content, on_stage, guest.kernel_options, guest.hardware
    )
    return Session(emulator, plugin, machine, own, kernel_options.of_config(source.config))


def kernel_of(guest: Guest) -> Kernel:
    """The kernel of a guest; raises what the functions of `kernel` raise."""
    needed = guest.hardware.needed
    if guest.kernel is None:
        return kernel.from_package(newest=guest.newest, needed=needed)
    if name := debian_kernels.name_in(guest.kernel):
        return debian_kernels.get(name, newest=guest.newest, needed=needed)
    return kernel.from_file(guest.kernel, guest.modules, needed)


def prepared_session(changes: Sequence[GuestChange] = ()) -> Session:
    """The session of the default guest, which `emulate prepare` has stored, with files of changes.

    Raises `MachineLacks` when there is none, or when QEMU, the plugin or a program is missing.
    """
    emulator, plugin = qemu.find(), qemu.plugin()
    machine = prepared_guest(emulator)
    if machine is None:
        raise MachineLacks(
            "no emulated machine is prepared", "`perpacket emulate prepare` boots and stores one"
        )
    if damaged := machine.damaged:
        raise MachineLacks(f"{machine.folder / damaged}: the file is damaged", prepared.REMADE)
    self_test.check(emulator, plugin)
    own = files.server_archive((), (), changes=changes, kernel=kernel.cached())
    return Session(emulator, plugin, machine, own)


def prepared_guest(emulator: Qemu) -> Prepared | None:
    """The default guest that `emulate prepare` has stored, or `None`.

    Raises `MachineLacks` when a program of the guest is missing.
    """
    source = kernel.cached()
    return prepared.find(emulator, source, files.archive(source)) if source else None
