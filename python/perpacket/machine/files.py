"""Reads /proc and /sys, of this machine, of a folder that imitates one, or of files from one."""

from __future__ import annotations

import re
from pathlib import Path

from perpacket.errors import ConfigurationError
from perpacket.measure.cpu_lists import numbers


class Files:
    """The files under a root: `/`, or a folder with a made-up /proc and /sys."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Read under `root`."""
        self.root = root

    def text(self, path: str) -> str:
        """The text of a file without surrounding white space; empty when it cannot be read."""
        try:
            text = (self.root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return text.strip()

    def cpus(self, path: str) -> list[int]:
        """The processors that a file lists, such as `0,2-3`; none when it cannot be read.

        Raises `ConfigurationError` if it has other text.
        """
        try:
            return numbers(self.text(path))
        except ValueError as error:
            raise ConfigurationError(f"{path}: expected {error}") from None

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder; empty when it cannot be read."""
        try:
            return sorted(entry.name for entry in (self.root / folder.lstrip("/")).iterdir())
        except OSError:
            return []


class Copies(Files):
    """The texts of files that were copied from a machine's /proc and /sys."""

    def __init__(self) -> None:
        """No files."""
        self.texts: dict[str, str] = {}
        """Each file's text by its path on that machine."""

    def add(self, path: str, text: str) -> bool:
        """Add a file if its path, such as `case/proc/stat`, shows where it was; whether it does."""
        place = re.search(r"(?:^|/)((?:sys|proc)/.+)$", path)
        if place:
            self.texts["/" + place[1]] = text.strip()
        return place is not None

    def text(self, path: str) -> str:
        """The text of a file; empty if it was not copied."""
        return self.texts.get(path, "")

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder; empty if no file of it was copied."""
        start = f"{folder}/"
        inside = (path.removeprefix(start) for path in self.texts if path.startswith(start))
        return sorted({name.partition("/")[0] for name in inside})
