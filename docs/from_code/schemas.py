"""Files of users and of run directories: the docstring of their module, and their JSON Schema."""

from __future__ import annotations

import json
from importlib import import_module
from inspect import getdoc
from pathlib import Path

from from_code import markdown


def about(root: Path, module: str) -> str:
    """Return the docstring of a module, which is Markdown."""
    text = getdoc(import_module(module))
    if not text:
        raise ValueError(f"{module} has no docstring")
    return f"{text}\n"


def schema(root: Path, module: str, model: str) -> str:
    """Return the JSON Schema of a typed model."""
    contents = getattr(import_module(module), model).model_json_schema()
    return markdown.fenced("json", json.dumps(contents, indent=2))
