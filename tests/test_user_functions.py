"""The functions of a server from the mappings of its processes, and the symbols of their files."""

from __future__ import annotations

import subprocess
from pathlib import Path

from a_server import HTTP, compiled
from perpacket_lab.emulate.archive import Archive, members
from perpacket_lab.emulate.user_functions import ANONYMOUS, Symbols, UserFunctions, with_functions


def test_an_archive_is_read_as_it_was_packed() -> None:
    archive = Archive()
    archive.add("a/b", b"content", executable=True)
    archive.link("link", "a/b")
    archive.add("empty", b"")
    assert [(name, bytes(own)) for name, own in members(archive.pack())] == [
        ("a/b", b"content"),
        ("empty", b""),
    ]


def test_the_functions_of_a_program_are_those_that_nm_lists(tmp_path: Path) -> None:
    program = compiled(HTTP, tmp_path, "-static")
    symbols = Symbols.of(program.read_bytes())
    listed = subprocess.run(
        ["nm", "--defined-only", str(program)], capture_output=True, text=True, check=True
    ).stdout
    functions = {line.split()[2] for line in listed.splitlines() if line.split()[1] in "TtWi"}
    assert "main" in symbols.names
    assert len(set(symbols.names) & functions) > 0.9 * len(set(symbols.names))
    at = symbols.offset("main")
    assert at is not None
    assert symbols.name(at + 1) == "main"


def test_a_file_that_is_no_program_or_is_damaged_has_no_functions(tmp_path: Path) -> None:
    content = compiled(HTTP, tmp_path).read_bytes()
    assert not Symbols.of(b"").names
    assert not Symbols.of(b"#!/bin/sh\n").names
    for length in (10, 70, 1000, len(content) - 100):
        Symbols.of(content[:length])


def test_an_address_leads_to_a_function_of_a_file_or_of_a_runtime_compiler(tmp_path: Path) -> None:
    program = compiled(HTTP, tmp_path, "-static")
    archive = Archive()
    archive.add("host/server", program.read_bytes())
    main = Symbols.of(program.read_bytes()).offset("main")
    assert main is not None
    functions = UserFunctions.of(
        f"55000000-55100000 r-xp {main & ~0xFFF:08x} 00:01 7 /host/server\n"
        "7f0000-7f1000 r-xp 0 00:01 8 /lib/lib of mine.so\n"
        "7e0000-7e8000 rwxp 0 00:00 0\n"
        "perf 7e0100 20 LazyCompile:*serve app.js:3\n"
        "7ff000-7ff100 r-xp 0 00:00 0 [vdso]\n",
        archive.pack(),
    )
    assert functions.find(0x55000000 + (main & 0xFFF)) == ("main", "server")
    assert functions.find(0x7F0004) == ("[lib of mine.so]", "lib of mine.so")
    assert functions.find(0x7E0110) == ("LazyCompile:*serve app.js:3", ANONYMOUS)
    assert functions.find(0x7E0130) == (ANONYMOUS, ANONYMOUS)
    assert functions.find(0x7FF010) == ("[vdso]", "[vdso]")
    assert functions.find(0x10) == (ANONYMOUS, ANONYMOUS)


def test_blocks_of_a_function_are_one_row() -> None:
    functions = UserFunctions.of("1000-2000 r-xp 0 00:00 0 [vdso]")
    context = {"layer": "user", "kind": "user", "direction": "neither"}
    rows = [
        {**context, "function": "user 0x1000", "instructions": 3, "l1d_misses": [1, 2]},
        {**context, "function": "user 0x1010", "instructions": 4, "l1d_misses": [0, 1]},
        {**context, "layer": "tcp", "function": "tcp_ack", "instructions": 5, "l1d_misses": [1, 1]},
    ]
    (own, kernel) = with_functions({"counts": rows}, functions)["counts"]
    assert (own["function"], own["file"], own["instructions"]) == ("[vdso]", "[vdso]", 7)
    assert own["l1d_misses"] == [1, 3]
    assert kernel == rows[2]
