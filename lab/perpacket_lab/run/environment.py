"""The machine and the versions of a run, for `environment.json`.

The file has no host name and no path, so that a published report does not identify its owner.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import perpacket

SCHEMA = 1
"""Version of the file's layout."""

GIT_S = 60.0
"""Time-out of git, which reads every file. A slow disk may need this long."""

PACKAGES = ("numpy", "polars", "altair", "typer", "pydantic")
"""Packages whose version may change a result or its report."""


def describe() -> dict[str, object]:
    """The machine now. A fact that cannot be read is None, and `lacks` has the reason."""
    processor = Path("/sys/devices/system/cpu/cpu0")
    facts: dict[str, object] = {
        "cpu": cpu_model(),
        "caches_kib": caches_kib(processor / "cache"),
        "governor": first_line(processor / "cpufreq/scaling_governor"),
        "git": git_state(),
    }
    reasons = {
        "cpu": "the processor's name is not in /proc/cpuinfo",
        "caches_kib": "cache sizes are not in sysfs",
        "governor": "there is no frequency governor in sysfs: wall-clock rates may drift",
        "git": "not a git checkout: only the version identifies the code",
    }
    return {
        "schema": SCHEMA,
        "perpacket": perpacket.__version__,
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "byte_order": sys.byteorder,
        "cores": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)),
        **facts,
        "lacks": [reason for name, reason in reasons.items() if facts[name] is None],
    }


def package_version(name: str) -> str | None:
    """The installed version of a package, None when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def first_line(file: Path) -> str | None:
    """The first line of a small file, None when it cannot be read or is empty."""
    try:
        return file.read_text(encoding="utf-8").partition("\n")[0].strip() or None
    except OSError:
        return None


def cpu_model() -> str | None:
    """The processor's name in /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else None


def caches_kib(folder: Path) -> dict[str, int] | None:
    """Size of each cache of the first core, as `{"L1 Data": 32, "L2 Unified": 512}`."""
    sizes: dict[str, int] = {}
    for index in sorted(folder.glob("index*")):
        level, kind, size = (first_line(index / name) for name in ("level", "type", "size"))
        if level and kind and size and size.endswith("K"):
            sizes[f"L{level} {kind}"] = int(size[:-1])
    return sizes or None


def git_state() -> str | None:
    """`git describe` of the checkout with this package; None outside a checkout."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_S)
    except subprocess.TimeoutExpired:
        return "not known: timed out"
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
