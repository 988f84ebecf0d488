"""The figures that the four documents print, for tests that compare `published.toml` with them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "reference"


def printed_figures(file: str) -> dict[str, dict[str, Any]]:
    """The figures of one document by identifier: place, kind, unit and `value`, `min` or `max`."""
    return tomllib.loads((FOLDER / file).read_text(encoding="utf-8"))
