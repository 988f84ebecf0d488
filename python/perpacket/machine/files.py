"""Reads /proc and /sys, of this machine or of a folder that imitates one."""

from __future__ import annotations

from pathlib import Path


class Files:
    """The files under a root: `/`, or a folder with a made-up /proc and /sys."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Read under `root`."""
        self.root = root

    def text(self, path: str) -> str:
        """The text of a file without surrounding white space; empty when it cannot be read."""
        try:
            return (self.root / path.lstrip("/")).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder; empty when it cannot be read."""
        try:
            return sorted(entry.name for entry in (self.root / folder.lstrip("/")).iterdir())
        except OSError:
            return []
