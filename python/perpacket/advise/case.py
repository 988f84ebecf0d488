"""The facts of another machine, from files that somebody sent.

A case is a set of files: texts of /proc and /sys, the output of ethtool, ss, nstat, tc, ip, mpstat,
sysctl and lscpu, and one profile or recording. Each file is recognized by its content; files below
`sys/`, `proc/` and `etc/` keep their paths. Nothing is read from the machine on which advice runs.

Files in a folder `before` are the counters at the start. Without them, counts are those since the
machine's start.
"""

from __future__ import annotations

import fnmatch
import json
import re
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perpacket.advise import (
    config_texts,
    growth,
    kernel_texts,
    pasted,
    processor_texts,
    profile,
    resource_facts,
)
from perpacket.advise.counters import Counters, processors
from perpacket.advise.expression import NotReadable
from perpacket.advise.growth import Growth
from perpacket.advise.links import Link
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.observation import Observation, busy_interfaces
from perpacket.advise.profile import Profile
from perpacket.advise.texts import Texts
from perpacket.errors import ConfigurationError
from perpacket.machine.files import Files
from perpacket.machine.nodes import INTERFACES, near_interrupts
from perpacket.machine.processors import online
from perpacket.measure import agent, live
from perpacket.measure.hosts.record import temporary_folder

BEFORE = "before"
"""The folder with the counters at the start of the window."""

MANIFEST, SCHEMA = "manifest.json", ("perpacket-case", 1)
"""The file of an archive that names its form, and the form that is read."""

LARGEST_CASE_BYTES = 1 << 30

LARGEST_BYTES = 1 << 26
"""A text that is longer is no counter; recordings have no limit."""

BINARY = (b"PERFILE2", b"2ELIFREP", b"\x1f\x8b")
"""The first bytes of recordings of perf, of either byte order, and of profiles of pprof."""

SOURCES = {
    "sysctl": "sysctl -a",
    "rules": "iptables-save",
    "ethtool-feature": "ethtool -k",
    "ethtool-coalesce": "ethtool -c",
    "ethtool-channels": "ethtool -l",
    "ethtool-rings": "ethtool -g",
    "qdisc": "tc -s qdisc",
    "link-mtu": "ip -d link",
    "link-largest-packet": "ip -d link",
}
"""The command whose output shows a kind of setting."""

IRQS = "/sys/kernel/irq"


