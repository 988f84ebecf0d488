"""The preparation of an application: its folder, built once and cached.

The cache's key is a digest of the application's files and the versions of its packages. A folder is
built under another name and then renamed, so that a killed preparation leaves no incomplete folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from perpacket import private
from perpacket.errors import MachineLacks
from perpacket.measure.hosts.local import free_ports
from perpacket.measure.hosts.record import own_name, remove_folders
from perpacket_lab.measure import hosts
from perpacket_lab.measure.applications import packages
from perpacket_lab.measure.applications.application_file import Definition
from perpacket_lab.measure.applications.folder import Folder

ARCHIVES = "archives"
"""The folder for files from Maven, in the application's folder."""

PARTIAL = "new-"
"""Prefix of the name of a folder that is not complete yet. The owner's `own_name` follows it."""


def cache() -> Path:
    """The folder of prepared applications; the programs' user can read it.

    Raises `MachineLacks` if somebody else can write there.
    """
    if os.geteuid() == 0:
        return private.checked(Path("/var/cache/perpacket/applications"))
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return private.checked(Path(home) / "perpacket" / "applications")


def place_of(definition: Definition) -> Path:
    """The prepared folder of an application, which may not exist yet."""
    versions = packages.versions(definition.debian)
    text = "\n".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return cache() / f"{definition.own_name}-{definition.fingerprint(text)}"


def require(definition: Definition) -> Path:
    """The prepared folder; raises `MachineLacks` if the application is not prepared."""
    place = place_of(definition)
    if not place.is_dir():
        raise MachineLacks(
            f"{definition.name} is not prepared",
            f"run `perpacket application prepare {definition.name}`",
        )
    return place


def ports_of(definition: Definition) -> dict[str, int]:
    """A free port for each name of a port in the application."""
    names = definition.ports
    return dict(zip(names, free_ports(len(names)), strict=True))


def prepare(definition: Definition, note: Callable[[str], None]) -> Path:
    """Build the folder of an application if there is none. The packages must be installed.

    Calls `note` with a text before each step. Raises `RunFailed` with the output of a failed step.
    """
    place = place_of(definition)
    if place.is_dir():
        return place
    root = cache()
    private.made(root, 0o755)
    remove_folders(PARTIAL, root)
    outer = root / f"{PARTIAL}{own_name()}-{definition.name}"
    partial = outer / definition.name  # the programs' user owns it; this process owns `outer`
    partial.mkdir(mode=0o755, parents=True)
    try:
        with hosts.loopback() as bed:
            own = replace(definition, name=definition.own_name)  # all options share one folder
            folder = Folder(own, partial, bed.server, ports_of(own))
            (partial / ARCHIVES).mkdir()
            for archive in definition.archives:
                note(f"fetching {archive.name}")
                packages.fetch([archive], partial / ARCHIVES)
            folder.write_files()
            for _, step in definition.steps():
                note(f"running `{' '.join(step.command)}`")
                folder.run(step)
        partial.rename(place)
    finally:
        shutil.rmtree(outer, ignore_errors=True)
    return place
