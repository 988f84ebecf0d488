"""The guest's initial file system: a cpio archive in the format `newc`, which the kernel unpacks.

The layout is that of Documentation/driver-api/early-userspace/buffer-format.rst. Nothing in it
depends on the time or on the owner of a file, so equal files make equal archives.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

ALIGNMENT = 4
TRAILER = "TRAILER!!!"
MOST_LINKS = 40
"""Links that Linux follows in a path (MAXSYMLINKS in include/linux/namei.h)."""


@dataclass(slots=True)
class Archive:
    """Folders, files and links by their path, without a leading slash."""

    _entries: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def add(self, path: str, content: bytes, *, executable: bool = False) -> None:
        """Add a file and its parent folders; a second file of that path replaces the first."""
        self._enter(path, stat.S_IFREG | (0o755 if executable else 0o644), content)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link and its parent folders."""
        self._enter(path, stat.S_IFLNK | 0o777, target.encode())

    def folder(self, path: str) -> None:
        """Add a folder and its parent folders."""
        self._enter(path, stat.S_IFDIR | 0o755, b"")

    def has(self, path: str) -> bool:
        """Whether the archive has the path."""
        return path.lstrip("/") in self._entries

    @property
    def size_bytes(self) -> int:
        """The length of all files."""
        return sum(len(content) for _, content in self._entries.values())

    def content(self, path: str) -> bytes:
        """The content of a file, or the target of a link."""
        return self._entries[path.lstrip("/")][1]

    def copy(self, path: str, to: str) -> None:
        """Add a second name of a file; raises `KeyError` if there is no such file."""
        self._enter(to, *self._entries[path.lstrip("/")])

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its content, if it is there."""
        self._entries.pop(path, None)
        self.remove_below(path)

    def remove_below(self, folder: str) -> None:
        """Remove the content of a folder."""
        for path in [path for path in self._entries if path.startswith(f"{folder}/")]:
            del self._entries[path]

    def resolve(self, root: str, path: str) -> str:
        """The file to which a path leads if `root` is the root folder; empty if it leads to none.

        Links are followed.
        """
        rest = [part for part in path.split("/") if part not in ("", ".")][::-1]
        place = PurePosixPath(root)
        links = 0
        while rest:
            part = rest.pop()
            place = (
                (place.parent if str(place) != root else place) if part == ".." else place / part
            )
            mode, content = self._entries.get(str(place), (0, b""))
            if not mode:
                return ""
            if stat.S_ISLNK(mode):
                if (links := links + 1) > MOST_LINKS:
                    return ""
                target = content.decode()
                rest += [part for part in target.split("/") if part not in ("", ".")][::-1]
                place = PurePosixPath(root) if target.startswith("/") else place.parent
        return str(place)

    def _enter(self, path: str, mode: int, content: bytes) -> None:
        name = path.lstrip("/")
        for above in list(PurePosixPath(name).parents)[-2::-1]:
            self._entries.setdefault(str(above), (stat.S_IFDIR | 0o755, b""))
        self._entries[name] = (mode, content)

    def pack(self) -> bytes:
        """The bytes of the archive."""
        parts = [
            _entry(number, name, mode, content)
            for number, (name, (mode, content)) in enumerate(self._entries.items(), 1)
        ]
        return b"".join([*parts, _entry(0, TRAILER, 0, b"")])


def members(packed: bytes) -> Iterator[tuple[str, memoryview]]:
    """The path and the content of each file of an archive that `pack` made."""
    view, at = memoryview(packed), 0
    while at < len(packed):
        fields = [int(packed[place : place + 8], 16) for place in range(at + 6, at + 110, 8)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = packed[at + 110 : at + 110 + name_size - 1].decode()
        content_at = at + _aligned(110 + name_size)
        if stat.S_ISREG(mode):
            yield name, view[content_at : content_at + size]
        at = content_at + _aligned(size)


def _aligned(size: int) -> int:
    return size + -size % ALIGNMENT


def _entry(number: int, name: str, mode: int, content: bytes) -> bytes:
    """One entry: a header of fourteen numbers in hexadecimal, the name, the content."""
    encoded = name.encode() + b"\0"
    links = 1
    numbers = (number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + b"".join(b"%08x" % value for value in numbers) + encoded
    return _padded(header) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % ALIGNMENT)
