"""The command line: one file for each verb, each a thin wrapper on the library.

    app.py          all verbs, and the handling of errors
    destination.py  checks that output files can be written
    failure.py      exit statuses and messages of errors
    options.py      options that several verbs share
    output.py       tables and JSON on standard output
    pipes.py        writing to a pipe that the reader may have closed
    progress.py     bars on standard error
    termination.py  SIGTERM, handled like Ctrl-C

The verbs import heavy packages in their functions, so that help and version are fast.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""The exit status after Ctrl-C, which `failure` would import."""


def main() -> None:
    """Run the command line and exit with its status; the entry point of `perpacket`."""
    try:
        from perpacket.cli.app import run

        status = int(run())
    except KeyboardInterrupt:  # also while modules are imported
        sys.stderr.write("error: interrupted\n")
        status = INTERRUPTED
    raise SystemExit(status)
