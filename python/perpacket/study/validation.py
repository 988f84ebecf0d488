"""Problems that pydantic finds in a file, as one line."""

from __future__ import annotations

from pydantic import ValidationError


def first_problem(error: ValidationError) -> str:
    """The first problem as `key: what was expected, not what was found`."""
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    return f"{key}: {problem['msg']}, not {problem['input']!r}"
