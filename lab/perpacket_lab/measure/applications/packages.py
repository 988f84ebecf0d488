"""The packages of an application: finds missing ones, reports their size, and installs them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from perpacket.errors import MachineLacks, RunFailed
from perpacket_lab.measure.applications.application_file import DataArchive

POLICY = Path("/usr/sbin/policy-rc.d")
"""A program that decides whether a package may start a service; 101 means no (invoke-rc.d(8))."""

PLAIN = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}

SIZE = re.compile(r"^(?:Need to get|After this operation,) .*$", re.MULTILINE)


def missing(names: Sequence[str]) -> list[str]:
    """The packages of Debian that are not installed: all, if dpkg is missing here."""
    installed = versions(names)
    return [name for name in names if not installed.get(name)]


def versions(names: Sequence[str]) -> dict[str, str]:
    """The version of each installed package."""
    if shutil.which("dpkg-query") is None or not names:
        return {}
    shown = r"${db:Status-Status} ${Package} ${Version}\n"
    done = _run(["dpkg-query", "--show", f"--showformat={shown}", *names])
    rows = (line.split() for line in done.stdout.splitlines())
    return {row[1]: row[2] for row in rows if row[0] == "installed" and len(row) == 3}


def require_installer(names: Sequence[str]) -> None:
    """Raise `MachineLacks` unless this user can install packages of Debian here."""
    if shutil.which("apt-get") is None:
        raise MachineLacks(
            f"packages are missing, and this machine has no apt-get: {' '.join(names)}",
            "applications need Debian or a distribution made from it",
        )
    if os.geteuid() != 0:
        raise MachineLacks(
            f"packages are missing: {' '.join(names)}",
            f"run `sudo apt-get install --no-install-recommends {' '.join(names)}`",
        )


def size(names: Sequence[str]) -> str:
    """The lines of apt-get on the amounts that it would download and store."""
    done = _apt("--assume-no", names)
    text = " ".join(SIZE.findall(done.stdout))
    if not text and "Unable to locate package" in done.stderr:
        raise MachineLacks(done.stderr.strip().splitlines()[0], "run `apt-get update`")
    return text


def install(names: Sequence[str]) -> None:
    """Install packages of Debian without starting their services."""
    with services_that_do_not_start():
        done = _apt("--assume-yes", names)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise RunFailed(
            f"apt-get install: {lines[0] if lines else f'exit status {done.returncode}'}",
            f"run `apt-get update`, then `apt-get install {' '.join(names)}`",
        )


@contextmanager
def services_that_do_not_start() -> Iterator[None]:
    """Inside the context, packages start no services. An existing policy is not changed."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def fetch(archives: Sequence[DataArchive], folder: Path) -> None:
    """Download files from the Maven repository that this machine's Maven uses, into `folder`.

    Raises `MachineLacks` without Maven, and `RunFailed` for a download with another SHA-256.
    """
    if not archives:
        return
    if shutil.which("mvn") is None:
        raise MachineLacks("mvn: no such program", "run `apt-get install maven`")
    for archive in archives:
        with tempfile.TemporaryDirectory(prefix="perpacket-maven-") as place:
            # Maven would read a pom.xml in the current folder; an empty folder has none.
            done = _run(
                [
                    *("mvn", "--batch-mode", "--quiet", "dependency:copy"),
                    f"-Dartifact={archive.artifact}",
                    f"-DoutputDirectory={folder}",
                    "-Dmdep.useBaseVersion=true",
                ],
                place,
            )
        file = folder / archive.name
        if done.returncode != 0 or not file.is_file():
            lines = [line for line in done.stdout.splitlines() if "ERROR" in line]
            raise RunFailed(f"mvn: {archive.artifact}: {lines[0] if lines else 'no file'}")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest != archive.sha256:
            with suppress(OSError):
                file.unlink()
            raise RunFailed(
                f"{archive.artifact}: SHA-256 is {digest}, expected {archive.sha256}",
                "the repository has another file under this version",
            )


def _apt(answer: str, names: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return _run(["apt-get", "install", answer, "--no-install-recommends", *names])


def _run(command: Sequence[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **PLAIN},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
