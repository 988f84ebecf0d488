"""The processor time and the wall time of a fresh `make setup`, of two versions in alternation.

    .venv/bin/python benches/setup_time.py COMMIT HEAD --rounds 5
    .venv/bin/python benches/setup_time.py ../before ../after

A version is a folder with a repository, or a commit of this one. Each round clones each version
into an empty folder and runs `make setup` there; the first version alternates. The processor time
is that of all processes of `make`, user and system. The package caches of pip and cargo are those
of the user, so run once before to fill them. The bar is two thirds of the earlier processor time.
The exit status is 1 if the bar is refuted.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from perpacket.analysis.statistics import median, paired_ratio

BAR = 2 / 3
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Version:
    """What to clone: a repository and a commit of it."""

    repository: Path
    commit: str


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of a set-up in seconds."""

    processor_s: float
    wall_s: float


def version(text: str) -> Version:
    """The version that an argument names.

    Raises `argparse.ArgumentTypeError` when it is neither a repository nor a commit.
    """
    repository, name = (Path(text), "HEAD") if Path(text).is_dir() else (ROOT, text)
    command = ["git", "-C", repository, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a repository nor a commit")
    return Version(repository.resolve(), done.stdout.strip())


def set_up(chosen: Version) -> Spent:
    """Clone a version and run `make setup` in the clone."""
    with tempfile.TemporaryDirectory(prefix="perpacket-setup-") as folder:
        for command in (
            ["git", "clone", "--quiet", "--no-checkout", chosen.repository, folder],
            ["git", "-C", folder, "checkout", "--quiet", "--detach", chosen.commit],
        ):
            subprocess.run(command, check=True)
        before, began_s = children_s(), time.monotonic()
        subprocess.run(["make", "--silent", "-C", folder, "setup"], check=True, stdout=sys.stderr)
        return Spent(children_s() - before, time.monotonic() - began_s)


def children_s() -> float:
    """The processor time of all ended children and their descendants, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("before", type=version, help="a repository, or a commit of this one")
    options.add_argument("after", type=version, help="a repository, or a commit of this one")
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    print(f"Linux {platform.release()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    before: list[Spent] = []
    after: list[Spent] = []
    sides = [(before, arguments.before), (after, arguments.after)]
    for number in range(arguments.rounds):
        for spent, chosen in sides[:: -1 if number % 2 else 1]:
            spent.append(set_up(chosen))
            print(f"{chosen.commit[:10]}: {spent[-1]}", file=sys.stderr)
    for name in ("processor_s", "wall_s"):
        new, old = ([getattr(each, name) for each in spent] for spent in (after, before))
        print(f"{name}: before {median(old)}, after {median(new)}")
        print(f"  after / before {paired_ratio(new, old).text(3)}")
    ratio = paired_ratio([one.processor_s for one in after], [one.processor_s for one in before])
    print(f"bar: at most {BAR:.2f} of the processor time")
    sys.exit(int(ratio.low > BAR))


if __name__ == "__main__":
    main()
