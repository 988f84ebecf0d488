"""The three lengths of a study: quick, default and full.

Any value of a study's file may be a table with one value for each length:

    "run.duration_s" = { quick = 0.5, default = 1.0, full = 10.0 }

If the table lacks a length, that length has the default's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Length = Literal["quick", "default", "full"]

LENGTHS: tuple[Length, ...] = get_args(Length)


def has_lengths(content: object) -> bool:
    """Whether any value in a file's content depends on the length."""
    if isinstance(content, dict):
        return is_by_length(content) or any(has_lengths(value) for value in content.values())
    return isinstance(content, list) and any(has_lengths(value) for value in content)


def at_length(content: object, length: Length) -> object:
    """The content with each table of lengths replaced by its value at one length."""
    if isinstance(content, dict):
        if is_by_length(content):
            return content.get(length, content["default"])
        return {key: at_length(value, length) for key, value in content.items()}
    if isinstance(content, list):
        return [at_length(value, length) for value in content]
    return content


def is_by_length(table: Mapping[str, object]) -> bool:
    """Whether a table has one value for each length."""
    return "default" in table and table.keys() <= set(LENGTHS)
