"""The recipes of docs/howto/ci.md: their own steps find a change of a server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from a_server import HTTP
from perpacket_lab.emulate import debian
from perpacket_lab.emulate.install import debian_source, description
from perpacket_lab.emulate.session import Session
from test_emulation_compare import document, instructions

RECIPES = Path(__file__).parents[1] / "examples" / "ci"
COMPARE = "perpacket emulate compare"


PACKAGES = "base-files libc-bin bash coreutils findutils grep sed mawk tar gzip dash dpkg apt"
"""What an image of Debian has, as far as the recipes need it."""

AS_ROOT = """
ln -sf mawk {root}/usr/bin/awk
ln -sf gcc {root}/usr/bin/cc
mkdir -p {root}/etc/apt/apt.conf.d {root}/etc/ssl/certs {root}/usr/share/keyrings {root}/root
mkdir -p {root}/var/lib/dpkg/info {root}/var/lib/apt/lists/partial {root}/wheels
cp -L /etc/ssl/certs/ca-certificates.crt {root}/etc/ssl/certs/
cp -L /etc/hosts /etc/resolv.conf {root}/etc/
cp /etc/apt/apt.conf.d/* {root}/etc/apt/apt.conf.d/
cp /usr/share/keyrings/debian-archive-* {root}/usr/share/keyrings/
cp dist/*.whl {root}/wheels/
echo 'root:x:0:0::/root:/bin/bash' >{root}/etc/passwd
echo '_apt:x:100:65534::/nonexistent:/bin/false' >>{root}/etc/passwd
touch {root}/var/lib/dpkg/status
ldconfig -r {root}
chmod 1777 {root}/tmp
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
chroot {root} apt-get update -q
chroot {root} bash -eo pipefail -c "$INSTALL"
"""
"""Makes an unpacked root like an image after the step `Install`. `dist` has the wheels."""


@dataclass(frozen=True)
class Recipe:
    """The steps of a recipe after the installation, and its variables."""

    steps: tuple[str, ...]
    variables: Mapping[str, str]
    base: str
    """The variable that has the commit before the change."""

    def run(self, steps: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run steps in a folder, as the shell of both services does."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", steps],
            cwd=folder,
            env={**os.environ, **self.variables, "PATH": path, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def run_in(self, root: Path, folder: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run all steps in a root, as a user without privileges."""
        steps = " set -eo pipefail; cd " + folder + "\n" + "\n".join(self.steps)
        user = ["chroot", "--userspec=1000:1000", str(root), "bash", "-c", steps]
        path = "/opt/perpacket/bin:/usr/bin:/usr/sbin"
        own = {**self.variables, "PATH": path, "HOME": folder, **variables}
        return subprocess.run(user, env=own, capture_output=True, text=True, check=False)

    @property
    def compare(self) -> str:
        """The step that compares."""
        (step,) = (step for step in self.steps if COMPARE in step)
        return step


def github() -> Recipe:
    recipe: Any = yaml.safe_load((RECIPES / "github.yml").read_text())
    (job,) = recipe["jobs"].values()
    steps = [
        step["run"] for step in job["steps"] if step.get("name") != "Install" and "run" in step
    ]
    assert {"uses", "if", "with"} <= job["steps"][-1].keys()
    return Recipe(tuple(steps), recipe["env"], "BASE")


def gitlab() -> Recipe:
    recipe: Any = yaml.safe_load((RECIPES / "gitlab.yml").read_text())
    (job,) = recipe.values()
    # A job that exits with this status is a warning.
    assert job["allow_failure"] == {"exit_codes": 5}
    return Recipe(tuple(job["script"]), job["variables"], "CI_MERGE_REQUEST_DIFF_BASE_SHA")


both = pytest.mark.parametrize("recipe", [github, gitlab])


def saved(scale: float, variants: int) -> dict[str, Any]:
    emulation = document(scale)
    return emulation | {"variants": variants, "by_variant": emulation["by_variant"][:variants]}


@both
@pytest.mark.parametrize(
    ("scale", "variants", "status"), [(1.0, 5, 0), (1.1, 5, 1), (1.1, 1, 5), (1.001, 5, 0)]
)
def test_the_comparison_decides_the_status_of_the_job(
    recipe: Callable[[], Recipe], scale: float, variants: int, status: int, tmp_path: Path
) -> None:
    for name, own in (("base", 1.0), ("new", scale)):
        (tmp_path / f"{name}.json").write_text(json.dumps(saved(own, variants)))
    done = recipe().run(recipe().compare, tmp_path)
    is_warning = recipe is github and status == 5
    assert done.returncode == (0 if is_warning else status), done.stderr
    assert ("::warning::" in done.stdout) == is_warning
    assert (tmp_path / "difference.svg").read_text().startswith("<svg")


def commit(folder: Path, program: bytes, *others: str) -> str:
    """Commit a server and other files, and return the commit's name."""
    folder.mkdir(exist_ok=True)
    (folder / "server.c").write_bytes(program)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run([*git, "add", "server.c", *others], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Change it"], check=True)
    done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An image of Debian 13 after the step that installs perpacket."""
    if os.geteuid() != 0:
        pytest.skip("root: only it can unpack an image and enter it")
    job: Any = yaml.safe_load((RECIPES / "github.yml").read_text())["jobs"]["price"]
    (install,) = (step["run"] for step in job["steps"] if step.get("name") == "Install")
    words, _, further = install.replace("\\\n", " ").partition("recommends")[2].partition("\n")
    further = further.partition("echo /opt")[0]
    root = tmp_path_factory.mktemp("image") / "root"
    debian.suite("trixie", "amd64").unpack_all([*PACKAGES.split(), *words.split()], root)
    subprocess.run(["make", "--silent", "wheels"], cwd=RECIPES.parents[1], check=True)
    sources = root / "etc/apt/sources.list.d/debian.sources"
    sources.parent.mkdir(parents=True, exist_ok=True)
    sources.write_text(description("trixie", debian_source()))
    try:
        subprocess.run(
            ["bash", "-e", "-c", AS_ROOT.replace("{root}", str(root))],
            cwd=RECIPES.parents[1],
            env={**os.environ, "WHEELS": "/wheels", "HOME": "/root", "INSTALL": further},
            check=True,
        )
        yield root
    finally:
        for name in ("dev", "proc"):
            subprocess.run(["umount", "--lazy", str(root / name)], check=False)


@both
@pytest.mark.full
def test_the_steps_need_no_privileges_and_no_other_packages(
    image: Path, recipe: Callable[[], Recipe]
) -> None:
    name = f"/project-{recipe.__name__}"
    project = Path(f"{image}{name}")
    project.mkdir()
    (project / "Makefile").write_text("server: server.c\n\t$(CC) -O2 -w -o $@ $<\n")
    base = commit(project, HTTP, "Makefile")
    commit(project, instructions(1000))
    shutil.chown(project, 1000, 1000)
    for path in project.rglob("*"):
        os.chown(path, 1000, 1000)
    variables = {recipe().base: base, "OLD": f"/tmp/old-{recipe.__name__}"}
    if recipe is gitlab:
        variables["XDG_CACHE_HOME"] = f"{name}/.cache"
    for _ in range(2):
        begun = time.monotonic()
        done = recipe().run_in(image, name, **variables)
        print(f"{recipe.__name__}: {time.monotonic() - begun:.0f} s")
        assert done.returncode == 1, done.stderr
        assert "user changed most, by +1," in done.stdout
        shutil.rmtree(f"{image}{variables['OLD']}")
        (project / "server").unlink()


@both
@pytest.mark.full
@pytest.mark.parametrize(("number", "status"), [(1, 0), (1000, 1)])
def test_all_steps_find_a_change_that_costs_over_one_percent(
    session: Session, recipe: Callable[[], Recipe], number: int, status: int, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    base = commit(project, HTTP)
    commit(project, instructions(number))
    variables = {
        recipe().base: base,
        "OLD": str(tmp_path / "old"),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(session.machine.folder.parents[3]),
    }
    done = recipe().run("\n".join(recipe().steps), project, **variables)
    assert done.returncode == status, done.stderr
    new, old = (json.loads((project / f"{name}.json").read_text()) for name in ("new", "base"))
    assert new["state"] == old["state"]


@pytest.mark.full
def test_git_bisect_finds_the_commit_that_made_requests_dearer(
    session: Session, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    commits = [commit(project, HTTP)]
    for number in range(1, 7):
        program = instructions(300) if number >= 4 else HTTP
        commits.append(commit(project, program + f"/* {number} */".encode()))
    (project / "server").unlink(missing_ok=True)
    variables = {
        "BUILD": "cc -O2 -w -o server server.c",
        "BASE": str(tmp_path / "base.json"),
        "OPTIONS": "--requests 50 --warmup-requests 50 --replications 3",
        "XDG_CACHE_HOME": str(session.machine.folder.parents[3]),
    }
    run = Recipe((), {}, "BASE").run
    steps = f"""
        git checkout -q {commits[0]}
        $BUILD
        perpacket emulate --server './server {{port}}' --connections 1 $OPTIONS --save "$BASE"
        git bisect start {commits[-1]} {commits[0]}
        git bisect run {RECIPES / "bisect.sh"}
    """
    done = run(steps, project, **variables)
    assert done.returncode == 0, done.stderr
    assert f"{commits[4]} is the first bad commit" in done.stdout
