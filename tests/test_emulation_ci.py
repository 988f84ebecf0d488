"""The recipes of docs/howto/ci.md: their own steps find a change of a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from a_server import HTTP
from perpacket_lab.emulate.session import Session
from test_emulation_compare import document, instructions

RECIPES = Path(__file__).parents[1] / "examples" / "ci"
COMPARE = "perpacket emulate compare"


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


def commit(folder: Path, program: bytes) -> str:
    """Commit a server, and return the commit's name."""
    folder.mkdir(exist_ok=True)
    (folder / "server.c").write_bytes(program)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run([*git, "add", "server.c"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Change it"], check=True)
    done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


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
