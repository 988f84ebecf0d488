"""The variables of a server's program, so that its memory has names.

A program that is linked with `-no-pie` is loaded at fixed addresses, so the addresses of its
variables are known. Its symbol table has their names (ELF-64 Object File Format, version 1.5).
"""

from __future__ import annotations

import struct
from pathlib import Path

MAGIC = b"\x7fELF\x02\x01"
"""A file of 64 bits in little-endian order."""
FIXED = 2
"""The type of a program with fixed addresses."""
SYMBOLS = 2
"""The type of the section with the symbol table."""
VARIABLE = 1
"""The type of a symbol that is a variable."""
HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")


def variables(program: Path) -> str:
    """A line for each variable: its address (hexadecimal), its size in bytes and its name.

    Empty if the file is no program with fixed addresses, or has no symbol table.
    """
    content = program.read_bytes()
    if not content.startswith(MAGIC) or len(content) < HEADER.size:
        return ""
    kind, *_, offset, _, _, _, _, size, count, _ = HEADER.unpack_from(content)
    if kind != FIXED or size != SECTION.size or len(content) < offset + count * size:
        return ""
    sections = [SECTION.unpack_from(content, offset + number * size) for number in range(count)]
    lines = []
    for _, section_kind, _, _, begin, length, link, *_ in sections:
        if section_kind != SYMBOLS or link >= count:
            continue
        names = content[sections[link][4] :][: sections[link][5]]
        for (
            name,
            info,
            _,
            _,
            address,
            bytes_,
        ) in SYMBOL.iter_unpack(content[begin:][: length // SYMBOL.size * SYMBOL.size]):
            if info & 15 == VARIABLE and bytes_:
                text = names[name : names.index(b"\0", name)].decode("utf-8", "replace")
                lines.append(f"{address:x} {bytes_} {text}")
    return "".join(f"{line}\n" for line in lines)
