"""The documents build without a warning, fetch nothing, and their commands do what they say."""

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

from requirements import skip

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

PAGES = [DOCS / "tutorial.md", DOCS / "extending.md", *sorted((DOCS / "howto").glob("*.md"))]
"""The pages whose commands are run."""

SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"\A---\nneeds: (.*)\n---\n")

SHORTER = {
    r"perpacket profile ": "perpacket profile --frequency 997 ",  # short windows need more samples
    # What runs in the background outlasts what is measured beside it, and is ended then.
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
"""What is put in the place of times and sizes that only precision needs."""

CAPABILITIES = {
    "perf_cpu_wide": "perf",
    "kernel_symbols": "perf",
    "two_processors": "processors",
    "nginx": "peers",
    "network_namespaces": "netns",
    "ip": "netns",
}
"""What `PERPACKET_REQUIRE` calls the things that `doctor` looks for, where the names differ."""

PORTS = ("8080", "8554")
"""Ports that pages use; a test takes free ones."""

PAGE_LIMIT_S = 1200
"""A page takes a few seconds, on a busy machine minutes: longer means that something hangs."""


def commands(page: Path) -> str:
    """All blocks of shell of a page, as one script."""
    return "".join(SHELL.findall(page.read_text()))


@cache
def capabilities() -> dict[str, str]:
    """What this machine lacks, with the reason; an empty reason for what is there."""
    from perpacket import machine

    found = {item.name: "" if item.available else item.detail for item in machine.examine()}
    return found | {"root": "" if os.geteuid() == 0 else "not root"}


def skip_unless_possible(page: Path) -> None:
    """Skip a page that needs what is not here."""
    said = NEEDS.match(page.read_text())
    needs = re.split(r",\s*", said.group(1)) if said else []
    known = capabilities()
    for need in needs:
        assert need in known, f"{page.name} needs {need}, of which doctor knows nothing"
        if known[need]:
            skip(CAPABILITIES.get(need, need), known[need])
    if "--cpus 0" in commands(page) and not {0, 1} <= os.sched_getaffinity(0):
        skip("processors", "processors 0 and 1 are not ours")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with_names = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in with_names]
    for one in with_names:
        one.close()
    return ports


def script(page: Path) -> str:
    """The commands of a page, with short times and free ports."""
    text = commands(page)
    for pattern, instead in SHORTER.items():
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    for port, free in zip(PORTS, free_ports(len(PORTS)), strict=True):
        text = text.replace(f":{port}", f":{free}")
    # Namespaces are the machine's: two runs of this test at once have their own.
    text = text.replace("lab-", f"lab{os.getpid()}-")
    return f"set -eu\n{text}"


@pytest.fixture
def readable_folder() -> Iterator[Path]:
    """A folder that servers who are nobody may read; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(prefix="perpacket-docs-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # a server that ends late may still remove a file


def run_script(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder with this tree's `perpacket`; nothing it started is left."""
    programs = folder / "bin"
    programs.mkdir()
    # Scripts, not links: through a link Python would not find its environment.
    for name, arguments in (("perpacket", "-m perpacket.cli "), ("python3", "")):
        starter = programs / name
        starter.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments}"$@"\n')
        starter.chmod(0o755)
    path = os.pathsep.join([str(programs), os.environ["PATH"], "/usr/sbin", "/sbin"])
    work = folder / "work"
    work.mkdir()
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(
            ["bash", "-c", text],
            cwd=work,
            env=os.environ | {"PATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(PAGE_LIMIT_S)
        finally:
            end_session(process.pid)
            process.wait()
        output.seek(0)
        return subprocess.CompletedProcess([], status, output.read(), "")


def end_session(leader: int) -> None:
    """End what is left of a script and what it put into the background."""
    try:
        os.killpg(leader, 15)
    except ProcessLookupError:
        return


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if commands(page)],
    ids=lambda page: str(page.relative_to(DOCS)),
)
def test_the_commands_of_a_page_work_as_they_are_written(page: Path, readable_folder: Path) -> None:
    skip_unless_possible(page)
    done = run_script(script(page), readable_folder)
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_script_that_fails_in_the_middle_fails(readable_folder: Path) -> None:
    done = run_script("set -eu\necho first\nfalse\necho second\n", readable_folder)
    assert done.returncode == 1
    assert done.stdout == "first\n"


def test_the_tutorial_and_most_how_tos_have_commands_that_are_run() -> None:
    assert "perpacket profile" in commands(DOCS / "tutorial.md")
    assert sum(bool(commands(page)) for page in PAGES) >= 8


PATH = re.compile(r"`((?:[\w.*-]+/)+[\w.*-]*|[\w-]+\.(?:py|rs|toml|md))`")
PATH_ROOTS = ("", "crates/**", "python/perpacket/**")
"""A path in backquotes, and the places of the repository that one may begin at."""


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
    """What a browser fetches for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        names = {"script": "src", "img": "src", "link": "href", "iframe": "src"}
        address = given.get(names.get(tag, ""))
        if address and given.get("rel") not in ("canonical", "author", "next", "prev"):
            self.addresses.append(address)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents as pages, built with warnings as errors."""
    folder = tmp_path_factory.mktemp("pages")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    command += ["--doctree-dir", str(folder / "trees"), str(DOCS), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_the_documents_build_and_every_page_is_there(built: Path) -> None:
    sources = [page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")]
    missing = [str(page) for page in sources if not (built / page).is_file()]
    assert not missing


def test_the_pages_fetch_nothing_from_elsewhere(built: Path) -> None:
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
