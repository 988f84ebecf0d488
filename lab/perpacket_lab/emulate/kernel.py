"""The emulated kernel, from Debian's package, which is unpacked and not installed, or from a file.

This module decompresses an image (bzImage) if it can, because the emulator boots a plain vmlinux in
half the time. The layout of a bzImage is that of Documentation/arch/x86/boot.rst.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket_lab.emulate import folders
from perpacket_lab.emulate.debian import Packages
from perpacket_lab.emulate.hardware import ONE

PACKAGE = "linux-image-amd64"
"""Debian's package that depends on the current kernel with drivers for real cards."""

NEEDED = ONE.needed

SUFFIXES = ("", ".xz", ".gz", ".zst")
"""What follows `.ko` in the names of modules: nothing, or the suffix of a compression."""

MAGIC = b"HdrS"
MAGIC_AT = 0x202
SETUP_SECTORS_AT = 0x1F1
VERSION_AT = 0x20E
PAYLOAD_AT = 0x248
SECTOR_BYTES = 512
ELF = b"\x7fELF"
PVH_NOTE = b"\x04\x00\x00\x00\x08\x00\x00\x00\x12\x00\x00\x00Xen\x00"
"""An ELF note (type 18 of Xen, eight bytes) with the address at which an emulator enters a
vmlinux."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel to boot, with the modules that the guest loads, in this order."""

    version: str
    image: bytes
    modules: tuple[tuple[str, bytes], ...]
    folder: Path | None = None
    """The folder with all modules; None for the kernel of a package, whose modules are fetched."""
    config: str = ""
    """The configuration with which it was built; empty if it is not known."""

    @property
    def is_plain(self) -> bool:
        """Whether the image is a plain vmlinux."""
        return self.image.startswith(ELF)


def from_file(file: Path, modules: Path | None = None, needed: Sequence[str] = NEEDED) -> Kernel:
    """The kernel in a file, with modules from a folder, by default the kernel's in `/lib/modules`.

    Raises `ConfigurationError` when the file is no kernel, when `modules` is no folder, or when the
    folder has modules but not the card's driver.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"--kernel {file}: {(error.strerror or str(error)).lower()}", parameter="--kernel"
        ) from None
    version = version_of(content)
    if not version:
        raise ConfigurationError(
            f"--kernel {file}: expected a Linux kernel for x86-64, a bzImage or a vmlinux",
            parameter="--kernel",
            hint="kernels are in /boot, as vmlinuz-VERSION",
        )
    folder = modules or Path("/lib/modules") / version
    if modules is not None and not modules.is_dir():
        raise ConfigurationError(f"--modules {modules}: no such folder", parameter="--modules")
    image = plain(content)
    places = (file.with_name(f"config-{version}"), folder / "config", folder / "build" / ".config")
    config = next((place.read_text() for place in places if place.is_file()), embedded(image))
    return Kernel(version, image, found_modules(folder, needed), folder, config)


def from_package(*, newest: bool = False, needed: Sequence[str] = NEEDED) -> Kernel:
    """The kernel of Debian's package, downloaded into the cache folder if that has none.

    The kernels with each card's driver have a folder of their own. With `newest`, an older kernel
    in the cache is not used. Raises `MachineLacks` if there is no such package.
    """
    if not newest and (there := cached(needed)):
        return there
    return from_packages(Packages(), PACKAGE, fetched(needed), needed)


def from_packages(
    packages: Packages, name: str, parent: Path, needed: Sequence[str], *, is_plain: bool = True
) -> Kernel:
    """The kernel of a package, or of the one on which it depends, stored in a folder of `parent`.

    `needed` are the modules to load. Raises `MachineLacks` if there is no such package.
    """
    version = version_behind(packages, name)
    folder = parent / f"linux-image-{version}"
    if not folder.is_dir():
        with folders.made(folder) as new:
            fetch(packages, version, new, needed, is_plain=is_plain)
    return stored(folder, needed)


def cached(needed: Sequence[str] = NEEDED) -> Kernel | None:
    """The kernel that was fetched last, if there is one in the cache folder."""
    found = fetched(needed).glob("linux-image-*")
    there = [path for path in found if folders.PART not in path.name]
    return stored(max(there, key=lambda path: path.stat().st_mtime), needed) if there else None


def fetched(needed: Sequence[str], folder: str = "kernels") -> Path:
    """The folder of the fetched kernels that have the driver of these cards."""
    return folders.cache() / (folder if needed == NEEDED else f"{folder}-{needed[0]}")


def stored(folder: Path, needed: Sequence[str]) -> Kernel:
    """The kernel of a folder that `fetch` filled."""
    modules = found_modules(folder / "modules", needed)
    image = (folder / "image").read_bytes()
    config = (folder / CONFIG).read_text() if (folder / CONFIG).is_file() else ""
    return Kernel((folder / "version").read_text(), image, modules, config=config)


def version_behind(packages: Packages, name: str) -> str:
    """The version of the current kernel behind a package; raises `MachineLacks`."""
    versions = [
        found[1]
        for one in (*packages.depends(name), name)
        if (found := re.fullmatch(r"linux-image-(\d\S*)", one))
    ]
    if not versions:
        raise MachineLacks(
            f"{name}: the package lists have no such package",
            f"bring the lists up to date with `apt-get update`, or {OTHER_KERNEL}",
        )
    return versions[0]


OTHER_KERNEL = "name a kernel with --kernel FILE, such as /boot/vmlinuz-VERSION"

IMAGES = ("boot/vmlinu[xz]-*", "usr/lib/modules/*/vmlinuz", "lib/modules/*/vmlinuz")
"""The places of the image in packages. Since Linux 7, it is beside the modules."""

CONFIG = "config"
CONFIGS = ("boot/config-*", "usr/lib/modules/*/config", "lib/modules/*/config")
"""The places of the kernel's configuration in packages."""

