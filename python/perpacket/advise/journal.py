"""The journal of a trial: the settings that it may change, on disk before the first change.

A session owns the journal. It starts the guardian, a separate process that undoes everything when
the session's process ends for any reason. If both are killed, `perpacket trial --undo` reads the
journal. For each setting, the journal has the value before the trial and the value of the trial. At
any moment the setting has one of the two, or parts of both if it is written part by part. If it has
any other value, somebody else has set this value, and the trial does not change it.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from perpacket import private
from perpacket.advise import network_scope, settings
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings import Gone, Setting
from perpacket.errors import ConfigurationError, MachineLacks, PerpacketError, RunFailed
from perpacket.measure.hosts.record import start_ticks
from perpacket.whole_file import write_whole

SCHEMA = 1

READY, FINISHED = b"ready\n", b"finished\n"
"""Messages: the guardian can undo (`READY`), and the session has undone everything (`FINISHED`)."""

BOOT = Path("/proc/sys/kernel/random/boot_id")

UNDO_HINT = "`perpacket trial --undo` restores what it changed"


class Restoration(StrEnum):
    """The state of one setting after a trial."""

    RESTORED = "restored"
    UNCHANGED = "as before"
    CHANGED_BY_OTHERS = "left alone: somebody else changed it"
    GONE = "gone with its interface or namespace"
    KEPT = "kept changed"
    FAILED = "not restored"


@dataclass(frozen=True, slots=True)
class Undone:
    """One setting after the end of a trial."""

    title: str
    outcome: Restoration
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One setting of a journal."""

    record: dict[str, str]
    interface: str
    namespace: int
    """Inode of the network namespace."""
    title: str
    before: str
    changed: str
    cookie: int = 0
    """The namespace's cookie, because a later namespace may have the same inode."""
    index: int = 0
    """The interface's number, because a later interface may have the same name."""

    def open(self) -> Setting:
        """The setting; raises `Gone` if its namespace or interface no longer exists."""
        scope = network_scope.find(self.namespace, self.interface)
        if scope is None or scope.cookie != self.cookie:
            raise Gone(f"{self.title}: its network namespace no longer exists")
        try:
            setting = settings.open(self.record, scope)
        except ConfigurationError as error:
            raise Gone(str(error)) from error
        self.require_interface(setting)
        return setting

    def require_interface(self, setting: Setting) -> None:
        """Raise `Gone` if the interface no longer exists, or another one has its name."""
        if self.is_of_interface and setting.scope.index != self.index:
            raise Gone(f"{self.title}: the interface no longer exists")

    @property
    def is_of_interface(self) -> bool:
        """Whether the setting belongs to the interface, unlike a sysctl or a command."""
        return bool(self.interface) and not (
            self.record["kind"] in ("sysctl", "command", "nft-rules")
            or (self.record["kind"].startswith("file") and "{interface}" not in self.record["path"])
        )


@dataclass(frozen=True, slots=True)
class Journal:
    """The file."""

    boot: str
    pid: int
    started: str
    """Start time of the process, because a later process may have the same number."""
    steps: tuple[Step, ...]
    guardian: int = 0

    @property
    def trial_is_alive(self) -> bool:
        """Whether the session's process still runs."""
        return start_time(self.pid) == self.started

    @property
    def is_alive(self) -> bool:
        """Whether the session's process or the guardian still runs."""
        return self.trial_is_alive or _is_guardian(self.guardian)


def path() -> Path:
    """The journal's file; raises `MachineLacks` if somebody else can write its folder."""
    return private.journal_folder() / "trial.json"


def left_hint() -> str:
    """The next step after a setting could not be restored."""
    return (
        "try `perpacket trial --undo`; if it fails, restore the setting by hand, and delete the "
        f"journal, which blocks other trials: {path()}"
    )


