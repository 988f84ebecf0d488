"""The functions of a server: blocks of user code, by address, become functions of programs.

The guest sends the mappings of its processes at the end of a window. A mapping leads to a file of
the guest's archives, whose symbols name the function. Code of run-time compilers has the names that
these write to `/tmp/perf-PID.map`. The layout of ELF files is that of `man 5 elf`.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from perpacket.errors import ConfigurationError
from perpacket_lab.emulate.archive import members
from perpacket_lab.emulate.settings import Scenario
from perpacket_lab.emulate.work import Place

ELF_64 = b"\x7fELF\x02\x01"
SECTION_TYPES = {2, 11}
"""SHT_SYMTAB and SHT_DYNSYM."""
FUNCTION_TYPES = {2, 10}
"""STT_FUNC and STT_GNU_IFUNC."""
LOAD = 1
PERF = "perf "
BLOCK = "user 0x"
"""The plugin's name of a block of user code, before its address."""
ANONYMOUS = "[anonymous]"
"""Code in no file: that of a run-time compiler which writes no names."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """The functions of a program or library, by their offset in the file."""

    starts: Sequence[int]
    names: Sequence[str]
    ends: Sequence[int]

    @classmethod
    def of(cls, content: bytes) -> Symbols:
        """The functions of an ELF file; none for another or a damaged file."""
        try:
            found = sorted(set(functions_of(content)))
        except (struct.error, IndexError, ValueError):
            found = []
        return cls(
            [start for start, _, _ in found],
            [name for _, _, name in found],
            [end for _, end, _ in found],
        )

    def name(self, offset: int) -> str:
        """The function at an offset in the file; empty for none."""
        index = bisect_right(self.starts, offset) - 1
        # A function without a size, such as one in assembly, ends where the next one begins.
        is_in = index >= 0 and (offset < self.ends[index] or self.ends[index] == self.starts[index])
        return self.names[index] if is_in else ""

    def offset(self, name: str) -> int | None:
        """The offset of a function; None without it."""
        return self.starts[self.names.index(name)] if name in self.names else None


def functions_of(content: bytes) -> Iterator[tuple[int, int, str]]:
    """The start, the end and the name of each function of an ELF file; offsets in the file."""
    if not content.startswith(ELF_64):
        return
    segments_at, sections_at = struct.unpack_from("<QQ", content, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from(
        "<HHHH", content, 54
    )
    segments = []
    for number in range(segment_count):
        at = segments_at + number * segment_size
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", content, at)
        if kind == LOAD:
            segments.append((address, size, offset))
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", content, sections_at + number * section_size)
        for number in range(section_count)
    ]
    for _, kind, _, _, at, length, link, _, _, size in sections:
        if kind not in SECTION_TYPES or not size:
            continue
        names_at, names_length = sections[link][4:6]
        names = content[names_at : names_at + names_length]
        for entry in struct.iter_unpack("<IBBHQQ", content[at : at + length // size * size]):
            name_at, information, _, section, address, bytes_ = entry
            if information & 0xF not in FUNCTION_TYPES or not section:
                continue
            name = names[name_at : names.index(b"\0", name_at)].decode(errors="replace")
            for begin, extent, offset in segments:
                if begin <= address < begin + extent:
                    start = address - begin + offset
                    yield start, start + bytes_, name


@dataclass(frozen=True, slots=True)
class Code:
    """A range of addresses with code, and its file or function."""

    start: int
    end: int
    offset: int = 0
    file: str = ""
    function: str = ""


@dataclass(slots=True)
class UserFunctions:
    """The functions of the processes of a window."""

    ranges: Sequence[Code]
    """In the order of addresses."""
    files: Mapping[str, memoryview]
    """The files of the guest by path."""
    _symbols: dict[str, Symbols] = field(default_factory=dict)

    @classmethod
    def of(cls, mappings: str, *archives: bytes) -> UserFunctions:
        """The functions of mappings that the guest sent, with the files of its archives."""
        files = {name: content for archive in archives for name, content in members(archive)}
        return cls(sorted(read(mappings), key=lambda one: one.start), files)

    def find(self, address: int) -> tuple[str, str]:
        """The function at an address, and its file; a name in brackets for an unknown function."""
        index = bisect_right(self.ranges, address, key=lambda one: one.start) - 1
        # A function of a run-time compiler is inside a larger range.
        for own in reversed(self.ranges[max(0, index - 1) : index + 1]):
            if own.start <= address < own.end:
                return self.named(own, address)
        return ANONYMOUS, ANONYMOUS

    def named(self, code: Code, address: int) -> tuple[str, str]:
        """The function at an address of a range, and its file."""
        if code.function:
            return code.function, ANONYMOUS
        if not code.file.startswith("/"):
            return code.file or ANONYMOUS, code.file or ANONYMOUS
        path = code.file.lstrip("/")
        if path not in self._symbols:
            self._symbols[path] = Symbols.of(bytes(self.files.get(path, b"")))
        file = PurePosixPath(path).name
        name = self._symbols[path].name(address - code.start + code.offset)
        return name or f"[{file}]", file


def place_of_function(name: str, scenario: Scenario, archives: Sequence[bytes]) -> Place:
    """The file of the guest with a function of the server, and the offset of the function there.

    The program of the server comes before its libraries. Raises `ConfigurationError` if none has
    the function.
    """
    files = {path: content for archive in archives for path, content in members(archive)}
    program = f"/{PurePosixPath(scenario.program).name}"
    order = sorted(files, key=lambda path: not f"/{path}".endswith(program))
    for path in order:
        if files[path][: len(ELF_64)] == ELF_64:
            offset = Symbols.of(bytes(files[path])).offset(name)
            if offset is not None:
                return Place(offset, f"/{path}")
    raise ConfigurationError(
        f"--count-function {name}: neither {scenario.program} nor a library of the guest has a "
        "symbol of this function",
        parameter="--count-function",
        hint="programs whose symbols were removed (`strip`) have those of exported functions only: "
        "build the server without `strip`, or use --count-syscall",
    )


def read(mappings: str) -> Iterator[Code]:
    """The ranges of lines of `/proc/PID/maps`, and of lines of perf's maps after `perf`."""
    for line in dict.fromkeys(mappings.splitlines()):
        if line.startswith(PERF):
            start, size, name = [*line.removeprefix(PERF).split(" ", 2), "", ""][:3]
            begin = int(start, 16)
            yield Code(begin, begin + int(size, 16), function=name or ANONYMOUS)
            continue
        addresses, _, offset, _, _, *path = line.split(None, 5)
        begin_text, _, end_text = addresses.partition("-")
        file = path[0] if path else ""
        yield Code(int(begin_text, 16), int(end_text, 16), int(offset, 16), file)


def with_functions(counts: Mapping[str, Any], functions: UserFunctions) -> dict[str, Any]:
    """The counts of a window with functions of the server in place of blocks of its code."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in counts["counts"]:
        block = row.get("function") or ""
        if not block.startswith(BLOCK):
            own = dict(row)
        else:
            name, file = functions.find(int(block.removeprefix("user "), 16))
            own = {**row, "function": name, "file": file}
        key = tuple(
            str(own.get(name)) for name in ("layer", "kind", "direction", "function", "file")
        )
        rows[key] = added(rows[key], own) if key in rows else own
    return {**counts, "counts": list(rows.values())}


def added(first: dict[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The sum of two rows of counts of the same function."""
    sums = dict(first)
    for key, value in second.items():
        if isinstance(value, list):
            sums[key] = [a + b for a, b in zip(first[key], value, strict=True)]
        elif isinstance(value, int):
            sums[key] = first[key] + value
    return sums
