"""ip(8) and tc(8), run inside a namespace."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings import Gone
from perpacket.errors import ConfigurationError, MachineLacks

LONGEST_S = 10.0
"""Time limit of a command."""

SYSTEM_FOLDERS = "/usr/sbin:/sbin:/usr/bin:/bin"


def run(scope: NetworkScope, command: Sequence[str], title: str) -> str:
    """The output of a command of iproute2 in the scope's namespace.

    Raises `MachineLacks` without the program or the right, `Gone` without the interface, and
    `ConfigurationError` for anything else that the command refuses.
    """
    program = shutil.which(command[0]) or shutil.which(command[0], path=SYSTEM_FOLDERS)
    if program is None:
        raise MachineLacks(f"{title}: there is no program {command[0]}", "install iproute2")

    def inside() -> subprocess.CompletedProcess[str]:
        words = [program, *command[1:]]
        return subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_S, check=False)

    done = scope.inside(inside)
    if done.returncode == 0:
        return done.stdout
    reason = (done.stderr.strip().splitlines() or ["it printed nothing"])[0]
    if "Cannot find device" in reason or "No such device" in reason:
        raise Gone(f"{title}: the interface no longer exists")
    if "not permitted" in reason or "Permission" in reason:
        raise MachineLacks(f"{title}: {reason}", "run as root")
    raise ConfigurationError(f"{title}: {' '.join(command)}: {reason}", value=" ".join(command))
