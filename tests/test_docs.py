"""The documents build without a warning, fetch nothing, and their commands succeed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from probes import LACKS
from requirements import skip

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

PAGES = [DOCS / "tutorial.md", DOCS / "extending.md", *sorted((DOCS / "howto").glob("*.md"))]
"""The pages whose commands the test runs."""

SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"\A---\nneeds: (.*)\n---\n")

SHORTER = {
    r"perpacket profile ": "perpacket profile --frequency 997 ",  # short windows need more samples
    # A background load runs until the script ends it, so that it outlasts the measurement.
    r"--duration 10\b(.*) &$": r"--duration 3600\1 &",
    r"^wait \$load$": "kill -INT $load; wait $load || test $? = 130",
    r"--duration 10\b": "--duration 1",
    r"--duration 5\b": "--duration 0.5",
    r"--warmup 1\b": "--warmup 0",
    r"--replications \d+": "--replications 2",
    r"--(warmup-packets|packets) 50000": r"--\1 5000",
    r'(run\.(?:warmup_)?packets", ")50000': r"\g<1>5000",
    r'(run\.(?:warmup_)?packets" = )100_000': r"\g<1>5_000",
}
"""Replacements for times and sizes that affect only the precision of a result."""

CAPABILITIES = {
    "perf_cpu_wide": "perf",
    "kernel_symbols": "perf",
    "two_processors": "processors",
    "nginx": "peers",
    "network_namespaces": "netns",
    "ip": "netns",
}
"""The name in `PERPACKET_REQUIRE` of each capability of `doctor`, if the names differ."""

PORTS = ("8080", "8554")
"""Ports that pages use. A test replaces them by free ones."""

PAGE_LIMIT_S = 1200
"""A page needs a few seconds, or minutes on a busy machine. After this time, a command hangs."""


def commands(page: Path) -> str:
    """Return all blocks of shell of a page as one script."""
    return "".join(SHELL.findall(page.read_text()))


@cache
def capabilities() -> dict[str, str]:
    """Return, by capability, the reason why this machine lacks it; empty if it does not."""
    from perpacket import machine

    found = {item.name: "" if item.available else item.detail for item in machine.examine()}
    return found | {"root": "" if os.geteuid() == 0 else "not root"}


def skip_unless_possible(page: Path) -> None:
    """Skip a page that needs a capability that this machine lacks."""
    header = NEEDS.match(page.read_text())
    needs = re.split(r",\s*", header.group(1)) if header else []
    known = capabilities()
    for need in needs:
        assert need in known, f"{page.name} needs {need}, which is no capability of doctor"
        if known[need]:
            name = CAPABILITIES.get(need, need)
            is_absent = name not in LACKS or LACKS[name]()
            assert is_absent, f"doctor reports that {need} is missing: {known[need]}"
            skip(name, known[need])
    if "--cpus 0" in commands(page) and not {0, 1} <= os.sched_getaffinity(0):
        skip("processors", "this process may not use processors 0 and 1")


def free_ports(count: int) -> list[int]:
    """Return ports on which no program listens."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in listeners]
    for one in listeners:
        one.close()
    return ports


def script(page: Path) -> str:
    """Return the commands of a page, with short times and free ports."""
    text = commands(page)
    for pattern, instead in SHORTER.items():
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    for port, free in zip(PORTS, free_ports(len(PORTS)), strict=True):
        text = text.replace(f":{port}", f":{free}")
    # All processes of a machine share the names of namespaces, and this test may run twice at once.
    text = text.replace("lab-", f"lab{os.getpid()}-")
    return f"set -eu\n{text}"


