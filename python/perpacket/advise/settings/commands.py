"""A pair of commands of the user: one changes something, the other undoes it."""

from __future__ import annotations

import subprocess

from perpacket.advise.place import Place
from perpacket.errors import ConfigurationError, RunFailed

DONE, UNDONE = "done", "undone"

LONGEST_S = 60.0
"""A command that takes longer is an error."""


class Command:
    """The state `done` after one command, `undone` after the other. Nothing can read it."""

    is_readable = False

    def __init__(self, place: Place, do: str, undo: str) -> None:
        """The commands, for the shell, in the place's namespace."""
        self.place, self.do, self.undo = place, do, undo

    def title(self) -> str:
        """The command that changes something."""
        return f"`{self.do}`"

    def read(self) -> str:
        """The state before the trial."""
        return UNDONE

    def normal(self, value: str) -> str:
        """States have one form."""
        return value

    def check(self, value: str) -> None:
        """Refuse a pair that lacks one."""
        if not self.do.strip() or not self.undo.strip():
            raise ConfigurationError(
                "--do and --undo: both commands are needed",
                parameter="--do",
                allowed="for example --do 'systemctl start X' --undo 'systemctl stop X'",
            )

    def write(self, value: str) -> None:
        """Run the command of a state; raises `RunFailed` if it fails or takes too long."""
        command = self.command(value)

        def inside() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                ["sh", "-c", command],
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )

        try:
            done = self.place.inside(inside)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"`{command}` did not end within {LONGEST_S:g} s") from None
        if done.returncode:
            words = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise RunFailed(
                f"`{command}` ended with status {done.returncode}"
                + (f": {words[-1]}" if words else "")
            )

    def command(self, value: str) -> str:
        """The command of a state."""
        return self.do if value == DONE else self.undo

    def permanent(self, value: str) -> str | None:
        """The user knows."""
        return None

    def record(self) -> dict[str, str]:
        """The table that opens the setting again."""
        return {"kind": "command", "do": self.do, "undo": self.undo}
