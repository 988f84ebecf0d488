"""The observations of a run as one Parquet file with its study and versions in the metadata."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from perpacket.errors import ConfigurationError
from perpacket.whole_file import TEMPORARY, settle
from perpacket_lab.run.directory import RunDirectory

if TYPE_CHECKING:
    import polars

SCHEMA = 1
"""Version of the layout: the columns are those of `RunDirectory.observations`."""

SCHEMA_KEY = "perpacket.schema"
STUDY_KEY = "perpacket.study"
VERSION_KEY = "perpacket.version"
"""Names in the file's metadata."""


def write(directory: RunDirectory, destination: Path) -> polars.DataFrame:
    """Write the table of a run and return it; the file is complete or absent.

    Raises `ConfigurationError` when there is no observation, `CorruptObservation` naming damaged
    files, and `OSError` naming `destination` when it cannot be written.
    """
    table = directory.observations()
    if not table.height:
        raise ConfigurationError(
            f"{directory.path} has no observation yet",
            parameter="directory",
            value=str(directory.path),
            hint=f"run it with `perpacket study resume {directory.path}`",
        )
    metadata = {
        SCHEMA_KEY: str(SCHEMA),
        STUDY_KEY: directory.configuration.study,
        VERSION_KEY: directory.configuration.perpacket,
    }
    # Polars writes to memory, so that an error of the disk is an `OSError` with the file's name.
    content = io.BytesIO()
    table.write_parquet(content, metadata=metadata)
    temporary = destination.with_name(destination.name + TEMPORARY)
    with settle(temporary, destination):
        temporary.write_bytes(content.getbuffer())
    return table
