"""Writing to a pipe that the reader may have closed, as `| head` does.

A verb without a reader still finishes its work with the same exit status: a check must not fail
because nobody read its table.
"""

from __future__ import annotations

import os
from typing import TextIO


def write(stream: TextIO, text: str) -> None:
    """Write and flush; discard the text if the reader closed the pipe. Raises other `OSError`s."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        discard(stream)


def discard(stream: TextIO) -> None:
    """Discard the buffer of a stream and all later output to it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
