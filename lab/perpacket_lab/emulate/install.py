"""Installs QEMU on Debian: from the release if its QEMU is new enough, else from its backports.

Backports are another suite of the same mirror, whose address is in the machine's package sources.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perpacket.errors import MachineLacks, RunFailed
from perpacket_lab.emulate import qemu

PACKAGES = ("qemu-system-x86", "busybox-static", "iproute2", "nginx-light")
QEMU = PACKAGES[0]
SOURCES = Path("/etc/apt")
ADDED = "perpacket-backports.sources"
RELEASE = Path("/etc/os-release")

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Mirror:
    """A source of packages: a mirror with some suites."""

    uris: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str


def install(report: Report) -> None:
    """Install QEMU and the programs of a guest; calls `report` with a sentence on each step.

    Raises `MachineLacks` if this is not Debian, or the user is not root.
    """
    if shutil.which("apt-get") is None:
        raise MachineLacks(
            "apt-get: not found", "install QEMU 10 or newer with your system's package manager"
        )
    if os.geteuid() != 0:
        raise MachineLacks(
            "only root can install packages",
            "run `perpacket emulate prepare --install` as root, once; emulating needs no root",
        )
    run(["apt-get", "update", "-q"])
    suite: tuple[str, ...] = ()
    if not is_new(candidate()):
        name, source = backports()
        file = SOURCES / "sources.list.d" / ADDED
        report(f"adding {name} of {source.uris}, the mirror of this machine, in {file}")
        file.write_text(description(name, source))
        run(["apt-get", "update", "-q"])
        suite = ("-t", name)
    missing = [package for package in PACKAGES if package == QEMU or not is_installed(package)]
    report(f"installing {', '.join(missing)}")
    plain = [package for package in missing if package != QEMU]
    if plain:
        run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *plain])
    run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *suite, QEMU])
    report(f"QEMU {qemu.find().version}")


def candidate() -> str:
    """The version of QEMU that this machine's sources offer; empty for none."""
    found = re.search(r"Candidate: (\S+)", run(["apt-cache", "policy", QEMU]))
    return found[1] if found and found[1] != "(none)" else ""


def is_new(version: str) -> bool:
    """Whether a package's version is new enough."""
    numbers = re.match(r"(?:\d+:)?(\d+)\.(\d+)", version)
    return bool(numbers) and (int(numbers[1]), int(numbers[2])) >= qemu.OLDEST  # type: ignore[index]


def is_installed(package: str) -> bool:
    """Whether a package is installed."""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.endswith(" installed")


def backports() -> tuple[str, Mirror]:
    """The name of this release's backports, and the source to get them from."""
    release = dict(line.split("=", 1) for line in RELEASE.read_text().splitlines() if "=" in line)
    codename = release.get("VERSION_CODENAME", "").strip('"')
    if release.get("ID", "").strip('"') != "debian" or not codename:
        raise MachineLacks(
            f"{QEMU}: this system has no version {qemu.OLDEST[0]} among its packages",
            "install QEMU 10 or newer from elsewhere",
        )
    return f"{codename}-backports", debian_source(codename)


def debian_source(suite: str = "") -> Mirror:
    """The first source of this machine with a suite, or of Debian's main component.

    Raises `MachineLacks` if there is none.
    """
    for source in sources(SOURCES):
        if suite in source.suites if suite else "main" in source.components:
            return source
    raise MachineLacks(
        f"{SOURCES}: no source has the suite {suite or 'of a release'}",
        "name the mirror of Debian there",
    )


def sources(folder: Path) -> list[Mirror]:
    """The sources of packages in a machine's files, which have one of two formats."""
    found = []
    for file in sorted(folder.glob("sources.list.d/*.sources")):
        for paragraph in re.split(r"\n\s*\n", file.read_text()):
            lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
            fields = {
                name.strip().lower(): value.strip()
                for name, colon, value in (line.partition(":") for line in lines)
                if colon
            }
            if "deb" in fields.get("types", "").split():
                found.append(of_fields(fields))
    for file in (folder / "sources.list", *sorted(folder.glob("sources.list.d/*.list"))):
        for line in file.read_text().splitlines() if file.exists() else ():
            parts = re.match(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*(.*)", line.strip())
            if parts:
                signed = re.search(r"signed-by=(\S+)", parts[1] or "")
                components = tuple(parts[4].split())
                key = signed[1] if signed else ""
                found.append(Mirror(parts[2], (parts[3],), components, key))
    return found


def of_fields(fields: Mapping[str, str]) -> Mirror:
    """The source that the fields of a paragraph describe."""
    return Mirror(
        fields.get("uris", "").split()[0] if fields.get("uris") else "",
        tuple(fields.get("suites", "").split()),
        tuple(fields.get("components", "").split()),
        fields.get("signed-by", ""),
    )


def description(suite: str, source: Mirror) -> str:
    """The content of the file that adds a suite of a source."""
    lines = [
        "# Added by `perpacket emulate prepare --install` for QEMU. Packages of this suite are",
        "# installed only on request. Remove this file to undo it.",
        "Types: deb",
        f"URIs: {source.uris}",
        f"Suites: {suite}",
        "Components: main",
    ]
    if source.signed_by:
        lines.append(f"Signed-By: {source.signed_by}")
    return "\n".join(lines) + "\n"


def run(command: Sequence[str]) -> str:
    """The output of a command; raises `RunFailed` with the last error that it printed."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise RunFailed(f"{' '.join(command)}: {last}")
    return done.stdout
