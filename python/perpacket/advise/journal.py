"""What a trial may change, on disk before anything is changed, and how it is undone.

A session owns the journal. It starts the guardian, a process of its own that undoes everything when
the session's process ends, however it ends. If both are killed, `perpacket trial --undo` reads the
journal. A journal lists for each setting the value before and the value of the trial. At any moment
the setting has one of the two; any third value was set by somebody else, and is left alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from perpacket.advise import place as places
from perpacket.advise import settings
from perpacket.advise.settings import Gone, Setting
from perpacket.errors import ConfigurationError, MachineLacks, PerpacketError, RunFailed
from perpacket.whole_file import write_whole

SCHEMA = 1

READY, FINISHED = b"ready\n", b"finished\n"
"""Words between session and guardian: the guardian can undo; the session has undone everything."""

READY_S = 20.0
"""The guardian starts within this time, also on a busy machine."""

BOOT = Path("/proc/sys/kernel/random/boot_id")

UNDO_HINT = "`perpacket trial --undo` restores what it changed"


class Outcome(StrEnum):
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
    outcome: Outcome
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

    def open(self) -> Setting:
        """The setting; raises `Gone` if its namespace or interface no longer exists."""
        place = places.find(self.namespace, self.interface)
        if place is None:
            raise Gone(f"{self.title}: its network namespace no longer exists")
        try:
            return settings.open(self.record, place)
        except ConfigurationError as error:
            raise Gone(str(error)) from error


@dataclass(frozen=True, slots=True)
class Journal:
    """The file."""

    boot: str
    pid: int
    started: str
    """Start time of the process: a number may be that of a later process."""
    steps: tuple[Step, ...]
    guardian: int = 0

    @property
    def is_alive(self) -> bool:
        """Whether the session's process or the guardian still runs."""
        return start_time(self.pid) == self.started or _is_guardian(self.guardian)


def path() -> Path:
    """The journal's file: in /run as root, in the user's runtime folder otherwise."""
    if os.geteuid() == 0:
        folder = Path("/run/perpacket")
    else:
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        folder = Path(runtime) / "perpacket" if runtime else Path(f"/tmp/perpacket-{os.getuid()}")
    return folder / "trial.json"


def read(file: Path) -> Journal | None:
    """The journal, or None without one; raises `RunFailed` if it cannot be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        steps = tuple(Step(**step) for step in content.pop("steps"))
        content.pop("schema")
        return Journal(steps=steps, **content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunFailed(
            f"{file}: the journal of a trial cannot be read: {error}",
            "look at the file, restore its settings by hand, and remove it",
        ) from None


def write(file: Path, journal: Journal) -> None:
    """Store the journal on disk before anything relies on it."""
    write_whole(file, json.dumps({"schema": SCHEMA, **asdict(journal)}, indent=1) + "\n")


@dataclass
class Session:
    """Settings of a trial that can be changed and restored; see `begin`."""

    settings: Sequence[Setting]
    file: Path
    journal: Journal
    guardian: subprocess.Popen[bytes]
    undone: list[Undone] = field(default_factory=list)
    """Each setting's state, once the session has ended."""
    _kept: set[int] = field(default_factory=set)

    def apply(self, indices: Iterable[int]) -> None:
        """Set the values of the trial, one setting after the other."""
        for index in indices:
            self._set(index, self.journal.steps[index].changed)

    def restore(self, indices: Iterable[int]) -> None:
        """Set the values from before, one setting after the other, the last one first."""
        for index in sorted(indices, reverse=True):
            self._set(index, self.journal.steps[index].before)

    def keep(self, index: int) -> None:
        """Leave a setting changed at the end."""
        self._kept.add(index)
        kept = [step for number, step in enumerate(self.journal.steps) if number not in self._kept]
        write(self.file, replace(self.journal, steps=tuple(kept)))

    def _set(self, index: int, value: str) -> None:
        """Write a value unless somebody else changed the setting, and read it back."""
        if self.guardian.poll() is not None:
            raise RunFailed("the guardian of the trial has ended", "try again")
        setting, step = self.settings[index], self.journal.steps[index]
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
        if setting.is_readable and (found := setting.read()) != value:
            raise RunFailed(f"{step.title}: {value} was written and {found} read back")

    def end(self) -> list[Undone]:
        """Restore everything, remove the journal, and end the guardian."""
        undone = []
        for index, step in reversed(list(enumerate(self.journal.steps))):
            if index in self._kept:
                undone.append(Undone(step.title, Outcome.KEPT))
            else:
                undone.append(undo_step(step, self.settings[index]))
        self.undone = undone
        if all(one.outcome is not Outcome.FAILED for one in undone):
            self.file.unlink(missing_ok=True)
        with suppress(OSError):
            assert self.guardian.stdin is not None
            self.guardian.stdin.write(FINISHED)
            self.guardian.stdin.flush()
        self.guardian.communicate()
        return undone


