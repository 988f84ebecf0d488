"""A process that runs or resumes a study in children, which a test kills.

It imports once and forks for each line of its input, the directory of a run: a child that imports
for itself would spend most of its life on that, and be killed there. It answers with the child's
process id and, once the child has ended, with its wait status. `python killed.py STUDY`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from perpacket.run import start
from perpacket.run.directory import CONFIGURATION, RunDirectory
from perpacket.study import load

WORKERS = 2


def run_or_resume(study: Path, path: Path) -> None:
    """Begin the study in `path`, or go on with it where it was begun."""
    if (path / CONFIGURATION).exists():
        directory = RunDirectory.open(path)
        start.resume(directory.study(), directory, workers=WORKERS)
    else:
        start.run(load.load(study), path, workers=WORKERS)


def main() -> None:
    """Answer until the input ends."""
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
