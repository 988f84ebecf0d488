"""The text of a problem that pydantic finds in a file, as one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from pydantic import ValidationError

TYPES: Final = ("str", "bool", "int", "float")
"""Parts of a location that are types of a union and not keys of the file."""


def problem_text(
    error: ValidationError, keys: Sequence[str] = (), expected: Mapping[str, str] | None = None
) -> str:
    """The first problem, in the form `key: EXPECTED, not FOUND`.

    `keys` are the keys of the file. `expected` describes the values of some of its tables.
    """
    problem = error.errors()[0]
    parts = [str(part) for part in problem["loc"] if part not in TYPES]
    key = ".".join(parts)
    if problem["type"] == "extra_forbidden":
        close = get_close_matches(key, keys, n=1)
        suggestion = f"did you mean {close[0]}? " if close else ""
        known = f": {suggestion}there are {', '.join(keys)}" if keys else ""
        return f"{key}: no such key{known}"
    if problem["type"] == "missing":
        return f"{key}: this key is required"
    text = problem["msg"].removeprefix("Value error, ")
    text = (expected or {}).get(parts[0] if parts else "", text)
    return f"{key}: {text}, not {problem['input']!r}" if key else text