@dataclass(frozen=True, slots=True)
class Case:
    """The files of a machine, read."""

    before: Texts | None
    now: Texts
    profile: Profile
    unknown: tuple[str, ...]
    """The files that were not recognized."""
    taken: tuple[tuple[str, str], ...] = ()
    """Each file, or archive as a whole, with what was recognized in it."""

    def observation(self, interface: str = "") -> Observation:
        """The facts for advice: those of the files, and no others."""
        found = self._links()
        if interface and interface not in found:
            raise ConfigurationError(
                f"--interface {interface}: the files name no such interface",
                parameter="--interface",
                value=interface,
                allowed=f"they name {', '.join(found) or 'none'}",
            )
        grown = self._growth()
        carried = grown.devices
        document = dict(self.profile.document)
        if carried:
            document["interfaces"] = carried
        if not (near := near_interrupts(self.now.files)).available:
            notes = self.profile.document.get("limits")
            of_profile = notes if isinstance(notes, list) else []
            document["limits"] = [*of_profile, f"{near.detail}: {near.cost_of_lack}"]
        measured = replace(self.profile, document=document)
        busy = busy_interfaces(measured, found) if carried else ()
        names = (interface,) if interface else busy or tuple(name for name in found if name != "lo")
        return Observation(
            measured,
            NetworkScope(),
            found,
            self._setting,
            growth=grown,
            interfaces=names,
            cpus=max(self.now.cpus, len(online(self.now.files))),
            server=self.now.server,
            is_case=True,
            files=self.taken,
            unknown=self.unknown,
        )

    def stacks(self, path: Path) -> Profile:
        """The profile of the case in a file; raises `ConfigurationError` if it has none."""
        if self.profile.is_missing:
            raise ConfigurationError(
                f"{path}: the case has no stacks, only counters and settings",
                hint="capture it as root where perf is installed",
            )
        return self.profile

    def _links(self) -> dict[str, Link]:
        found = dict(self.now.links)
        for name in self.now.names:
            queues = [one.present for one in self.now.parameters
                      if (one.kind, one.interface) == ("ethtool-channels", name)]  # fmt: skip
            discipline = self.now.queues.get(name)
            folder = f"{INTERFACES}/{name}"
            mtu = self.now.files.text(f"{folder}/mtu")
            kind = "loopback" if name == "lo" else "hardware"
            ways = self.now.files.names(f"{folder}/queues")
            sending = sum(way.startswith("tx-") for way in ways)
            known = found.get(name) or Link(
                name, int(mtu) if mtu.isdigit() else 1500, kind, sending, ""
            )
            found[name] = replace(
                known,
                queueing=discipline.kind if discipline else known.queueing,
                tx_queues=max([known.tx_queues, *map(_sending, queues)]),
            )
        return found

    def _growth(self) -> Growth:
        now = _counters(self.now)
        if self.before is None:
            since = Counters(now.time_s - 1, {}, {}, dict.fromkeys(now.protocols, 0), {}, 0, 0)
            empty = replace(
                since,
                backlogs=dict.fromkeys(now.backlogs, kernel_texts.Backlog(0, 0, 0)),
                interrupts={name: [0] * len(row) for name, row in now.interrupts.items()},
                drivers={name: dict.fromkeys(row, 0) for name, row in now.drivers.items()},
                queues={name: replace(q, delayed=0, dropped=0) for name, q in now.queues.items()},
            )
            found, seconds = growth.between(empty, now), 0.0
        else:
            found = growth.between(_counters(self.before), now)
            seconds = now.time_s - _counters(self.before).time_s
        if found is None:
            raise ConfigurationError(
                f"the counters of the folder `{BEFORE}` are not older than the others",
                hint="name the files of one machine",
            )
        shares = self.now.shares
        each = {name: row for name, row in shares.items() if name != processor_texts.ALL}
        return replace(
            found,
            seconds=seconds,
            busy={name: row.busy for name, row in shares.items()} or found.busy,
            softirq={name: row.softirq for name, row in each.items()} or found.softirq,
            stolen={name: row.stolen for name, row in shares.items()} or found.stolen,
            sockets=self.now.sockets,
            messages=self.now.messages,
            programs=self.now.programs,
            calls=self.now.calls,
            idle_states=self.now.idle_states or resource_facts.states_of(self.now.files),
            hashed=self.now.hashed,
            irqbalance=self.now.irqbalance,
            speeds=self.now.speeds,
            rate_bps=self.now.rate_bps,
            throttled=self.now.throttled,
            half_duplex=self.now.half_duplex,
        )

    def _setting(self, table: Mapping[str, str], interface: str) -> str:
        """The present value of a setting; raises `NotReadable` if no file shows it."""
        kind = table["kind"]
        value: str | None = None
        name = table.get("feature") or table.get("name") or table.get("parameter") or kind
        source = SOURCES.get(kind, "")
        missing = f"no file shows {name}" + (f" (`{source}`)" if source else "")
        if kind == "ethtool-feature":
            value = self.now.features.get(interface, {}).get(table["feature"])
        elif kind == "sysctl":
            path = "/proc/sys/" + table["name"].replace(".", "/")
            value = self.now.sysctls.get(table["name"]) or self.now.files.text(path) or None
        elif kind in ("ethtool-channels", "ethtool-coalesce", "ethtool-rings"):
            value = self._parameter(kind, interface, table["parameter"])
        elif kind in ("file", "file-mask"):
            patterns = table["path"].replace("{interface}", interface)
            values = [
                text
                for pattern in patterns.split()
                for path, text in self.now.files.texts.items()
                if fnmatch.fnmatch(path, pattern)
            ]
            prefix = "mask:" if kind == "file-mask" else ""
            equal = len(set(values)) == 1
            value = prefix + (values[0] if equal else ";".join(values)) if values else None
            missing = f"no file is `{patterns}`"
        elif kind == "rules" and self.now.rules:
            value = str(self.now.rules)
        elif kind == "link-largest-packet" and interface in self.now.links:
            value = self.now.links[interface].largest_packet or None
        elif kind == "link-mtu" and interface in self.now.links:
            value = str(self.now.links[interface].mtu)
        elif kind == "qdisc" and interface in self._links():
            value = self._links()[interface].queueing or None
        if value is None:
            raise NotReadable(missing)
        return value

    def _parameter(self, kind: str, interface: str, parameter: str) -> str | None:
        way, name = ("most", parameter[4:]) if parameter.startswith("max-") else ("now", parameter)
        for one in self.now.parameters:
            if (one.kind, one.interface) == (kind, interface):
                return (one.most if way == "most" else one.present).get(name)
        return None


def _sending(queues: Mapping[str, str]) -> int:
    """The send queues that `ethtool -l` prints; `n/a` is none."""
    ways = (queues.get(way, "") for way in ("combined", "tx"))
    return sum(int(count) for count in ways if count.isdigit())


