"""Dependencies point down: the only table of which crate and package may use which."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import perpacket

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "perpacket": ROOT / "python" / "perpacket",
    "perpacket_lab": ROOT / "lab" / "perpacket_lab",
}
"""The folder of each distribution's package: the operator's floor, and the lab."""

CRATES: dict[str, set[str]] = {
    "cost": set(),
    "workload": set(),
    "memory": set(),
    "simulate": {"cost", "workload", "memory"},
    "emulate": {"cost", "memory"},
    "emulate-plugin": {"cost", "emulate", "memory"},
    "linux": set(),
    "profiler": {"cost", "linux", "spec"},
    "timers": set(),
    "media": {"http", "linux", "spec", "timers"},
    "http": set(),
    "spec": {"linux"},
    "serve": {"http", "linux", "spec"},
    "load": {"http", "linux", "spec", "timers", "workload"},
    "link": {"linux", "spec"},
    "added-cost": {"linux", "spec"},
    "microbench": {"linux", "memory", "spec"},
    "requirements": set(),
    "router": {"linux", "spec"},
    "agent": {
        *("added-cost", "cost", "http", "linux", "profiler", "serve", "load", "link", "spec"),
    },
    "lab-agent": {"agent", "linux", "media", "microbench", "router", "spec"},
    "python": {"emulate", "simulate", "workload"},
}
"""The crates of this workspace on which each crate may depend. All tests may use `requirements`."""

FRONT = {"perpacket": {"lab"}, "perpacket_lab": set[str](), "perpacket_lab._core": set[str]()}
"""Modules without a row in ARCHITECTURE.md. `perpacket` loads the modules of a public name at its
first use, so every module may import it."""


def rows() -> dict[str, set[str]]:
    """The Python tables of ARCHITECTURE.md: the modules that each module or package may import.

    All names are full. The lab may also import the operator's floor, except its command line.
    """
    found = {name: {f"perpacket.{below}" for below in uses} for name, uses in FRONT.items()}
    for package, folder in PACKAGES.items():
        place = folder.relative_to(ROOT)
        text = (ROOT / "ARCHITECTURE.md").read_text().partition(f"#### `{place}/`")[2]
        lines = text.partition("|---|---|---|\n")[2].partition("\n\n")[0].splitlines()
        for line in lines:
            name, _, uses = (cell.strip() for cell in line.strip("|").split("|"))
            below = {use.strip("` ") for use in uses.split(",")} - {"nothing"}
            found[f"{package}.{name.strip('`/ ')}"] = {f"{package}.{use}" for use in below}
        floor = {name for name in found if name.startswith(f"{package}.")}
        found[f"{package}.cli"] = floor
    operator = {name for name in found if name.startswith("perpacket.")}
    for name, allowed in found.items():
        allowed.add("perpacket")
        if name.startswith("perpacket_lab."):
            allowed.update(operator | {"perpacket_lab"})
            if name != "perpacket_lab.cli":
                allowed.remove("perpacket.cli")
    return found


ROWS = rows()

HEAVY = {"polars", "altair", "numpy", "vl_convert", "distributed"}
"""Imported inside functions, except in `show`, so that help and version print at once."""


def own_crates(manifest: Path) -> set[str]:
    """The crates of this workspace on which a manifest depends, also for builds and tests."""
    content = tomllib.loads(manifest.read_text())
    tables = ("dependencies", "dev-dependencies", "build-dependencies")
    names = {name for table in tables for name in content.get(table, {})}
    own = {name.removeprefix("perpacket-") for name in names if name.startswith("perpacket-")}
    return own - {"requirements"}


FOLDERS = {
    file.parent.name: file.parent
    for pattern in ("crates/agent", "crates/base/*", "crates/instruments/*", "lab/crates/*")
    for file in sorted(ROOT.glob(f"{pattern}/Cargo.toml"))
}
"""The folder of every crate."""


@pytest.mark.parametrize("crate", FOLDERS)
def test_a_crate_depends_on_those_below_it_alone(crate: str) -> None:
    assert crate in CRATES, f"{crate} is new: add the crates on which it may depend"
    assert own_crates(FOLDERS[crate] / "Cargo.toml") <= CRATES[crate]


def test_the_operators_crates_use_none_of_the_lab() -> None:
    lab = {name for name, folder in FOLDERS.items() if folder.is_relative_to(ROOT / "lab")}
    for name in FOLDERS.keys() - lab:
        assert not own_crates(FOLDERS[name] / "Cargo.toml") & lab, name


GPL = "emulate-plugin"
"""The only crate under another licence: QEMU loads it, and no other crate may depend on it."""


def test_no_crate_depends_on_the_one_under_the_gpl() -> None:
    licences = {
        crate: tomllib.loads((folder / "Cargo.toml").read_text())["package"]
        for crate, folder in FOLDERS.items()
    }
    own = {name for name, package in licences.items() if "workspace" not in package["license"]}
    assert own == {GPL}
    assert licences[GPL]["license"] == "GPL-2.0-or-later"
    assert (FOLDERS[GPL] / "LICENSE").is_file()
    assert not [name for name, below in CRATES.items() if GPL in below]


UNSAFE = {"emulate-plugin", "linux"}
"""The crates with unsafe code: kernel interfaces without a safe wrapper, and QEMU's C callbacks."""


