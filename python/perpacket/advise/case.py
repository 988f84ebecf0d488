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
from dataclasses import dataclass, field, replace
from pathlib import Path

from perpacket.advise import growth, kernel_texts, profile, tool_texts
from perpacket.advise.counters import Counters, processors
from perpacket.advise.expression import NotReadable
from perpacket.advise.growth import Growth
from perpacket.advise.links import Link, Queue
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.observation import Observation, busy_interfaces
from perpacket.advise.profile import Profile
from perpacket.errors import ConfigurationError
from perpacket.machine.files import Copies, Files
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

RECORDING = b"PERFILE2"

QUEUE = re.compile(r"(?!virtio)(?:[a-z0-9]+-)?([a-z][a-z0-9]*)-(?:tx|rx)", re.IGNORECASE)
"""The names that drivers give to the interrupts of queues, with the interface's name."""

SOURCES = {
    "rules": "iptables-save",
    "ethtool-feature": "ethtool -k",
    "ethtool-coalesce": "ethtool -c",
    "ethtool-channels": "ethtool -l",
    "ethtool-rings": "ethtool -g",
    "qdisc": "tc -s qdisc",
    "link-mtu": "ip -d link",
}
"""The command whose output shows a kind of setting."""

IRQS = "/sys/kernel/irq"

UNNAMED = "INTERFACE"
"""The name of an interface that no file names."""


@dataclass(slots=True)
class Texts:
    """What the texts of one moment show."""

    protocols: dict[str, int] = field(default_factory=dict)
    backlogs: dict[str, kernel_texts.Backlog] = field(default_factory=dict)
    interrupts: dict[str, list[int]] = field(default_factory=dict)
    drivers: dict[str, dict[str, int]] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    senders: kernel_texts.Senders = kernel_texts.NO_SENDERS
    devices: dict[str, dict[str, int]] = field(default_factory=dict)
    features: dict[str, dict[str, str]] = field(default_factory=dict)
    parameters: list[tool_texts.Parameters] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    files: Copies = field(default_factory=Copies)
    shares: dict[str, kernel_texts.Shares] = field(default_factory=dict)
    cpus: int = 0
    rules: int = 0
    """The rules in the longest chain of the packet filter."""
    unnamed: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    """The drivers' counters whose text does not name their interface, by file."""

    def add(self, path: str, text: str) -> bool:
        """Add the facts of a text; whether it was recognized."""
        is_copy = self.files.add(path, text)
        return any([self._counters(text), self._settings(path, text), is_copy])

    def _counters(self, text: str) -> bool:
        backlogs, rows = kernel_texts.backlogs(text), kernel_texts.interrupts(text)
        counts = {**kernel_texts.protocols(text), **tool_texts.netstat(text)}
        devices, queues = kernel_texts.devices(text), tool_texts.disciplines(text)
        senders, shares = kernel_texts.senders(text), kernel_texts.processors(text)
        self.backlogs.update(backlogs)
        self.interrupts.update(rows)
        self.protocols.update(counts)
        self.devices.update(devices)
        self.queues.update(queues)
        self.shares.update(shares)
        if senders.count or senders.busy_ms:
            self.senders = senders
        columns = max((len(row) for row in rows.values()), default=0)
        cpus = max(columns, len(backlogs), len(shares), tool_texts.cpu_count(text))
        self.cpus = max(self.cpus, cpus)
        rules = kernel_texts.longest_chain(text)
        self.rules = max(self.rules, rules)
        return any((rules, backlogs, rows, counts, devices, queues, senders.count, shares, cpus))

    def _settings(self, path: str, text: str) -> bool:
        named, numbers = tool_texts.features(text), tool_texts.parameters(text)
        links, sysctls = list(tool_texts.links(text)), tool_texts.sysctls(text)
        if named is not None:
            self.features.setdefault(named[0], {}).update(named[1])
        if numbers is not None:
            self.parameters.append(numbers)
        self.links.update({link.name: link for link in links})
        self.sysctls.update(sysctls)
        is_driver = text.lstrip().startswith("NIC statistics")
        if is_driver:
            self.unnamed.append((path, kernel_texts.statistics(text)))
        return bool(named or numbers or links or sysctls or is_driver)

    @property
    def names(self) -> list[str]:
        """Every interface that a text names."""
        sources: Sequence[Mapping[str, object]] = (
            self.links,
            self.devices,
            self.features,
            self.queues,
            {one.interface: one for one in self.parameters},
            dict.fromkeys(self.files.names(INTERFACES)),
        )
        found = list(dict.fromkeys(name for source in sources for name in source))
        named = filter(None, (QUEUE.match(name) for name in self.interrupts))
        by_interrupts = dict.fromkeys(match[1] for match in named)
        return found or [*by_interrupts] or [UNNAMED]

    def name_drivers(self) -> None:
        """Assign drivers' counters to interfaces: by the file's name, or to the only interface."""
        for path, rows in self.unnamed:
            words = re.split(r"[/\s]|-S", path)
            named = [name for name in self.names if any(word.endswith(name) for word in words)]
            others = [name for name in self.names if name != "lo"]
            self.drivers[(named or others or [UNNAMED])[0]] = rows