@contextmanager
def begin(changes: Sequence[tuple[Setting, str]]) -> Iterator[Session]:
    """A session in which the settings can have those values; afterwards they have their own.

    Nothing is changed before every setting has been checked, the journal is on disk and the
    guardian is ready. Raises `MachineLacks` while another trial's journal exists, and what `check`
    raises.
    """
    file = path()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_another(file)
    steps = []
    for setting, value in changes:
        setting.check(value)
        steps.append(
            Step(
                setting.record(),
                setting.place.interface,
                setting.place.inode,
                setting.title(),
                setting.read(),
                setting.normal(value),
            )
        )
    own = Journal(BOOT.read_text().strip(), os.getpid(), start_time(os.getpid()), tuple(steps))
    write(file, own)
    try:
        guardian = _start_guardian(file)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    own = replace(own, guardian=guardian.pid)
    write(file, own)
    session = Session([setting for setting, _ in changes], file, own, guardian)
    try:
        yield session
    finally:
        session.end()


def undo() -> list[Undone]:
    """Restore what a killed trial left, in reverse order, and remove its journal.

    Raises `MachineLacks` while the trial still runs, and `ConfigurationError` without a journal.
    """
    file = path()
    journal = read(file)
    if journal is None:
        raise ConfigurationError(f"{file}: there is no journal: no trial left anything changed")
    if journal.is_alive:
        raise MachineLacks(
            f"{file}: the trial of process {journal.pid} still runs",
            "end it with Ctrl-C: it restores everything itself",
        )
    return undo_all(file, journal)


def undo_all(file: Path, journal: Journal) -> list[Undone]:
    """Restore every setting of a journal, and remove the journal unless one failed."""
    if journal.boot != BOOT.read_text().strip():
        undone = [
            Undone(step.title, Outcome.GONE, "the machine was restarted") for step in journal.steps
        ]
    else:
        undone = [undo_step(step) for step in reversed(journal.steps)]
    if all(one.outcome is not Outcome.FAILED for one in undone):
        file.unlink(missing_ok=True)
    return undone


def undo_step(step: Step, setting: Setting | None = None) -> Undone:
    """Restore one setting, unless somebody else changed it."""
    try:
        setting = setting or step.open()
        if setting.is_readable:
            present = setting.read()
            if present == step.before:
                return Undone(step.title, Outcome.UNCHANGED)
            if present != step.changed:
                return Undone(step.title, Outcome.CHANGED_BY_OTHERS, f"it is {present}")
        setting.write(step.before)
        if setting.is_readable and (found := setting.read()) != step.before:
            return Undone(
                step.title, Outcome.FAILED, f"{step.before} was written and {found} read back"
            )
    except Gone:
        return Undone(step.title, Outcome.GONE)
    except (PerpacketError, OSError) as error:
        return Undone(step.title, Outcome.FAILED, str(error))
    return Undone(step.title, Outcome.RESTORED)


def _refuse_another(file: Path) -> None:
    """Raise `MachineLacks` while a journal exists; one of an earlier boot is removed."""
    journal = read(file)
    if journal is None:
        return
    if journal.boot != BOOT.read_text().strip():
        file.unlink(missing_ok=True)
        return
    if journal.is_alive:
        raise MachineLacks(
            f"{file}: the trial of process {journal.pid} runs", "wait for its end, or end it"
        )
    raise MachineLacks(f"{file}: the trial of process {journal.pid} was killed", UNDO_HINT)


def _start_guardian(file: Path) -> subprocess.Popen[bytes]:
    """Start the guardian and wait until it can undo."""
    command = [sys.executable, "-m", "perpacket.advise.guardian", str(file)]
    guardian = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert guardian.stdout is not None
    if guardian.stdout.readline() != READY:
        guardian.kill()
        guardian.communicate()
        raise RunFailed("the guardian of the trial did not start: nothing was changed")
    return guardian


def start_time(pid: int) -> str:
    """The start of a process in ticks since boot (proc_pid_stat(5)); empty if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _is_guardian(pid: int) -> bool:
    try:
        return b"perpacket.advise.guardian" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