def read(file: Path) -> Journal | None:
    """The journal, or None without one; raises `RunFailed` if it cannot be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        steps = tuple(Step(**step) for step in content.pop("steps"))
        content.pop("schema")
        return Journal(steps=steps, **content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, TypeError, KeyError) as error:
        raise RunFailed(
            f"{file}: the journal of a trial cannot be read: {error}",
            "look at the file, restore its settings by hand, and remove it",
        ) from None


def write(file: Path, journal: Journal) -> None:
    """Store the journal, and wait until it is on the disk."""
    write_whole(file, json.dumps({"schema": SCHEMA, **asdict(journal)}, indent=1) + "\n")


@dataclass
class TrialSettings:
    """Settings of a trial that can be changed and restored; see `begin`."""

    settings: Sequence[Setting]
    file: Path
    journal: Journal
    guardian: subprocess.Popen[bytes]
    scopes: Sequence[NetworkScope] = ()
    """The scopes of the settings. During the session, descriptors keep their namespaces alive."""
    undone: list[Undone] = field(default_factory=list)
    """Each setting's state after the end of the session."""
    _kept: set[int] = field(default_factory=set)

    def apply(self, indices: Iterable[int]) -> None:
        """Set the trial's values, one setting after the other."""
        self._set_all([(index, self.journal.steps[index].changed) for index in indices])

    def restore(self, indices: Iterable[int]) -> None:
        """Set the values from before the trial, one setting after the other, in reverse order."""
        order = sorted(indices, reverse=True)
        self._set_all([(index, self.journal.steps[index].before) for index in order])

    def write_between(self, index: int, value: str) -> None:
        """Set a value between the old one and the trial's, after storing it in the journal."""
        steps = list(self.journal.steps)
        steps[index] = replace(steps[index], changed=value)
        self.settings[index].write(steps[index].before)
        self.journal = replace(self.journal, steps=tuple(steps))
        write(self.file, self.journal)
        self._set(index, value)

    def keep(self, index: int) -> None:
        """Apply a setting that the end of the session does not restore."""
        self.apply([index])
        self._kept.add(index)
        kept = [step for number, step in enumerate(self.journal.steps) if number not in self._kept]
        write(self.file, replace(self.journal, steps=tuple(kept)))

    def check_guardian(self) -> None:
        """Raise `RunFailed` if the guardian has ended: nothing would undo a killed trial."""
        if self.guardian.poll() is not None:
            raise RunFailed(
                "the guardian of the trial has ended; the trial undoes its changes", "try again"
            )

    def _set_all(self, values: Sequence[tuple[int, str]]) -> None:
        """Write all values, then read each back.

        A setting may depend on a later one, as TSO depends on scatter-gather.
        """
        for index, value in values:
            self._set(index, value)
        for index, value in values:
            setting, title = self.settings[index], self.journal.steps[index].title
            if setting.is_readable and (found := setting.read()) != value:
                raise RunFailed(
                    f"{title}: {value} was written and {found} read back",
                    "the setting may depend on another one: try the two together",
                )

    def _set(self, index: int, value: str) -> None:
        """Write a value unless somebody else changed the setting."""
        self.check_guardian()
        setting, step = self.settings[index], self.journal.steps[index]
        step.require_interface(setting)
        if setting.is_readable:
            present = setting.read()
            if present not in (step.before, step.changed):
                raise RunFailed(
                    f"{step.title}: somebody else set it to {present} during the trial",
                    "stop what changes it, or try at another time",
                )
            if present == value:
                return
        setting.write(value)

    def end(self) -> list[Undone]:
        """Restore everything, remove the journal, and end the guardian."""
        opened = dict(enumerate(self.settings))
        undone = self.undone
        undone += undo_steps(self.journal.steps, opened, self._kept)
        if all(one.outcome is not Restoration.FAILED for one in undone):
            self.file.unlink(missing_ok=True)
        with suppress(OSError):
            assert self.guardian.stdin is not None
            self.guardian.stdin.write(FINISHED)
            self.guardian.stdin.flush()
        self.guardian.communicate()
        for setting, scope in zip(self.settings, self.scopes, strict=True):
            setting.scope.unpin(scope)
            setting.scope = scope
        return undone


@contextmanager
def begin(changes: Sequence[tuple[Setting, str]]) -> Iterator[TrialSettings]:
    """A session in which the settings can have these values; its end restores the old values.

    Nothing is changed before every setting has been checked, the journal is on disk and the
    guardian is ready. Raises `MachineLacks` while another trial's journal exists, and the errors of
    `Setting.check`.
    """
    file = path()
    private.made(file.parent)
    _refuse_another(file)
    steps = []
    for setting, value in changes:
        setting.check(value)
        steps.append(
            Step(
                setting.record(),
                setting.scope.interface,
                setting.scope.inode,
                setting.title(),
                setting.read(),
                setting.normal(value),
                setting.scope.cookie,
                setting.scope.index if setting.scope.interface else 0,
            )
        )
    own = Journal(BOOT.read_text().strip(), os.getpid(), start_time(os.getpid()), tuple(steps))
    with locked(file):
        _refuse_another(file)
        write(file, own)
    try:
        guardian = _start_guardian(file)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    own = replace(own, guardian=guardian.pid)
    write(file, own)
    own_scopes = [setting.scope for setting, _ in changes]
    for setting, _ in changes:
        # The file of the namespace may belong to a process that ends during the trial.
        setting.scope = setting.scope.pinned()
    session = TrialSettings([setting for setting, _ in changes], file, own, guardian, own_scopes)
    try:
        yield session
    except BaseException as error:
        failed = [one for one in session.end() if one.outcome is Restoration.FAILED]
        if failed:
            text = "; ".join(f"{one.title} was not restored ({one.detail})" for one in failed)
            raise RunFailed(f"{error or type(error).__name__}; {text}", left_hint()) from error
        raise
    session.end()


