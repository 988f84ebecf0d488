"""Looks at where files are to go before the work that fills them is done."""

from __future__ import annotations

import os
from pathlib import Path

from perpacket.errors import ConfigurationError


def check_destination(option: str, file: Path) -> None:
    """Raise `ConfigurationError` naming `option` and `file` when the file cannot be written."""
    folder = file.absolute().parent
    if file.is_dir():
        problem, hint = "is a directory", "name a file in it"
    elif file.exists() and not file.is_file():
        problem, hint = "is no regular file", "name another file"
    elif not folder.exists():
        problem, hint = f"there is no folder {file.parent}", "make the folder first"
    elif not folder.is_dir():
        problem, hint = f"{file.parent} is no folder", "name a file in a folder"
    elif not os.access(folder, os.W_OK | os.X_OK):
        problem, hint = f"{file.parent} cannot be written to", "name a folder that can be"
    elif file.exists() and not os.access(file, os.W_OK):
        problem, hint = "the file there cannot be written over", "name another file"
    else:
        return
    raise ConfigurationError(
        f"{option} {file}: {problem}", parameter=option, value=str(file), hint=hint
    )


def check_folder(option: str, folder: Path) -> None:
    """Raise `ConfigurationError` naming `option` and `folder` when no file can be made in it.

    A folder that is not there will be made, with those above it.
    """
    nearest = folder.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        problem, hint = f"{nearest} is no folder", "name a folder"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        problem, hint = f"{nearest} cannot be written to", "name a folder that can be"
    else:
        return
    raise ConfigurationError(
        f"{option} {folder}: {problem}", parameter=option, value=str(folder), hint=hint
    )