@pytest.mark.parametrize("crate", FOLDERS)
def test_unsafe_code_is_in_the_two_crates_for_it(crate: str) -> None:
    manifest = tomllib.loads((FOLDERS[crate] / "Cargo.toml").read_text())
    has_lints_of_its_own = "workspace" not in manifest.get("lints", {})
    assert has_lints_of_its_own == (crate in UNSAFE)


PURE = [
    *("cost/src", "workload/src", "memory/src", "simulate/src", "emulate/src"),
    *("media/src/wire", "timers/src", "http/src"),
]
"""Folders, each of a crate, that receive time, randomness and input from their callers."""


@pytest.mark.parametrize("folder", PURE)
def test_the_core_touches_no_clock_socket_environment_or_file_of_its_own(folder: str) -> None:
    forbidden = ("std::time::Instant", "SystemTime", "std::net", "std::env", "File::open")
    crate, _, inside = folder.partition("/")
    for source in (FOLDERS[crate] / inside).rglob("*.rs"):
        text = source.read_text().partition("#[cfg(test)]")[0]
        found = [name for name in forbidden if name in text]
        assert not found, f"{source.relative_to(ROOT)}: {', '.join(found)}"


def sources() -> list[Path]:
    """Every Python file of the packages."""
    return sorted(file for folder in PACKAGES.values() for file in folder.rglob("*.py"))


def module_name(file: Path) -> str:
    """The full name of a module, such as `perpacket_lab.run.start`."""
    package, folder = next(
        (name, folder) for name, folder in PACKAGES.items() if file.is_relative_to(folder)
    )
    parts = (package, *file.relative_to(folder).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in sources()}
"""Every module's file."""


def home(module: str) -> str:
    """The row of the tables that a module belongs to."""
    return ".".join(module.split(".")[:2])


def is_own(module: str) -> bool:
    """Whether a module is of these packages."""
    return module.partition(".")[0] in PACKAGES


def imported(tree: ast.AST) -> set[str]:
    """Every module a tree imports, with its full name.

    A name in a package that is not a module counts as the package.
    """
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            own = {name for name in names if name in MODULES or name in ROWS}
            found |= own | ({node.module} if len(own) < len(names) else set())
    return found


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_those_below_it_alone(name: str) -> None:
    assert home(name) in ROWS, f"{home(name)} is new: ARCHITECTURE.md lacks what it may import"
    tree = ast.parse(MODULES[name].read_text())
    for below in run_imports(tree) if name == "perpacket" else imported(tree):
        if is_own(below) and home(below) != home(name):
            assert home(below) in ROWS[home(name)], (
                f"{below} is not in the row of {home(name)} in ARCHITECTURE.md"
            )


