"""A process that applies and restores settings in a loop, which a test kills.

It imports once and forks for each line of its input, so that a kill hits the trial and not an
import. It prints the child's process number, and once the child has ended its wait status.
`python trial_driver.py PID INTERFACE [TABLE VALUE]...`; the tables are JSON.
"""

from __future__ import annotations

import json
import os
import sys

from perpacket.advise import journal, settings
from perpacket.advise.network_scope import NetworkScope
from perpacket.errors import RunFailed

FAILED = 4


def change_and_restore(scope: NetworkScope, words: list[str]) -> None:
    """Apply and restore all settings, one after the other, without an end."""
    tables = [json.loads(table) for table in words[::2]]
    changes = [(settings.open(table, scope), value) for table, value in zip(tables, words[1::2])]  # noqa: B905
    everything = range(len(changes))
    with journal.begin(changes) as session:
        while True:
            session.apply(everything)
            session.restore(everything)


def main() -> None:
    """Run a child for each line."""
    scope = NetworkScope.of(int(sys.argv[1]), sys.argv[2])
    for table in sys.argv[3::2]:
        settings.open(json.loads(table), scope).read()  # The children need not import.
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                change_and_restore(scope, sys.argv[3:])
            except RunFailed:
                os._exit(FAILED)
            finally:
                os._exit(1)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
