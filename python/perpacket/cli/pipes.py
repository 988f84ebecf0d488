"""Writing to a reader who may have gone, as `| head` and `| true` do.

A verb whose reader has gone still does its work, and its exit status still says what it found: a
check that passes must not turn red because nobody read its table.
"""

from __future__ import annotations

import os
from typing import TextIO


def write(stream: TextIO, text: str) -> None:
    """Write at once; once the reader has gone, nowhere. Raises `OSError` for any other reason."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        discard(stream)


def discard(stream: TextIO) -> None:
    """Let all that is still written to a stream go nowhere, what waits in it included."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
