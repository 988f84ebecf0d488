"""The reference agrees with the code that it is generated from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from from_code import (  # noqa: E402
    commands,
    complete,
    docstrings,
    documents,
    parameters,
    repository,
)

RUST = """
/// A document.
#[derive(Serialize)]
pub struct Report {
    /// Version of this document.
    pub schema: u32,
    /// Times, in
    /// microseconds.
    pub latency_us: Pair,
    /// By name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_name: Option<BTreeMap<String, Pair>>,
    /// Not written.
    #[serde(skip)]
    pub histogram: Vec<u64>,
    /// Called otherwise, see [`Pair`].
    #[serde(rename = "what")]
    pub description: Vec<String>,
    #[serde(flatten)]
    rest: crate::Rest,
}

pub(crate) struct Pair {
    /// The first.
    pub first: f64,
}

struct Rest {
    /// In the document's own place.
    count: u64,
}
"""


def rows(table: str) -> list[list[str]]:
    """Return the cells of a table in Markdown, without headings and dashes."""
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[part.strip() for part in line.strip("|").split(" | ")] for line in lines]


def test_a_document_has_the_keys_that_serde_writes(tmp_path: Path) -> None:
    source = tmp_path / "crates/thing/src/report.rs"
    source.parent.mkdir(parents=True)
    source.write_text(RUST)
    assert rows(documents.table(tmp_path, "crates/thing/src/report.rs", "Report")) == [
        ["`schema`", "Version of this document."],
        ["`latency_us`", "Times, in microseconds."],
        ["`latency_us.first`", "The first."],
        ["`by_name.NAME`", "By name. (may be absent or null; keys as of `latency_us`)"],
        ["`what[]`", "Called otherwise, see `Pair`."],
        ["`count`", "In the document's own place."],
    ]
    with pytest.raises(ValueError, match="no structure Missing"):
        documents.table(tmp_path, "crates/thing/src/report.rs", "Missing")


def test_the_reference_has_the_keys_of_a_profile() -> None:
    table = documents.table(ROOT, "crates/instruments/profiler/src/report.rs", "Report")
    keys = {row[0].strip("`") for row in rows(table)}
    assert {"packets.sent", "layers.NAME", "total.share", "limits[]", "closure"} <= keys


def test_the_reference_has_value_unit_and_source_of_every_parameter() -> None:
    found = rows(parameters.table(ROOT, "lab/crates/simulate/data/machines/osdi06.toml"))
    by_name = {row[0]: row[1:] for row in found}
    assert by_name["`machine.l2.size_kib`"] == ["`1024`", "KiB", "OSDI 2006, table 2"]
    assert all(all(row) for row in found)


def test_the_reference_has_every_option_with_its_values() -> None:
    text = commands.front(ROOT)
    assert "## perpacket doctor" in text
    by_name = {row[0]: row[1:] for row in rows(text.partition("## perpacket doctor")[2])}
    assert by_name["`--format`"] == [r"`table\|json`", "How data is printed. Default: `table`."]
    assert by_name["`--require`"][0] == "`NAME[,NAME]`"
    assert "## perpacket serve" not in text, "the agent's verbs have their help"


@pytest.mark.parametrize("name", ["commands", "documents", "files", "parameters", "quantities"])
def test_the_pages_contain_what_the_code_says(name: str) -> None:
    text = (ROOT / f"docs/reference/{name}.md").read_text()
    assert "<!-- end of the part -->" in text
    assert complete(text) == text, "`make reference` writes them again"


def test_links_lead_to_the_page_that_shows_a_file() -> None:
    text = "[a](docs/simulator.md#tcp) [b](README.md) [c](CHANGELOG.md) [d](https://e.org)"
    assert repository.with_links(text, "ARCHITECTURE.md", "docs/project/architecture.md") == (
        "[a](../simulator.md#tcp) [b](../index.md) [c](changelog.md) [d](https://e.org)"
    )
    here = "docs/howto/study.md"
    assert repository.with_links("[a](../limitations.md)", here, here) == "[a](../limitations.md)"


def test_translated_docstrings_have_tables_lists_code_and_blocks() -> None:
    written = [
        *("| key | meaning |", "|---|---|", "| `a_` | one", "  line |", "| b |", "  two |", ""),
        *("A name_ and `code`s:", "- first", "- second", "", "Then", "", "    as it is"),
    ]
    text = "\n".join(docstrings.translate(written))
    assert "* - `a_`\n     - one line\n   * - b\n     - two" in text
    assert r"A name\_ and `code`\ s:" in text
    assert "s:\n\n- first\n- second" in text
    assert "Then\n\n::\n\n    as it is" in text
