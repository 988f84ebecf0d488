"""GStreamer's RTSP server as a server under test, from the system's packages.

The server is a program for the system's Python (`gstreamer_server.py`). The command to start it
contains the program's text, so nothing is installed on the host.
"""

from __future__ import annotations

from importlib.resources import files

from perpacket.measure.hosts.contract import Host

PACKAGES = (
    "gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-plugins-good gstreamer1.0-plugins-bad"
)
"""The packages of Debian with the server, its bindings, `rtpmp2tpay` and `tsparse`."""

PYTHON = "/usr/bin/python3"
"""The system's Python: other Pythons do not have GStreamer's bindings."""

CHECK_S = 60.0
"""Time limit of the check: GStreamer examines its plugins at its first start."""


def lack(host: Host) -> str:
    """The reason why the server cannot run on a host; empty if it can."""
    look = ["sh", "-c", 'command -v "$0" > /dev/null && exec "$0" -c "$1"', PYTHON, _program()]
    done = host.run(look, timeout_s=CHECK_S)
    if done.returncode == 0:
        return ""
    reason = (done.stderr.strip().splitlines() or [f"there is no {PYTHON}"])[-1]
    return (
        f"{host.name} has no RTSP server of GStreamer ({reason}): install it (Debian: {PACKAGES})"
    )


def serve(host: Host, root: str) -> list[str]:
    """The command of the server for the media of a folder, on a port of its own choice."""
    return [PYTHON, "-c", _program(), root, host.address]


def _program() -> str:
    return (files(__package__) / "gstreamer_server.py").read_text(encoding="utf-8")
