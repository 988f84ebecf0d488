"""What /proc and /sys say, of this machine or of a folder that stands for one."""

from __future__ import annotations

from pathlib import Path


class Files:
    """The files under a root: `/`, or a folder with a made-up /proc and /sys."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Read under `root`."""
        self.root = root

    def text(self, path: str) -> str:
        """A file without the white space around it; empty when it cannot be read."""
        try:
            return (self.root / path.lstrip("/")).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; nothing when it cannot be read."""
        try:
            return sorted(entry.name for entry in (self.root / folder.lstrip("/")).iterdir())
        except OSError:
            return []


def numbers(listed: str) -> list[int]:
    """The numbers in a list as the kernel writes it, `0,2-3`; what is none is left out."""
    found: list[int] = []
    for part in listed.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (last or first).isdigit():
            found += range(int(first), int(last or first) + 1)
    return found


def ranges(values: list[int]) -> str:
    """Numbers as the kernel writes them: `0,2-3`."""
    parts: list[list[int]] = []
    for value in sorted(values):
        if parts and value == parts[-1][-1] + 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)
