"""The command line: one file for each verb, each a thin wrapper on the library.

    app.py          the verbs together, and what happens to errors
    destination.py  whether a file can be written, asked before the work
    failure.py      exit statuses and how errors are shown
    options.py      options that several verbs share
    output.py       tables and JSON on standard output
    pipes.py        writing where the reader may have gone
    progress.py     bars on standard error
    termination.py  SIGTERM, heeded like Ctrl-C

Nothing heavy is imported before a verb needs it: help and version come at once.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its status; the entry point of `perpacket`."""
    from perpacket.cli.app import run

    raise SystemExit(run())
