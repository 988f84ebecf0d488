"""JSON documents: each key with its meaning, from the Rust structures that are serialized.

The documentation comments of the structures are the only description of the keys. This module
parses the small part of Rust that these structures use: typed fields, comments and serde's
attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from from_code import markdown

STRUCTURE = re.compile(
    r"^(?:pub(?:\([a-z]+\))? )?struct (\w+)(?:<[^>{]*>)? \{\n(.*?)^\}", re.M | re.S
)
FIELD = re.compile(r"^    (?:pub(?:\([a-z]+\))? )?(?:r#)?(\w+): (.+),$")
RENAMED = re.compile(r'serde\(.*?rename = "([^"]+)"')
WRAPPERS = {
    "Option": ("", "may be absent or null"),
    "Vec": ("[]", ""),
    "Box": ("", ""),
}
"""Wrapper types: the suffix of the key, and the remark on its meaning."""

MAPS = ("BTreeMap", "HashMap", "Named")


@dataclass(frozen=True)
class Field:
    """A field of a structure."""

    key: str
    kind: str
    meaning: str
    is_flat: bool
    """Whether its own fields replace it in the document."""


def table(root: Path, file: str, name: str) -> str:
    """Return a table of every key of the document of a structure."""
    structures = structures_of(root, file)
    if name not in structures:
        raise ValueError(f"{file} has no structure {name}")
    return markdown.table(("key", "meaning"), rows(structures, name))


def structures_of(root: Path, file: str) -> dict[str, str]:
    """Return the bodies of structures by name.

    Names need not be unique: the file has precedence, then its folder, then its crate.
    """
    crate = root / file.partition("/src/")[0]
    sources = [
        source for top in ("lab", "crates") for source in sorted(root.glob(f"{top}/**/src/**/*.rs"))
    ]
    sources += sorted(crate.rglob("src/**/*.rs"))
    folder = (root / file).parent
    sources += [*sorted(folder.glob("*.rs")), root / file]
    found: dict[str, str] = {}
    for source in sources:
        found.update(STRUCTURE.findall(source.read_text(encoding="utf-8")))
    return found


def fields(body: str) -> Iterator[Field]:
    """Return the fields of a structure that serde writes."""
    comment: list[str] = []
    attributes: list[str] = []
    for line in body.splitlines():
        text = line.strip()
        if text.startswith("///"):
            comment.append(text[3:].strip())
        elif text.startswith("#["):
            attributes.append(text)
        elif match := FIELD.match(line):
            key, kind = match.groups()
            serde = " ".join(attributes)
            if "serde(skip)" not in serde:
                renamed = RENAMED.search(serde)
                key = renamed.group(1) if renamed else key
                yield Field(key, kind, " ".join(comment), "flatten" in serde)
            comment, attributes = [], []


def rows(
    structures: dict[str, str], name: str, above: str = "", seen: dict[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """Return a row for each key of a structure and of its inner structures, each structure once."""
    seen = {name: "the document"} if seen is None else seen
    for field in fields(structures[name]):
        suffix, remark, kind = unwrapped(field.kind)
        if field.is_flat:
            yield from rows(structures, kind, above, seen)
            continue
        key = f"{above}{field.key}{suffix}"
        if kind in structures and kind in seen:
            remark = "; ".join(filter(None, (remark, f"keys as of `{seen[kind]}`")))
        yield markdown.code(key), meaning(field.meaning, remark)
        if kind in structures and kind not in seen:
            seen[kind] = key
            yield from rows(structures, kind, f"{key}.", seen)


def unwrapped(kind: str) -> tuple[str, str, str]:
    """Return the suffix of the key, the remark on the meaning, and the type without wrappers."""
    suffix, remarks = "", []
    while match := re.fullmatch(r"(?:\w+::)*(\w+)<(.+)>", kind):
        outer, inner = match.groups()
        if outer in MAPS:
            suffix += ".NAME"
            inner = inner.rpartition(", ")[2] if outer != "Named" else inner
        elif outer in WRAPPERS:
            suffix += WRAPPERS[outer][0]
            remarks.append(WRAPPERS[outer][1])
        else:
            break
        kind = inner
    return suffix, "; ".join(filter(None, remarks)), kind.removeprefix("crate::").split("::")[-1]


def meaning(text: str, remark: str) -> str:
    """Return the comment without links to code, with its remark."""
    text = re.sub(r"\[`([^`]+)`\]", r"`\1`", text)
    return f"{text} ({remark})" if remark else text