def undo() -> list[Undone]:
    """Restore the settings that a killed trial left, in reverse order, and remove its journal.

    Empty without a journal. Raises `MachineLacks` while the trial still runs.
    """
    file = path()
    journal = read(file)
    if journal is None:
        return []
    if journal.trial_is_alive:
        raise MachineLacks(
            f"{file}: the trial of process {journal.pid} still runs",
            "end the trial with Ctrl-C: it restores everything itself",
        )
    with locked(file):  # Wait for a guardian that undoes the trial now.
        left = read(file)
        if left is None:
            return [Undone(step.title, Restoration.UNCHANGED) for step in reversed(journal.steps)]
        return undo_all(file, left)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Lock a journal: only one process may create or undo it at a time."""
    descriptor = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def leftover() -> Journal | None:
    """The journal that a killed trial and its killed guardian left; None without one.

    Raises `MachineLacks` or `RunFailed` for a journal that is not to be trusted or read.
    """
    journal = read(path())
    if journal is None or journal.is_alive or journal.boot != BOOT.read_text().strip():
        return None
    return journal if journal.guardian else None


def undo_all(
    file: Path, journal: Journal, opened: Mapping[int, Setting] | None = None
) -> list[Undone]:
    """Restore every setting of a journal, and remove the journal unless a setting failed.

    `opened` has the settings that are open already, by their index in the journal.
    """
    if journal.boot != BOOT.read_text().strip():
        undone = [
            Undone(step.title, Restoration.GONE, "the machine was restarted")
            for step in journal.steps
        ]
    else:
        undone = undo_steps(journal.steps, opened or {})
    if all(one.outcome is not Restoration.FAILED for one in undone):
        file.unlink(missing_ok=True)
    return undone


def undo_steps(
    steps: Sequence[Step], opened: Mapping[int, Setting], kept: Collection[int] = ()
) -> list[Undone]:
    """Restore settings in reverse order.

    A setting may depend on one that is restored later, so failed settings are tried once more.
    """
    results: dict[int, Undone] = {
        number: Undone(steps[number].title, Restoration.KEPT) for number in kept
    }
    order = list(reversed(range(len(steps))))
    for number in (*order, *order):
        if number not in results or results[number].outcome is Restoration.FAILED:
            results[number] = undo_step(steps[number], opened.get(number))
    return [results[number] for number in order]


def is_between(present: str, before: str, changed: str) -> bool:
    """Whether a setting of several parts has the old value in some and the trial's in others.

    A trial that is killed while it writes the parts leaves such a setting.
    """
    parts = settings.parts(present)
    if len(parts) == 1:
        return False
    sides = [settings.parts(value) for value in (before, changed)]
    wide = [side * len(parts) if len(side) == 1 else side for side in sides]
    if {len(side) for side in wide} != {len(parts)}:
        return False
    return all(part in pair for part, *pair in zip(parts, *wide, strict=True))


def undo_step(step: Step, setting: Setting | None = None) -> Undone:
    """Restore one setting, unless somebody else changed it."""
    try:
        setting = setting or step.open()
        step.require_interface(setting)
        if setting.is_readable:
            present = setting.read()
            if present == step.before:
                return Undone(step.title, Restoration.UNCHANGED)
            if present != step.changed and not is_between(present, step.before, step.changed):
                return Undone(step.title, Restoration.CHANGED_BY_OTHERS, f"it is {present}")
        setting.write(step.before)
        if setting.is_readable and (found := setting.read()) != step.before:
            return Undone(
                step.title, Restoration.FAILED, f"{step.before} was written and {found} read back"
            )
    except Gone:
        return Undone(step.title, Restoration.GONE)
    except (PerpacketError, OSError) as error:
        return Undone(step.title, Restoration.FAILED, str(error))
    return Undone(step.title, Restoration.RESTORED)


def _refuse_another(file: Path) -> None:
    """Raise `MachineLacks` while a journal exists; one of an earlier boot is removed."""
    journal = read(file)
    if journal is None:
        return
    never_began = not journal.guardian and not journal.is_alive
    if journal.boot != BOOT.read_text().strip() or never_began:
        file.unlink(missing_ok=True)
        return
    if journal.is_alive:
        raise MachineLacks(
            f"{file}: the trial of process {journal.pid} runs", "wait for its end, or end it"
        )
    raise MachineLacks(f"{file}: the trial of process {journal.pid} was killed", UNDO_HINT)


def _start_guardian(file: Path) -> subprocess.Popen[bytes]:
    """Start the guardian and wait until it can undo."""
    # With -P, no module of the working directory runs with this process's rights.
    command = [sys.executable, "-P", "-m", "perpacket.advise.guardian", str(file.resolve())]
    guardian = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guardian.stdout is not None
    if guardian.stdout.readline() != READY:
        guardian.kill()
        guardian.communicate()
        raise RunFailed("the guardian of the trial did not start: nothing was changed")
    return guardian


def start_time(pid: int) -> str:
    """A process's start time in ticks since boot; empty if there is none."""
    return str(start_ticks(pid) or "")


def _is_guardian(pid: int) -> bool:
    try:
        return b"perpacket.advise.guardian" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