EMBEDDED = b"IKCFG_ST"
"""The mark before the compressed configuration in an image (kernel/configs.c of Linux)."""


def fetch(
    packages: Packages, version: str, folder: Path, needed: Sequence[str], *, is_plain: bool = True
) -> None:
    """Store a kernel and the needed modules in `folder`; nothing is installed.

    Since Linux 7, an image package is empty and depends on one with the kernel, one with its
    configuration and one with the modules.
    """
    unpacked = folder / "unpacked"
    behind = packages.depends(f"linux-image-{version}")
    parts = [f"linux-binary-{version}"]
    if parts[0] not in behind:
        parts = [f"linux-image-{version}"]
    else:
        parts += [name for name in (f"linux-base-{version}",) if name in behind]
        parts += [f"linux-modules-{version}"] if needed else []
    for part in parts:
        packages.unpack(part, unpacked)
    image = next((path for place in IMAGES for path in unpacked.glob(place)), None)
    if image is None:
        raise RunFailed(f"{parts[0]}: the package has no kernel", OTHER_KERNEL)
    content = image.read_bytes()
    (folder / "image").write_bytes(plain(content) if is_plain else content)
    (folder / "version").write_text(version)
    config = next((path for place in CONFIGS for path in unpacked.glob(place)), None)
    (folder / CONFIG).write_text(config.read_text() if config else embedded(plain(content)))
    (folder / "modules").mkdir()
    for module, code in found_modules(unpacked, needed):
        (folder / "modules" / f"{module}.ko").write_bytes(code)
    shutil.rmtree(unpacked)


def found_modules(folder: Path, needed: Sequence[str] = NEEDED) -> tuple[tuple[str, bytes], ...]:
    """The needed modules of a folder, each after its dependencies; without built-in modules.

    Raises `ConfigurationError` for a kernel with modules but without the first one, the card's
    driver.
    """
    if not needed:
        return ()
    files = {
        path.name.partition(".ko")[0].replace("-", "_"): path
        for suffix in SUFFIXES
        for path in folder.rglob(f"*.ko{suffix}")
    }
    built_in = " ".join(path.read_text() for path in folder.rglob("modules.builtin"))
    if files and needed[0] not in files and f"/{needed[0]}.ko" not in built_in:
        raise ConfigurationError(
            f"{folder}: this kernel has no driver for {needed[0]} network cards",
            parameter="--kernel",
            hint="kernels made for clouds have none: use the distribution's general kernel",
        )
    order: list[str] = []

    def add(name: str) -> None:
        if name in files and name not in order:
            for other in dependencies(code[name]):
                code.setdefault(other, expanded(files[other]) if other in files else b"")
                add(other)
            order.append(name)

    code = {name: expanded(files[name]) for name in needed if name in files}
    for name in list(code):
        add(name)
    return tuple((name, code[name]) for name in order)


