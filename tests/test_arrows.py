"""Dependencies point down: the only table of which crate and package may use which."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "perpacket"

CRATES: dict[str, set[str]] = {
    "cost": set(),
    "workload": set(),
    "memory": set(),
    "simulate": {"cost", "workload", "memory"},
    "profiler": {"cost"},
    "media": set(),
    "serve": set(),
    "load": {"workload"},
    "link": set(),
    "microbench": {"memory"},
    "router": set(),
    "agent": {"profiler", "serve", "load", "link", "media", "microbench", "router"},
    "python": {"simulate", "workload"},
}
"""What each Rust crate may depend on, of our own."""

PACKAGES: dict[str, set[str]] = {
    "__init__": {"notebook", "simulation"},
    "errors": set(),
    "statistics": set(),
    "_core": set(),
    "simulation": {"_core", "errors"},
    "traces": {"simulation"},
    "experiment": {"__init__", "errors", "factorial", "statistics"},
    "measurement": {"errors", "experiment", "testbed", "traces"},
    "studies": {
        *("errors", "experiment", "factorial", "measurement", "models", "simulation", "statistics"),
    },
    "report": {"__init__", "errors", "experiment", "models", "statistics"},
    "testbed": {"__init__", "errors"},
    "live": {"errors", "testbed"},
    "machine": {"errors", "testbed"},
    "factorial": {"statistics"},
    "models": {"errors", "statistics"},
    "notebook": {
        *("errors", "experiment", "models", "report", "simulation", "studies"),
    },
    "demo": {
        *("errors", "experiment", "machine", "measurement", "report", "statistics", "studies"),
    },
    "cli": {
        *("__init__", "demo", "errors", "experiment", "live", "machine", "models"),
        *("report", "simulation", "statistics", "studies", "testbed", "traces"),
    },
}
"""What each module or package of `perpacket` may import, of our own: nobody imports `cli`.

`__init__` stands for `import perpacket`, which gives the version and loads nothing else.
"""

HEAVY = {"polars", "altair", "numpy", "great_tables", "vl_convert", "distributed"}
"""Imported inside functions everywhere but in the report, so that help and version come at once."""


def own_crates(manifest: Path) -> set[str]:
    """The crates of ours that a manifest depends on, builds and tests included."""
    content = tomllib.loads(manifest.read_text())
    tables = ("dependencies", "dev-dependencies", "build-dependencies")
    names = {name for table in tables for name in content.get(table, {})}
    return {name.removeprefix("perpacket-") for name in names if name.startswith("perpacket-")}


@pytest.mark.parametrize("manifest", sorted(ROOT.glob("crates/*/Cargo.toml")), ids=str)
def test_a_crate_depends_on_those_below_it_alone(manifest: Path) -> None:
    crate = manifest.parent.name
    assert crate in CRATES, f"{crate} is new: say here what it may depend on"
    assert own_crates(manifest) <= CRATES[crate]


PURE = ["cost/src", "workload/src", "memory/src", "simulate/src", "media/src/wire"]
"""Folders of `crates/` that receive time, randomness and input from their callers."""


@pytest.mark.parametrize("folder", PURE)
def test_the_core_touches_no_clock_socket_environment_or_file_of_its_own(folder: str) -> None:
    forbidden = ("std::time::Instant", "SystemTime", "std::net", "std::env", "File::open")
    for source in (ROOT / "crates" / folder).rglob("*.rs"):
        text = source.read_text().partition("#[cfg(test)]")[0]
        found = [name for name in forbidden if name in text]
        assert not found, f"{source.relative_to(ROOT)}: {', '.join(found)}"


def sources() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def home(file: Path) -> str:
    """The module or package of the table that a file belongs to."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    """Every module a tree imports, with the names taken from packages as `package.name`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute"
            if node.module == "perpacket":
                found |= {f"perpacket.{alias.name}" for alias in node.names}
            else:
                found.add(node.module)
    return found


def own_modules(names: set[str]) -> set[str]:
    """The parts of the table among imported modules; other names are those of `__init__`."""
    found = {name.split(".")[1] for name in names if name.startswith("perpacket.")}
    found |= {"__init__" for name in names if name == "perpacket"}
    return {name if name in PACKAGES else "__init__" for name in found}


@pytest.mark.parametrize("file", sources(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_module_imports_those_below_it_alone(file: Path) -> None:
    assert home(file) in PACKAGES, f"{home(file)} is new: say here what it may import"
    used = own_modules(imported(ast.parse(file.read_text()))) - {home(file)}
    assert used <= PACKAGES[home(file)]


@pytest.mark.parametrize(
    "file",
    [file for file in sources() if home(file) != "report"],
    ids=lambda file: str(file.relative_to(PACKAGE)),
)
def test_heavy_packages_are_imported_where_they_are_used(file: Path) -> None:
    imports: list[ast.stmt] = [
        node
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = imported(ast.Module(imports, []))
    assert not {name.partition(".")[0] for name in names} & HEAVY


def test_the_table_has_no_cycles() -> None:
    for table in (CRATES, PACKAGES):
        left = {name: set(below) - {"__init__"} for name, below in table.items()}
        while left:
            free = {name for name, below in left.items() if not below & left.keys()}
            assert free, f"a cycle among {', '.join(left)}"
            left = {name: below for name, below in left.items() if name not in free}
