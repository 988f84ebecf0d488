"""One application in a process: `python -m perpacket_lab.measure.applications NAME ADDRESS`.

The application's programs descend from this process, so a profile of the process includes all of
them. The process runs on its parent's processors and in its network namespace, until SIGINT or
SIGTERM.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

from perpacket.errors import PerpacketError
from perpacket_lab.measure import hosts
from perpacket_lab.measure.applications import application_file, running


def main(name: str, address: str) -> int:
    """Start a prepared application, print its URL, and wait for a signal."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            suppress(KeyboardInterrupt),
            hosts.loopback(address=address) as bed,
            running.started(application_file.load(name), bed.server) as folder,
        ):
            print(f"listening on {folder.url}", flush=True)
            running.wait_for_end(folder)
    except PerpacketError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
