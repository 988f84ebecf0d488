"""The search for other programs on this machine."""

from __future__ import annotations

import os
import shutil

ADMINISTRATORS_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of server programs, which are not in the search path of an ordinary user."""


def find(name: str) -> str | None:
    """The path of a program, in the search path or the administrators' folders."""
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *ADMINISTRATORS_FOLDERS]
    return shutil.which(name, path=os.pathsep.join(folders))