def _counters(texts: Texts) -> Counters:
    uptime = texts.files.text("/proc/uptime").split()
    return Counters(
        float(uptime[0]) if uptime else 0.0,
        processors(texts.files.text("/proc/stat")),
        {},
        texts.protocols,
        texts.queues,
        backlogs=texts.backlogs or _of_softirqs(texts),
        interrupts=texts.interrupts or _of_sysfs(texts.files),
        drivers=texts.drivers,
        devices=texts.devices,
        senders=texts.senders,
    )


def _of_softirqs(texts: Texts) -> dict[str, kernel_texts.Backlog]:
    """The softirqs of receiving, in place of frames that were not counted."""
    return {
        name: kernel_texts.Backlog(count, 0, 0) for name, count in texts.received_softirqs.items()
    }


def _of_sysfs(files: Files) -> dict[str, list[int]]:
    """The interrupts of each name, by processor; Documentation/ABI/testing/sysfs-kernel-irq."""
    found: dict[str, list[int]] = {}
    for number in files.names(IRQS):
        name, counts = (files.text(f"{IRQS}/{number}/{of}") for of in ("actions", "per_cpu_count"))
        if name and re.fullmatch(r"\d+(,\d+)*", counts):
            found[name] = [int(count) for count in counts.split(",")]
    return found


def read(paths: Sequence[Path]) -> Case:
    """The case of files, folders and archives.

    Raises `ConfigurationError` for a file that cannot be read, for the cases of two machines, and
    if nothing was recognized.
    """
    archives = [path for path in paths if is_archive(path)]
    if len(archives) > 1:
        raise ConfigurationError(
            f"{', '.join(map(str, archives))}: expected the case of one machine",
            hint="`perpacket profile compare A.case B.case` compares two",
        )
    with temporary_folder("case") as folder:
        opened = {path: path for path in paths}
        for number, path in enumerate(paths):
            if path in archives:
                opened[path] = folder / str(number)
                unpack(path, opened[path])
        return _read(opened)


def _read(opened: Mapping[Path, Path]) -> Case:
    """The case of these files and folders, by what the user named."""
    before, now = Texts(), Texts()
    has_before = False
    taken: dict[str, dict[str, None]] = {}
    unknown: list[str] = []
    recordings: list[Recording] = []
    for source, path, name in _files(opened):
        if path.name == MANIFEST:
            continue
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        is_unpacked = opened[source] != source
        shown = str(source / path.relative_to(opened[source])) if is_unpacked else name
        found = taken.setdefault(str(source) if is_unpacked else shown, {})
        start = content[:LARGEST_BYTES].decode(errors="replace")
        if content.startswith(BINARY) or _is_profile(content):
            recordings.append(Recording(path, len(content), name=shown))
            found["a profile or recording"] = None
            continue
        is_before = BEFORE in Path(name).parts
        has_before |= is_before
        is_configuration = config_texts.server(name, start, 0) is not None
        sections = [(name, start)] if is_configuration else list(pasted.sections(name, start))
        kinds: list[str] = []
        for title, text in sections:
            if _are_stacks(text):
                part = "" if len(sections) == 1 else text
                recordings.append(Recording(path, len(part or content), part, shown))
                kinds.append("stacks")
            elif len(content) <= LARGEST_BYTES:
                of = before if is_before else now
                kinds += of.add(title, text)
        found.update(dict.fromkeys(kinds))
        if not kinds and not is_unpacked:  # `capture` also stores what people read
            unknown.append(shown)
    for texts in (before, now):
        texts.name_drivers()
    used = max(recordings, key=lambda one: (_is_document(one.path), one.size), default=None)
    for other in recordings:
        if used is not None and other.path not in (used.path, used.path.with_name(CHAINS)):
            taken.setdefault(other.name, {})[f"stacks, not used: {used.name} has more"] = None
    packets = _packets(before, now) if has_before else 0
    recognized = tuple((name, ", ".join(found)) for name, found in taken.items() if found)
    if not recognized:
        names = unknown or map(str, opened)
        raise ConfigurationError(
            f"{', '.join(names)}: nothing in it was recognized",
            hint="`perpacket capture --script` prints a script that collects what advice reads",
        )
    return Case(
        before if has_before else None,
        now,
        _profile(used, packets) if used else Profile({}),
        tuple(unknown),
        recognized,
    )


CHAINS = "stacks.folded"
"""The call chains of a profile's document beside it, as `perpacket capture` stores them."""


def _is_document(path: Path) -> bool:
    return path.suffix == ".json"


@dataclass(frozen=True, slots=True)
class Recording:
    """A file with a profile, or a part of a text with stacks."""

    path: Path
    size: int
    part: str = ""
    """The stacks; empty if the whole file is the recording."""
    name: str = ""
    """The file's name for people."""