@pytest.mark.parametrize(
    "file",
    [file for name, file in MODULES.items() if home(name) != "perpacket_lab.show"],
    ids=lambda file: str(file.relative_to(ROOT)),
)
def test_heavy_packages_are_imported_where_they_are_used(file: Path) -> None:
    imports: list[ast.stmt] = [
        node
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = imported(ast.Module(imports, []))
    assert not {name.partition(".")[0] for name in names} & HEAVY


WITHIN_FUNCTIONS = {"perpacket_lab.emulate.structures": {"perpacket_lab.emulate.report"}}
"""The only imports against the order of the modules: the module itself imports the other."""


def test_no_module_imports_itself_through_others() -> None:
    left = {
        name: run_imports(ast.parse(file.read_text()))
        - {name, *PACKAGES}
        - WITHIN_FUNCTIONS.get(name, set())
        for name, file in MODULES.items()
    }
    while left:
        free = {name for name, below in left.items() if not below & left.keys()}
        assert free, f"a cycle among {', '.join(sorted(left))}"
        left = {name: below for name, below in left.items() if name not in free}


def without_types(tree: ast.Module) -> ast.Module:
    """A module without its imports for types alone, which run nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    return tree


def run_imports(tree: ast.Module) -> set[str]:
    """The modules of these packages that a module runs, at its import or in a function."""
    return imported(without_types(tree)) & MODULES.keys()


def canonical(name: str) -> str:
    """A distribution's name, normalized as in PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


OF_THE_SYSTEM = {"gi"}
"""Imported only by programs that the system's Python runs (`measure/media/gstreamer_server.py`)."""


@pytest.mark.parametrize(
    ("package", "manifest", "extra"),
    [("perpacket", "pyproject.toml", ""), ("perpacket_lab", "lab/pyproject.toml", "cluster")],
)
def test_modules_import_the_declared_packages_and_every_declared_one_is_imported(
    package: str, manifest: str, extra: str
) -> None:
    project = tomllib.loads((ROOT / manifest).read_text())["project"]
    declared = {
        canonical(re.split(r"[<>=~!\[ ]", requirement)[0])
        for requirement in (
            *project["dependencies"],
            *(project["optional-dependencies"][extra] if extra else ()),
        )
    }
    trees = (without_types(ast.parse(file.read_text())) for file in PACKAGES[package].rglob("*.py"))
    names = {name.partition(".")[0] for tree in trees for name in imported(tree)}
    others = names - set(sys.stdlib_module_names) - set(PACKAGES) - OF_THE_SYSTEM
    distributions = packages_distributions()
    found = {canonical(distributions[name][0]) for name in others}
    # The agent is an executable, which no module imports.
    assert found == declared - {"perpacket-agent", "perpacket-lab-agent", "perpacket"}


FOUND_BY_FOLDER = ("perpacket_lab.show.charts.", "perpacket_lab.measure.applications.library.")
"""Modules that are found in their folder: kinds of charts, and programs of applications."""


def test_every_module_is_imported_or_named_by_another() -> None:
    texts = {name: file.read_text() for name, file in MODULES.items()}
    used = {*PACKAGES, "perpacket.cli.__main__"}
    pages = [file.read_text() for file in (ROOT / "docs/from_code").glob("*.py")]
    for text in (*texts.values(), *pages):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and is_own(node.module or ""):
                used |= {node.module or "", *(f"{node.module}.{one.name}" for one in node.names)}
            elif isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
    left = [
        name
        for name in MODULES
        if not any(other == name or other.startswith(f"{name}.") for other in used)
        and not name.startswith(FOUND_BY_FOLDER)
    ]
    for name in left:
        folder, _, last = name.rpartition(".")
        by_path = any(
            re.search(rf"\b{re.escape(name)}\b", text)
            for other, text in texts.items()
            if other != name
        )
        by_package = f'"{last}:' in texts.get(folder, "")
        # A program for another Python is no module: its text is read from the file.
        by_file = any(f'"{last}.py"' in text for text in texts.values())
        assert by_path or by_package or by_file, f"{name}: no module uses it"


def test_every_module_named_in_a_text_exists() -> None:
    """`lab.load` finds modules by name, and a package's docstring lists its files."""
    for name in perpacket._OF_THE_LAB.values():
        assert f"perpacket_lab.{name.partition(':')[0]}" in MODULES, name
    loaded = re.compile(r'lab\.load\("([\w.]+)"|applications\("(\w+)"\)')
    for file in sources():
        text = file.read_text()
        for module, application in loaded.findall(text):
            name = module or f"measure.applications.{application}"
            assert f"perpacket_lab.{name}" in MODULES, f"{file}: {name}"
        listed = re.findall(r"^    (\w+\.py) ", ast.get_docstring(ast.parse(text)) or "", re.M)
        for name in listed if file.name == "__init__.py" else ():
            assert (file.parent / name).is_file(), f"{file}: {name}"


def test_the_table_of_crates_has_no_cycles() -> None:
    left = {name: set(below) for name, below in CRATES.items()}
    while left:
        free = {name for name, below in left.items() if not below & left.keys()}
        assert free, f"a cycle among {', '.join(left)}"
        left = {name: below for name, below in left.items() if name not in free}
