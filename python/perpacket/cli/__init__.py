"""The command line: one file for each verb, each a thin wrapper on the library.

    app.py          the verbs together, and what happens to errors
    destination.py  whether a file can be written, checked before the work
    failure.py      exit statuses and how errors are shown
    options.py      options that several verbs share
    output.py       tables and JSON on standard output
    pipes.py        writing to a pipe that the reader may have closed
    progress.py     bars on standard error
    termination.py  SIGTERM, handled like Ctrl-C

Heavy packages are imported by the verbs that need them: help and version are fast.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its status; the entry point of `perpacket`."""
    from perpacket.cli.app import run

    raise SystemExit(run())
