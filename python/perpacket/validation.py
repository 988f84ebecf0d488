"""Files of tables: what all of them reject, and the text of a problem as one line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.resources.abc import Traversable
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from perpacket.errors import ConfigurationError

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


class FileTable(BaseModel):
    """A table of a file: unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True, frozen=True)


TableT = TypeVar("TableT", bound=BaseModel)


def read_toml(file: Traversable, table: type[TableT], hint: str = "") -> TableT:
    """A TOML file as a table; raises `ConfigurationError` naming the file, the key and the type."""
    try:
        return table.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{file}: cannot be read: {reason}", hint=hint) from None
    except ValidationError as error:
        raise ConfigurationError(f"{file}: {problem_text(error)}", hint=hint) from None
