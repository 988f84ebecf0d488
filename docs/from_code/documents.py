"""JSON documents, from the Rust structures they are written from: each key with what it means.

The structures' documentation comments are the only description of the keys. What is read here is
the small part of Rust that such structures are written in: fields with a type, comments and
serde's attributes.
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
"""Types around another: what they add to a key, and to its meaning."""

MAPS = ("BTreeMap", "HashMap", "Named")


@dataclass(frozen=True)
class Field:
    """A field as it is written."""

    key: str
    kind: str
    meaning: str
    is_flat: bool
    """Its own fields stand in its place."""


def table(root: Path, file: str, name: str) -> str:
    """Every key of the document that a structure is written as."""
    structures = structures_of(root, file)
    if name not in structures:
        raise ValueError(f"{file} has no structure {name}")
    return markdown.table(("key", "meaning"), rows(structures, name))


def structures_of(root: Path, file: str) -> dict[str, str]:
    """The text of structures by name: those of the file, before others of its crate and of all."""
    crate = root.joinpath(*Path(file).parts[:2])
    sources = [*sorted(root.glob("crates/*/src/**/*.rs")), *sorted(crate.rglob("src/**/*.rs"))]
    folder = (root / file).parent
    sources += [*sorted(folder.glob("*.rs")), root / file]
    found: dict[str, str] = {}
    for source in sources:
        found.update(STRUCTURE.findall(source.read_text(encoding="utf-8")))
    return found


def fields(body: str) -> Iterator[Field]:
    """The fields of a structure that are written."""
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
            said = " ".join(attributes)
            if "serde(skip)" not in said:
                renamed = RENAMED.search(said)
                key = renamed.group(1) if renamed else key
                yield Field(key, kind, " ".join(comment), "flatten" in said)
            comment, attributes = [], []


def rows(
    structures: dict[str, str], name: str, above: str = "", seen: dict[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """A row for each key of a structure and of those in it, each structure only once."""
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
    """What the types around a type add to the key and to the meaning, and the type itself."""
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
    """The comment without links to code, and whether the key may be absent."""
    text = re.sub(r"\[`([^`]+)`\]", r"`\1`", text)
    return f"{text} ({remark})" if remark else text