def unpack(path: Path, folder: Path) -> None:
    """Write the files of an archive, as `perpacket capture` makes it, into a folder."""
    try:
        with tarfile.open(path) as archive:
            if sum(member.size for member in archive) > LARGEST_CASE_BYTES:
                raise ConfigurationError(f"{path}: the files of the case have over 1 GiB")
            archive.extractall(folder, filter="data")
        manifests = [json.loads(file.read_text()) for file in folder.glob(f"*/{MANIFEST}")]
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: {MANIFEST} is not JSON: {error}") from None
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ConfigurationError(f"{path}: the archive cannot be read: {error}") from None
    for manifest in manifests:
        known = manifest if isinstance(manifest, dict) else {}
        schema = (known.get("schema"), known.get("version"))
        if schema != SCHEMA:
            raise ConfigurationError(
                f"{path}: {MANIFEST} has schema {schema[0]}, version {schema[1]}; expected "
                f"{SCHEMA[0]}, version {SCHEMA[1]}",
                hint="read it with the perpacket that wrote it, or capture again",
            )


def require_archive(path: Path, hint: str) -> None:
    """Raise `ConfigurationError` unless a file is one of `perpacket capture`."""
    if not is_archive(path):
        is_there = path.exists()
        reason = "it is no file of `perpacket capture`" if is_there else "no such file or directory"
        raise ConfigurationError(
            f"{path}: {reason}",
            parameter="FILE",
            value=str(path),
            hint=hint if is_there else "`perpacket capture --output web7.case` writes such a file",
        )


def is_archive(path: Path) -> bool:
    """Whether a file is an archive of tar, plain or compressed."""
    try:
        return path.is_file() and tarfile.is_tarfile(path)
    except OSError:
        return False


def _files(opened: Mapping[Path, Path]) -> list[tuple[Path, Path, str]]:
    """What the user named, each file in it, and the file's path in it."""
    found: list[tuple[Path, Path, str]] = []
    for source, path in opened.items():
        if path.is_dir():
            inner = sorted(file for file in path.rglob("*") if file.is_file())
            found += [(source, file, str(file.relative_to(path.parent))) for file in inner]
        else:
            found.append((source, path, str(path)))
    return found


def _is_profile(content: bytes) -> bool:
    if not content.lstrip().startswith(b"{"):
        return False
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and isinstance(document.get("window_s"), int | float)


STACKS = re.compile(
    r"^\S.*;.* [\d.]+$|^@\w*\[|^\s+-\s+.*\(\d+\)$|^\s*[\d.]+%.* \[[.k]\] \S"
    r"|^\s+[0-9a-f]+ \S.* \(\S+\)$"
    r"|^\S.* +\d+(?:/\d+)? +(?:\[\d+\] +)?(?:[\d.]+: +)?(?:\d+ +)?[\w/:-]+: *$",
    re.MULTILINE,
)
"""A line of call chains, or of `perf report`; the agent reads and judges the text."""

LEAST_STACKS = 0.01
"""The least part of such lines in a text of stacks."""


def _are_stacks(text: str) -> bool:
    """Whether lines of a text are call chains, and not a few among others."""
    text = text[: 1 << 20]
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return len(STACKS.findall(text)) > LEAST_STACKS * len(lines)


def _packets(before: Texts, now: Texts) -> int:
    """The packets of the window, of all interfaces but loopback, or of that if no other has any."""
    grown = {
        name: sum(
            max(0, row[way] - before.devices.get(name, row)[way])
            for way in ("packets_sent", "packets_received")
        )
        for name, row in now.devices.items()
    }
    loopback = grown.pop("lo", 0)
    return sum(grown.values()) or loopback


def _profile(recording: Recording, packets: int) -> Profile:
    """The profile of a file; the agent reads recordings and stacks, and divides by the packets."""
    if not recording.part and _is_profile(recording.path.read_bytes()):
        chains = recording.path.with_name(CHAINS)
        return profile.read(recording.path, chains if chains.exists() else None)
    with temporary_folder("case") as folder:
        stacks, file = folder / "stacks", recording.path
        if recording.part:
            file = folder / recording.path.name
            file.write_text(recording.part, encoding="utf-8")
        options: agent.Options = {"perf": str(file), "folded": str(stacks)}
        try:
            document = live.once({**options, "packets": packets} if packets else options)
        except ConfigurationError:
            # Stacks without times have shares, and no cost that packets could divide.
            document = live.once(options)
        lines = stacks.read_text(encoding="utf-8", errors="replace").splitlines()
        return Profile(document, tuple(profile.folded(lines)))
