"""A pair of commands of the user: one changes something, the other undoes it.

Nothing in the kernel shows which of the two ran last. Therefore a file beside the journal exists
from before the first command until the second command has succeeded.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
import time
from pathlib import Path

from perpacket import private
from perpacket.advise.network_scope import NetworkScope
from perpacket.errors import ConfigurationError, RunFailed
from perpacket.whole_file import write_whole

DONE, UNDONE = "done", "undone"

LONGEST_S = 60.0
"""Time limit of a command."""


class Command:
    """A setting with the value `done` from the start of one command to the end of the other."""

    is_readable = True

    def __init__(self, scope: NetworkScope, do: str, undo: str, marker: str = "") -> None:
        """The commands, for the shell, in the scope's namespace."""
        self.scope, self.do, self.undo = scope, do, undo
        name = f"command-{os.getpid()}-{secrets.token_hex(4)}"
        self.marker = Path(marker) if marker else private.journal_folder() / name

    def title(self) -> str:
        """The command that changes something."""
        return f"`{self.do}`"

    def read(self) -> str:
        """The state, from the existence of the file."""
        return DONE if self.marker.exists() else UNDONE

    def normal(self, value: str) -> str:
        """The value unchanged, because states have only one form."""
        return value

    def check(self, value: str) -> None:
        """Raise `ConfigurationError` if one of the two commands is missing."""
        if not self.do.strip() or not self.undo.strip():
            raise ConfigurationError(
                "--do and --undo: both commands are needed",
                parameter="--do",
                allowed="for example --do 'systemctl start X' --undo 'systemctl stop X'",
            )

    def write(self, value: str) -> None:
        """Run the command of a state; raises `RunFailed` if it fails or takes too long."""
        if value == DONE:
            private.made(self.marker.parent)
            write_whole(self.marker, "")
            self._run(self.do)
        else:
            self._end_first()
            self._run(self.undo)
            self.marker.unlink(missing_ok=True)

    def _run(self, command: str) -> None:
        """Run a command in a shell; the shell of `do` writes its process id to the marker file."""
        # Background programs keep the output open. Reading a pipe would wait for their end.
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            wrapped = 'echo $$ > "$1"; eval "$0"' if command is self.do else 'eval "$0"'

            def inside() -> int:
                words = ["sh", "-c", wrapped, command, str(self.marker)]
                return subprocess.run(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=LONGEST_S,
                    check=False,
                ).returncode

            try:
                status = self.scope.inside(inside)
            except subprocess.TimeoutExpired:
                raise RunFailed(
                    f"`{command}` did not end within {LONGEST_S:g} s",
                    "put `&` at the end of a command that keeps running",
                ) from None
            output.seek(0)
            words = output.read().strip().splitlines()
        if status:
            last = f": {words[-1]}" if words else ""
            raise RunFailed(
                f"`{command}` ended with status {status}{last}",
                "both commands must end with status 0: try them in a shell first",
            )

    def _end_first(self) -> None:
        """Wait until the first command has ended, because a killed trial leaves it running."""
        end_s = time.monotonic() + LONGEST_S
        while time.monotonic() < end_s:
            try:
                number = self.marker.read_text().strip()
                words = Path(f"/proc/{number}/cmdline").read_bytes() if number else b""
            except OSError:
                return
            if str(self.marker).encode() not in words:
                return
            time.sleep(0.02)

    def command(self, value: str) -> str:
        """The command of a state."""
        return self.scope.shell(self.do if value == DONE else self.undo)

    def permanent(self, value: str) -> str | None:
        """None, because perpacket does not know the effect of the command."""
        return None

    def record(self) -> dict[str, str]:
        """The entry of the journal from which the setting can be opened again."""
        return {"kind": "command", "do": self.do, "undo": self.undo, "marker": str(self.marker)}