def more_modules(
    kernel: Kernel, names: Sequence[str], among: Sequence[str]
) -> tuple[tuple[str, bytes], ...]:
    """Further modules of a kernel, each after its dependencies; without built-in modules.

    Those of a package's kernel are fetched together with the modules `among`, once.
    """
    if not names:
        return ()
    needed = (NEEDED[0], *names)
    folder = kernel.folder
    if folder is None:
        digest = hashlib.sha256(" ".join(sorted(among)).encode()).hexdigest()[:8]
        stored_in = folders.cache() / "modules" / f"linux-image-{kernel.version}-{digest}"
        if not stored_in.is_dir():
            with folders.made(stored_in) as new:
                fetch(Packages(), kernel.version, new, (NEEDED[0], *among), is_plain=False)
                (new / "image").unlink()
        folder = stored_in / "modules"
    loaded = {name for name, _ in kernel.modules}
    return tuple(one for one in found_modules(folder, needed) if one[0] not in loaded)


def dependencies(module: bytes) -> list[str]:
    """The modules that a module needs, from its `depends` entry."""
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return (
        [name for name in found[1].decode().replace("-", "_").split(",") if name] if found else []
    )


def expanded(file: Path) -> bytes:
    """The content of a module that may be compressed."""
    content = file.read_bytes()
    return content if content.startswith(ELF) else decompressed(content) or content


def version_of(content: bytes) -> str:
    """The version of a kernel image; empty for other content."""
    if content[MAGIC_AT : MAGIC_AT + 4] == MAGIC:
        at = struct.unpack_from("<H", content, VERSION_AT)[0] + SECTOR_BYTES
        return content[at : at + 200].split(b"\0")[0].split(b" ")[0].decode(errors="replace")
    found = re.search(rb"Linux version ([0-9]\S+) ", content) if content.startswith(ELF) else None
    return found[1].decode(errors="replace") if found else ""


def plain(content: bytes) -> bytes:
    """The vmlinux in a bzImage; the image itself if no vmlinux with a PVH entry can be extracted.

    The emulator boots a vmlinux only by its PVH entry.
    """
    if content[MAGIC_AT : MAGIC_AT + 4] != MAGIC:
        return content
    start = (content[SETUP_SECTORS_AT] or 4) + 1
    offset, length = struct.unpack_from("<II", content, PAYLOAD_AT)
    start = start * SECTOR_BYTES + offset
    found = decompressed(content[start : start + length])
    return found if found.startswith(ELF) and PVH_NOTE in found else content


def embedded(image: bytes) -> str:
    """The configuration in an image that was built with `CONFIG_IKCONFIG`; empty for others."""
    _, mark, after = image.partition(EMBEDDED)
    return decompressed(after).decode(errors="replace") if mark else ""


def decompressed(content: bytes) -> bytes:
    """The decompressed content of gzip, xz or zstd data at the start; empty for other data."""
    try:
        if content.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=31).decompress(content)
        if content.startswith(b"\xfd7zXZ"):
            return lzma.LZMADecompressor().decompress(content)
        if content.startswith(b"\x28\xb5\x2f\xfd") and (program := shutil.which("zstd")):
            # zstd reports an error for the four bytes after the end of the data, but only after it
            # has written the data.
            return subprocess.run(
                [program, "-dcq"], input=content, capture_output=True, check=False
            ).stdout
    except (zlib.error, lzma.LZMAError, gzip.BadGzipFile):
        pass
    return b""
