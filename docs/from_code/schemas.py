"""Files that people write and runs leave: what their module says of them, and their JSON Schema."""

from __future__ import annotations

import json
from importlib import import_module
from inspect import getdoc
from pathlib import Path

from from_code import markdown


def about(root: Path, module: str) -> str:
    """What a module says of itself, without its parts; its docstring is Markdown already."""
    text = getdoc(import_module(module))
    if not text:
        raise ValueError(f"{module} says nothing of itself")
    return f"{text}\n"


def schema(root: Path, module: str, model: str) -> str:
    """The JSON Schema of a typed model."""
    found = getattr(import_module(module), model).model_json_schema()
    return markdown.fenced("json", json.dumps(found, indent=2))
