"""Checks, before the work begins, that output files can be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from perpacket.errors import ConfigurationError


def check_destination(option: str, file: Path) -> None:
    """Raise `ConfigurationError` naming `option` and `file` when the file cannot be written."""
    if file.is_dir():
        _refuse(option, file, "is a directory", "use a file in it")
    elif file.exists() and not file.is_file():
        _refuse(option, file, "is not a regular file", "use another file")
    elif not file.absolute().parent.exists():
        _refuse(option, file, f"there is no folder {file.parent}", "make the folder first")
    _check_writable(option, file, file.parent)
    if file.exists() and not os.access(file, os.W_OK):
        _refuse(option, file, "the file cannot be overwritten", "use another file")


def check_folder(option: str, folder: Path) -> None:
    """Raise `ConfigurationError` naming `option` and `folder` when no file can be made in it.

    A missing folder is no error, because the verb makes it.
    """
    nearest = folder.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    _check_writable(option, folder, nearest)


def _check_writable(option: str, path: Path, folder: Path) -> None:
    if not folder.is_dir():
        _refuse(option, path, f"{folder} is not a folder", "use a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        _refuse(option, path, f"{folder} cannot be written to", "use a writable folder")


def _refuse(option: str, path: Path, problem: str, hint: str) -> NoReturn:
    raise ConfigurationError(
        f"{option} {path}: {problem}", parameter=option, value=str(path), hint=hint
    )
