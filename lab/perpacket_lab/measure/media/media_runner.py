"""The testbed and the media of a study of media servers."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket_lab.measure.host_files import PREFIX
from perpacket_lab.measure.host_runner import (
    HostRunner,
    check_agents,
    check_server_commands,
    facts,
    identity,
    may_sample,
    open_testbed,
    probed,
)
from perpacket_lab.measure.media import disk, gstreamer
from perpacket_lab.measure.media.media_plan import MediaPlan
from perpacket_lab.measure.media.media_programs import CLIENTS_PER_PROCESS
from perpacket_lab.measure.media.media_run import MediaRun, MediaSetup
from perpacket_lab.measure.media.memory import MemoryGroup, memory_group
from perpacket_lab.measure.plan import RunPlan, named, validated
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import SetupDescription

DESCRIPTORS_BESIDE = 64
SOCKETS_PER_CLIENT = 3
SOCKETS_PER_SESSION = 2
"""A client has a connection and two sockets for datagrams. A session of the server has a connection
and one socket for datagrams."""

NO_GROUP = (
    "The server's memory was not limited, because no control group can be written: multiple media "
    "were only dropped from the page cache before each run"
)

OpenTestbed = Callable[[RunPlan], AbstractContextManager[Testbed]]


class MediaRunner(HostRunner[MediaSetup]):
    """Prepares runs of media servers."""

    plan_type, run_type = MediaPlan, MediaRun

    def __init__(self, open_testbed: OpenTestbed = open_testbed) -> None:
        """A runner that opens its testbed with `open_testbed`."""
        super().__init__()
        self._open = open_testbed

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        """Set up the testbed and the media of `points`.

        Raises `MachineLacks` when there is no testbed or no room for the media, `RunFailed` when
        the media cannot be made, and `ConfigurationError` when the parameters of a point are wrong.
        """
        plans = {point.name: validated(MediaPlan, point) for point in points}
        with ExitStack() as stack:
            testbed = stack.enter_context(self._open(next(iter(plans.values()))))
            check_agents(testbed)
            server = testbed.server
            check_commands(server, plans.values())
            left_out = impossible(plans, server)
            possible = [plan for name, plan in plans.items() if name not in left_out]
            if not possible:
                raise MachineLacks(
                    f"nothing of this study can run here: {next(iter(left_out.values()))}"
                )
            media = stack.enter_context(disk.media_files(server, possible))
            memory = stack.enter_context(memory_group(server, f"{PREFIX}{server.owner()}"))
            known = probed(server)
            setup = MediaSetup(testbed, media, memory, may_sample(known, possible))
            slowed = any(media.read_delay_ms(plan) for plan in possible)
            disk_fact = {"slow_disk": "emulated" if slowed else "none or the machine's own"}
            known_facts = facts(testbed, known, _sentences(media, memory, possible))
            known_facts["disk_read_ms"] = media.read_ms
            with self.using(setup):
                yield SetupDescription(identity(testbed) | disk_fact, known_facts, left_out)


def _sentences(media: disk.Media, memory: MemoryGroup, plans: list[MediaPlan]) -> list[str]:
    """Sentences about the disk and the memory for the report."""
    from_disk = [plan for plan in plans if plan.distribution == "multiple"]
    if not from_disk:
        return []
    texts = media.sentences(from_disk)
    if any(plan.is_foreign and plan.read_ms for plan in from_disk):
        texts.append(
            "Only `serve media` emulates a slow disk: other servers read from the machine's own"
        )
    return texts + ([] if memory.can_limit else [NO_GROUP])


def check_commands(server: Host, plans: Iterable[MediaPlan]) -> None:
    """Raise `ConfigurationError` if a command would replace several servers, or has no program."""
    plans = list(plans)
    commands = [plan.server_command for plan in plans if plan.server_command]
    if commands and len({plan.buffering for plan in plans}) > 1:
        raise ConfigurationError(
            f"{named('server.command')} and server.buffering exclude each other: this study "
            "has servers of its own",
            parameter="server.command",
            value=commands[0],
            hint="use it with the study media-servers",
        )
    check_server_commands(server, commands)


def impossible(plans: Mapping[str, MediaPlan], server: Host) -> dict[str, str]:
    """The points that cannot run here, and why."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    has_peer = any(plan.server_kind == "gstreamer" for plan in plans.values())
    lack_of_peer = gstreamer.lack(server) if has_peer else ""
    reasons: dict[str, str] = {}
    for name, plan in plans.items():
        if plan.server_kind == "gstreamer" and (plan.server_command or lack_of_peer):
            replaces = f"{named('server.command')} replaces `serve media`, not GStreamer's server"
            reasons[name] = replaces if plan.server_command else lack_of_peer
            continue
        clients = SOCKETS_PER_CLIENT * min(plan.clients, CLIENTS_PER_PROCESS)
        needed = max(clients, SOCKETS_PER_SESSION * plan.clients) + DESCRIPTORS_BESIDE
        # The agent raises the limit where it may; machines over ssh have their own limits.
        may_raise = os.geteuid() == 0 or plan.testbed == "ssh" or hard == resource.RLIM_INFINITY
        if needed > hard and not may_raise:
            reasons[name] = (
                f"{plan.clients} streams need up to {needed} files open in a process, and {hard} "
                "are allowed here: raise the hard limit (`ulimit -Hn`)"
            )
    return reasons