@dataclass(frozen=True, slots=True)
class Case:
    """The files of a machine, read."""

    before: Texts | None
    now: Texts
    profile: Profile
    unknown: tuple[str, ...]
    """The files that were not recognized."""

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
            is_case=True,
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
            sending = sum(way.startswith("tx-") for way in ways) or 1
            known = found.get(name) or Link(
                name, int(mtu) if mtu.isdigit() else 1500, kind, sending, ""
            )
            found[name] = replace(
                known,
                queueing=discipline.kind if discipline else known.queueing,
                tx_queues=max([known.tx_queues, *(int(q.get("combined", 1)) for q in queues)]),
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
        assert found is not None
        shares = self.now.shares
        return replace(
            found,
            seconds=seconds,
            busy={name: row.busy for name, row in shares.items()} or found.busy,
            softirq={name: row.softirq for name, row in shares.items()} or found.softirq,
            stolen={name: row.stolen for name, row in shares.items()} or found.stolen,
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
            missing = f"no file is {patterns}"
        elif kind == "rules" and self.now.rules:
            value = str(self.now.rules)
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


def _counters(texts: Texts) -> Counters:
    uptime = texts.files.text("/proc/uptime").split()
    return Counters(
        float(uptime[0]) if uptime else 0.0,
        processors(texts.files.text("/proc/stat")),
        {},
        texts.protocols,
        texts.queues,
        backlogs=texts.backlogs,
        interrupts=texts.interrupts or _of_sysfs(texts.files),
        drivers=texts.drivers,
        devices=texts.devices,
        senders=texts.senders,
    )


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

    Raises `ConfigurationError` for a file that cannot be read.
    """
    with temporary_folder("case") as folder:
        opened = []
        for number, path in enumerate(paths):
            opened.append(folder / str(number) if is_archive(path) else path)
            if is_archive(path):
                unpack(path, opened[-1])
        return _read(opened)


def _read(paths: Sequence[Path]) -> Case:
    before, now, unknown = Texts(), Texts(), []
    has_before = False
    recordings: list[Path] = []
    for path, name in _files(paths):
        if path.name == MANIFEST:
            continue
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        if content.startswith((RECORDING, RECORDING[::-1])) or _is_profile(content):
            recordings.append(path)
            continue
        text = content.decode(errors="replace") if len(content) <= LARGEST_BYTES else ""
        is_before = BEFORE in Path(name).parts
        has_before |= is_before
        if not (before if is_before else now).add(name, text):
            recordings.append(path) if _may_be_stacks(text) else unknown.append(name)
    for texts in (before, now):
        texts.name_drivers()
    if len(recordings) > 1:
        listed = ", ".join(str(path) for path in recordings)
        raise ConfigurationError(f"{listed}: expected one profile or recording of a machine")
    packets = _packets(before, now) if has_before else 0
    measured = _profile(recordings[0], packets) if recordings else Profile({})
    return Case(before if has_before else None, now, measured, tuple(unknown))


def unpack(path: Path, folder: Path) -> None:
    """Write the files of an archive, as `perpacket capture` makes it, into a folder."""
    try:
        with tarfile.open(path) as archive:
            if sum(member.size for member in archive) > LARGEST_CASE_BYTES:
                raise ConfigurationError(f"{path}: the files of the case have over 1 GiB")
            archive.extractall(folder, filter="data")
        manifests = [json.loads(file.read_text()) for file in folder.glob(f"*/{MANIFEST}")]
    except ValueError as error:
        raise ConfigurationError(f"{path}: {MANIFEST} is not JSON: {error}") from None
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ConfigurationError(f"{path}: the archive cannot be read: {error}") from None
    for manifest in manifests:
        schema = (manifest.get("schema"), manifest.get("version"))
        if schema != SCHEMA:
            raise ConfigurationError(
                f"{path}: {MANIFEST} has schema {schema[0]}, version {schema[1]}; expected "
                f"{SCHEMA[0]}, version {SCHEMA[1]}",
                hint="read it with the perpacket that wrote it, or capture again",
            )


def is_archive(path: Path) -> bool:
    """Whether a file is an archive of tar, plain or compressed."""
    try:
        return path.is_file() and tarfile.is_tarfile(path)
    except OSError:
        return False


def _files(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """Each file, with its path in its folder."""
    found: list[tuple[Path, str]] = []
    for path in paths:
        if path.is_dir():
            inner = sorted(file for file in path.rglob("*") if file.is_file())
            found += [(file, str(file.relative_to(path.parent))) for file in inner]
        else:
            found.append((path, str(path)))
    return found


def _is_profile(content: bytes) -> bool:
    if not content.lstrip().startswith(b"{"):
        return False
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "window_s" in document


def _may_be_stacks(text: str) -> bool:
    """Whether some line could be of call chains; the agent decides."""
    return bool(
        re.search(r"^\S.*;.* [\d.]+$|^@\w*\[|^\s+- .*\(\d+\)$|\S+:\s*$", text, re.MULTILINE)
    )


def _packets(before: Texts, now: Texts) -> int:
    """The packets of the window, of all interfaces but loopback."""
    return sum(
        max(0, row[way] - before.devices.get(name, row)[way])
        for name, row in now.devices.items()
        for way in ("packets_sent", "packets_received")
        if name != "lo"
    )


def _profile(path: Path, packets: int) -> Profile:
    """The profile of a file; the agent reads recordings and stacks, and divides by the packets."""
    if _is_profile(path.read_bytes()):
        return profile.read(path, None)
    with temporary_folder("case") as folder:
        stacks = folder / "stacks"
        options: agent.Options = {"perf": str(path), "folded": str(stacks)}
        try:
            document = live.once({**options, "packets": packets} if packets else options)
        except ConfigurationError:
            # Stacks without times have shares, and no cost that packets could divide.
            document = live.once(options)
        lines = stacks.read_text(encoding="utf-8", errors="replace").splitlines()
        return Profile(document, tuple(profile.folded(lines)))
