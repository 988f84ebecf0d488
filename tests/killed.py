"""Runs or resumes a study in child processes, which a test kills.

Usage: `python killed.py STUDY`. Each line of standard input is the directory of a run, for which
the program forks a child. It prints the child's process id and, after the child's end, the wait
status. It imports perpacket before the forks; otherwise the test would usually kill a child during
the import.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from perpacket_lab.run import start
from perpacket_lab.run.directory import CONFIGURATION, RunDirectory
from perpacket_lab.run.threads import ThreadExecutor
from perpacket_lab.study import load

WORKERS = 2


def run_or_resume(study: Path, path: Path) -> None:
    """Begin the study in `path`, or resume it."""
    if (path / CONFIGURATION).exists():
        directory = RunDirectory.open(path)
        start.resume(directory.study(), directory, executor=ThreadExecutor(WORKERS))
    else:
        start.run(load.load(study), path, executor=ThreadExecutor(WORKERS))


def main() -> None:
    """Run a child for each line of the input."""
    study = Path(sys.argv[1])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run_or_resume(study, Path(line.rstrip("\n")))
                status = 0
            finally:
                os._exit(status)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
