"""Programs of others that studies and tests use, with Debian's names of their packages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from perpacket.machine.capability import Capability, Group, Question

ADMINISTRATORS_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where servers lie; the path of an ordinary user leaves them out."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, what is not possible without it, and the packages it comes in."""

    name: str
    cost_of_lack: str
    packages: str


PROGRAMS = (
    Program("nginx", "no reference to compare `serve web` with", "nginx-light"),
    Program("wrk", "no reference to compare `load http` with", "wrk"),
    Program("ab", "one reference less for `load http`", "apache2-utils"),
    Program("ssh", "no studies over several machines", "openssh-client"),
    Program("sshd", "this machine cannot be one of several that are measured", "openssh-server"),
    Program("unshare", "whether network namespaces can be made is not known", "util-linux"),
    Program("ip", "routers and interfaces are not set up for tests", "iproute2"),
    Program("ffmpeg", "media streams are not decoded by a client of others", "ffmpeg"),
    Program(
        "gst-launch-1.0",
        "media servers are not compared with GStreamer's",
        "gstreamer1.0-tools gstreamer1.0-plugins-good gir1.2-gst-rtsp-server-1.0",
    ),
    Program("chromium", "reports are not tested in a browser", "chromium chromium-driver"),
    Program("valgrind", "the cache model is not tested against cachegrind", "valgrind"),
)


def capabilities(find: Callable[[str], str | None] | None = None) -> list[Capability]:
    """Which are there; `find` says where a program is, None if nowhere."""
    look = find or found
    return [answer(program, look(program.name)) for program in PROGRAMS]


def found(name: str) -> str | None:
    """Where a program is, in the search path or among the administrator's."""
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *ADMINISTRATORS_FOLDERS]
    return shutil.which(name, path=os.pathsep.join(folders))


def answer(program: Program, place: str | None) -> Capability:
    """A program as a capability of the machine."""
    question = Question(
        program.name,
        Group.PROGRAMS,
        program.cost_of_lack,
        f"`apt-get install {program.packages}`, or your system's packages of these names",
    )
    return question.answer(place is not None, place or "not found")