@pytest.fixture
def readable_folder() -> Iterator[Path]:
    """Return a folder that a server may read as user nobody. Folders of pytest are private."""
    folder = Path(tempfile.mkdtemp(prefix="perpacket-docs-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # a server may still remove a file


def run_script(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder with this tree's `perpacket`, and end its background processes."""
    programs = folder / "bin"
    programs.mkdir()
    # A link would not work: Python finds its environment by the path of the program.
    for name, arguments in (("perpacket", "-m perpacket.cli "), ("python3", "")):
        starter = programs / name
        starter.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments}"$@"\n')
        starter.chmod(0o755)
    path = os.pathsep.join([str(programs), os.environ["PATH"], "/usr/sbin", "/sbin"])
    work = folder / "work"
    work.mkdir()
    output = folder / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            ["bash", "-c", text],
            cwd=work,
            env=os.environ | {"PATH": path},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        status = process.wait(PAGE_LIMIT_S)
    finally:
        end_session(process.pid)
        process.wait()
    # Background processes may still write, also a part of a character.
    printed = output.read_text(encoding="utf-8", errors="replace")
    return subprocess.CompletedProcess([], status, printed, "")


def end_session(leader: int) -> None:
    """End the remaining processes of a script."""
    try:
        os.killpg(leader, 15)
    except ProcessLookupError:
        return


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if commands(page)],
    ids=lambda page: str(page.relative_to(DOCS)),
)
def test_the_commands_of_a_page_succeed_as_printed(page: Path, readable_folder: Path) -> None:
    skip_unless_possible(page)
    done = run_script(script(page), readable_folder)
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_script_fails_if_one_of_its_commands_fails(readable_folder: Path) -> None:
    done = run_script("set -eu\necho first\nfalse\necho second\n", readable_folder)
    assert done.returncode == 1
    assert done.stdout == "first\n"


def test_the_tutorial_and_most_how_tos_have_commands() -> None:
    assert "perpacket profile" in commands(DOCS / "tutorial.md")
    assert sum(bool(commands(page)) for page in PAGES) >= 8


PATH = re.compile(r"`((?:[\w.*-]+/)+[\w.*-]*|[\w-]+\.(?:py|rs|toml|md))`")
PATH_ROOTS = ("", "crates/**", "lab/**", "python/perpacket/**")
"""The folders of the repository to which a path in backquotes may be relative."""


def test_every_path_in_the_architecture_exists() -> None:
    paths = PATH.findall((ROOT / "ARCHITECTURE.md").read_text())
    assert len(paths) > 100
    missing = {
        path
        for path in paths
        if not any(next(ROOT.glob(f"{root}/{path}".strip("/")), None) for root in PATH_ROOTS)
    }
    assert not missing


class Fetched(HTMLParser):
    """Collect the addresses that a browser fetches for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        names = {"script": "src", "img": "src", "link": "href", "iframe": "src"}
        address = attributes.get(names.get(tag, ""))
        if address and attributes.get("rel") not in ("canonical", "author", "next", "prev"):
            self.addresses.append(address)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the documents with warnings as errors, and return the folder of pages."""
    folder = tmp_path_factory.mktemp("pages")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    command += ["--doctree-dir", str(folder / "trees"), str(DOCS), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_the_documents_build_with_every_page(built: Path) -> None:
    sources = [page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")]
    missing = [str(page) for page in sources if not (built / page).is_file()]
    assert not missing


def test_the_pages_fetch_nothing_from_other_hosts(built: Path) -> None:
    for page in built.rglob("*.html"):
        parser = Fetched()
        parser.feed(page.read_text())
        assert not [one for one in parser.addresses if re.match(r"(https?:)?//", one)], page
    for style in built.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", style.read_text()), style


def test_the_reference_names_every_verb_parameter_and_key(built: Path) -> None:
    commands_page = (built / "reference/commands.html").read_text()
    for verb in ("study run", "doctor", "load http", "profile", "route throughput"):
        assert f"perpacket {verb}" in commands_page
    assert "nic.hiwat" in (built / "reference/parameters.html").read_text()
    documents = (built / "reference/documents.html").read_text()
    for key in ("unclaimed_share", "packets.segments_sent", "latency_us.response"):
        assert key in documents
    assert "paired_ratio" in (built / "reference/python.html").read_text()
