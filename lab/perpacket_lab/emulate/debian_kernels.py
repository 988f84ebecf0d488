"""Kernels of Debian by their versions, as `debian:6.12`, from the suites of `debian_suites.toml`.

Their packages are unpacked into the cache folder, and not installed. Kernels for clouds are left
out, because they have no driver for the emulated cards.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from perpacket.errors import ConfigurationError, MachineLacks
from perpacket_lab.emulate import debian, folders, kernel
from perpacket_lab.emulate.kernel import Kernel

SCHEME = "debian:"
FOLDER = "debian"
ARCHITECTURE = "amd64"
PREFIX = "linux-image-"
NAME = re.compile(r"(\d+\.\d+(?:\.\d+)*)(\+\w+)?(-rt)?")
"""A release, the build if it matters, and whether the kernel is the real-time one."""
VERSION = re.compile(rf"(\d+(?:\.\d+)+)(\+\w+)?(?:-(?!rt)[\w.]+)??(-rt)?-{ARCHITECTURE}")
"""A version, as packages have it: 5.10.0-35-amd64, 6.12.48+deb13-rt-amd64."""
LISTED = "`perpacket emulate kernels` lists those that can be had"


@dataclass(frozen=True, slots=True)
class DebianKernel:
    """A kernel that a suite has."""

    version: str
    suite: str

    @property
    def is_stored(self) -> bool:
        """Whether it is in the cache folder."""
        return (stored_folder() / f"{PREFIX}{self.version}").is_dir()


def name_in(kernel_option: Path) -> str:
    """The name in `debian:NAME`; empty if the option names a file."""
    text = str(kernel_option)
    return text.removeprefix(SCHEME) if text.startswith(SCHEME) else ""


def get(name: str, *, newest: bool = False, needed: Sequence[str] = kernel.NEEDED) -> Kernel:
    """The newest kernel of that name; with `newest`, one in the cache folder is not enough.

    `needed` are the modules to load. Raises `ConfigurationError` for a name that is no version, and
    `MachineLacks` if no suite has such a kernel.
    """
    check(name)
    stored = [
        folder.name.removeprefix(PREFIX)
        for folder in stored_folder(needed).glob(f"{PREFIX}*")
        if folders.PART not in folder.name
    ]
    matching = [version for version in stored if matches(name, version)]
    if matching and not newest:
        folder = stored_folder(needed) / f"{PREFIX}{max(matching, key=numbers)}"
        return kernel.stored(folder, needed)
    offers = [each for each in offered(newest=newest) if matches(name, each.version)]
    if not offers:
        raise MachineLacks(
            f"--kernel {SCHEME}{name}: no suite of this machine's mirror has such a kernel", LISTED
        )
    best = max(offers, key=lambda each: numbers(each.version))
    packages = debian.suite(best.suite, ARCHITECTURE)
    parent = stored_folder(needed)
    return kernel.from_packages(packages, f"{PREFIX}{best.version}", parent, needed)


def stored_folder(needed: Sequence[str] = kernel.NEEDED) -> Path:
    """The folder of the kernels that were fetched by name, with these modules."""
    return kernel.fetched(needed, FOLDER)


def suites() -> list[str]:
    """The suites of `debian_suites.toml`."""
    text = (resources.files(__package__) / "debian_suites.toml").read_text(encoding="utf-8")
    return list(tomllib.loads(text)["suites"])


def offered(
    on_lack: Callable[[str], None] = lambda text: None, *, newest: bool = False
) -> list[DebianKernel]:
    """The kernels that can be had, the oldest first, each from the first suite that has it.

    With `newest`, the package lists are brought up to date. Calls `on_lack` with a sentence on each
    suite that cannot be had.
    """
    found: dict[str, DebianKernel] = {}
    for suite in suites():
        try:
            packages = debian.suite(suite, ARCHITECTURE, newest=newest)
        except MachineLacks as lack:
            on_lack(str(lack))
            continue
        for package in packages.names(PREFIX):
            version = package.removeprefix(PREFIX)
            if VERSION.fullmatch(version) and "cloud" not in version:
                found.setdefault(version, DebianKernel(version, suite))
    return sorted(found.values(), key=lambda each: numbers(each.version))


def check(name: str) -> None:
    """Raise `ConfigurationError` unless a name is a version or the beginning of one."""
    if not NAME.fullmatch(name) and not VERSION.fullmatch(name):
        raise ConfigurationError(
            f"--kernel {SCHEME}{name}: expected a version, such as {SCHEME}6.12, "
            f"{SCHEME}6.12+deb12 or {SCHEME}6.12-rt",
            parameter="--kernel",
            hint=LISTED,
        )


def matches(name: str, version: str) -> bool:
    """Whether a kernel's version has that name: `6.12` is every 6.12 that is not real-time."""
    parts, own = NAME.fullmatch(name), VERSION.fullmatch(version)
    if not parts or not own:
        return name == version
    release, build, flavour = parts.groups()
    has_release = own[1] == release or own[1].startswith(f"{release}.")
    return has_release and build in (None, own[2]) and flavour == own[3]


def numbers(version: str) -> list[int]:
    """The numbers in a version, by which versions are ordered."""
    return [int(digits) for digits in re.findall(r"\d+", version.removesuffix(ARCHITECTURE))]
