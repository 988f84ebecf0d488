"""Debian's packages, downloaded from this machine's mirror and unpacked, but never installed.

A suite and an architecture other than this machine's have package lists of their own in the cache
folder. So nothing on the machine changes.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perpacket.errors import MachineLacks, RunFailed
from perpacket_lab.emulate import folders

FETCH_S = 600.0
PROGRAMS = ("apt-cache", "apt-get", "dpkg-deb")
SOURCES = Path("/etc/apt")
COMPONENT = "main"


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages that apt can download, with the options of apt that select their lists."""

    options: tuple[str, ...] = ()
    """None for the lists of this machine."""

    def depends(self, package: str) -> list[str]:
        """The packages on which a package depends; none if the lists do not have it."""
        done = apt("apt-cache", *self.options, "depends", package)
        return re.findall(r"^ *\|?Depends: ([^\s:<]+)", done.stdout, re.MULTILINE)

    def names(self, prefix: str) -> list[str]:
        """The packages whose names begin with `prefix`."""
        return apt("apt-cache", *self.options, "pkgnames", prefix).stdout.split()

    def unpack(self, package: str, folder: Path) -> None:
        """Download a package and unpack it in `folder`.

        Raises `MachineLacks` if it cannot be downloaded, and `RunFailed` if it cannot be unpacked.
        """
        download = folder.with_name(f"{folder.name}-download")
        download.mkdir(parents=True)
        done = apt("apt-get", *self.options, "download", "-q", package, folder=download)
        archives = list(download.glob("*.deb"))
        if done.returncode or not archives:
            raise MachineLacks(
                f"{package}: the package was not downloaded: {reason(done)}",
                "if there is space, bring the lists up to date with `apt-get update`",
            )
        unpack(archives, folder)
        shutil.rmtree(download)

    def unpack_all(self, packages: Sequence[str], folder: Path) -> None:
        """Unpack packages with all that they depend on; raises as `unpack`."""
        download = folder.with_name(f"{folder.name}-download")
        (download / "partial").mkdir(parents=True)
        archives = ("-o", f"Dir::Cache::archives={download}", "-o", "APT::Install-Recommends=false")
        words = ("install", "-y", "-q", "--download-only", *packages)
        done = apt("apt-get", *self.options, *archives, *words)
        if done.returncode:
            names = ", ".join(packages)
            raise MachineLacks(f"{names}: not downloaded to {folder.parent}: {reason(done)}")
        unpack(sorted(download.glob("*.deb")), folder)
        shutil.rmtree(download)


def suite(name: str, architecture: str, *, newest: bool = False) -> Packages:
    """The packages of a suite of this machine's mirror, such as `sid`; raises `MachineLacks`.

    With `newest`, package lists in the cache folder are brought up to date.
    """
    from perpacket_lab.emulate.install import debian_source

    source = debian_source()
    folder = folders.cache() / "lists" / f"{name}-{architecture}"
    state = folder / "state"
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    signed = f" [signed-by={source.signed_by}]" if source.signed_by else ""
    (state / "sources.list").write_text(f"deb{signed} {source.uris} {name} {COMPONENT}\n")
    (state / "status").touch()
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
        "Dir::Cache": folder,
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State": state,
        "Dir::State::status": state / "status",
    }
    words = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    with locked(folder):
        if newest or not list((state / "lists").glob("*Release")):
            update(name, words, state)
    return Packages(tuple(words))


def update(name: str, words: Sequence[str], state: Path) -> None:
    """Download the lists of a suite; raises `MachineLacks`."""
    done = apt("apt-get", *words, "update", "-q")
    if done.returncode or not list((state / "lists").glob("*Packages*")):
        raise MachineLacks(f"the suite {name} has no package lists here: {reason(done)}")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from changing a folder."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def unpack(archives: Sequence[Path], folder: Path) -> None:
    """Unpack package files in a folder; raises `RunFailed`."""
    for archive in archives:
        done = subprocess.run(
            ["dpkg-deb", "-x", archive, folder], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RunFailed(
                f"{archive.stem}: the package was not unpacked in {folder.parent}: {reason(done)}",
                "free some space there: a kernel needs 600 MB until it is unpacked",
            )


def apt(program: str, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of apt; raises `MachineLacks` if there is none."""
    for name in PROGRAMS:
        if shutil.which(name) is None:
            raise MachineLacks(f"{name}: not found, so there are no packages of Debian")
    return subprocess.run(
        [program, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=FETCH_S
    )


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """The last line that a program wrote to standard error."""
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1]
