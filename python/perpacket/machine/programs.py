"""Other programs that studies and tests use, with their Debian packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perpacket import executables
from perpacket.machine.capability import Capability, Check, Group


@dataclass(frozen=True, slots=True)
class Program:
    """A program, the effect of its absence, and its packages."""

    name: str
    cost_of_lack: str
    packages: str


PROGRAMS = (
    Program("nginx", "`serve web` is not compared with nginx", "nginx-light"),
    Program("wrk", "`load http` is not compared with wrk", "wrk"),
    Program("ab", "`load http` is not compared with ab", "apache2-utils"),
    Program("ssh", "no studies over several machines", "openssh-client"),
    Program("sshd", "this machine cannot be one of several that are measured", "openssh-server"),
    Program("unshare", "the right to make network namespaces is unknown", "util-linux"),
    Program("ip", "tests have no routers and interfaces", "iproute2"),
    Program("bird", "routes of the router under test are static, none by RIP", "bird2"),
    Program("ffmpeg", "no other client decodes media streams", "ffmpeg"),
    Program(
        "gst-launch-1.0",
        "media servers are not compared with GStreamer's",
        "gstreamer1.0-tools gstreamer1.0-plugins-good gir1.2-gst-rtsp-server-1.0",
    ),
    Program("chromium", "reports are not tested in a browser", "chromium chromium-driver"),
    Program("valgrind", "the cache model is not tested against cachegrind", "valgrind"),
)


def capabilities(find: Callable[[str], str | None] | None = None) -> list[Capability]:
    """A capability for each program; `find` returns a program's path, or `None`."""
    find_program = find or executables.find
    return [capability_of(program, find_program(program.name)) for program in PROGRAMS]


def capability_of(program: Program, place: str | None) -> Capability:
    """A program as a capability of the machine."""
    check = Check(
        program.name,
        Group.PROGRAMS,
        program.cost_of_lack,
        f"`apt-get install {program.packages}`, or your system's packages of these names",
    )
    return check.result(place is not None, place or "not found")
