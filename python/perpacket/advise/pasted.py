"""The outputs of several commands in a text that somebody pasted, with prompts.

A shell prompt with a command, or a line `==> FILE <==` as head(1) prints it, begins a section. The
name of a section is the command or the file, so that `cat /proc/stat` has the path of the file.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and movements of a terminal; ECMA-48."""

COMMANDS = (
    "cat|head|tail|grep|zcat|ethtool|ss|nstat|netstat|sysctl|mpstat|top|sar|vmstat|pidstat|ps|ip|ifconfig|"
    "tc|dmesg|journalctl|lscpu|numactl|perf|iptables|ip6tables|iptables-save|nft|conntrack|strace|"
    "cpupower|turbostat|systemctl|uname|haproxy|nginx|watch|iperf3?|wrk|lspci|free|uptime|arp|wg|sudo"
)
"""The commands whose prompt begins a section; other lines with `#` or `$` are contents."""

PROMPT = re.compile(
    rf"^(?:[\w.@:~/\[\]() -]*?)(?:[$#>]|(?<!\d)%)\s*((?:sudo )?(?:\S*/)?(?:{COMMANDS})\b.*)$"
)

TITLE = re.compile(r"^==> (.+?)(?: \([\d,]+ bytes\))? <==$")
"""The line of head(1), tail(1) and `perpacket case show` before a file."""

READS = re.compile(r"^(?:sudo )?(?:cat|zcat|head|tail)\s+(?:-\S+\s+)*(\S+)\s*(?:\||$)")
"""A command that prints one file."""

OF_FILE = re.compile(r"^(/(?:sys|proc)/[^\s:]+):(.*)$", re.MULTILINE)
"""A line of `grep . FILE...`."""


def sections(name: str, text: str) -> Iterator[tuple[str, str]]:
    """The sections of a text with their names; a text without prompts is one section."""
    title, lines = name, list[str]()
    for line in plain(text).splitlines():
        if line.lstrip().startswith("```"):
            yield from _section(title, lines)
            lines = []
            continue
        found = PROMPT.match(line) or TITLE.match(line)
        if found is None:
            lines.append(line)
            continue
        yield from _section(title, lines)
        read = READS.match(found[1])
        title, lines = read[1] if read else found[1], []
    yield from _section(title, lines)


def plain(text: str) -> str:
    """A text without colours, carriage returns and the marks of a quotation."""
    text = ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and all(line.startswith(">") for line in lines):
        text = re.sub(r"^> ?", "", text, flags=re.MULTILINE)
    return text


def _section(title: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    text = textwrap.dedent("\n".join(lines))
    if text.strip():
        yield title, text
    yield from OF_FILE.findall(text)
