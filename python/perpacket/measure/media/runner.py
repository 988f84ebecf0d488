"""The testbed and the media of a study of media servers."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

from perpacket.errors import MachineLacks
from perpacket.measure.active_setup import ActiveSetup
from perpacket.measure.hosts.contract import Testbed
from perpacket.measure.media import disk
from perpacket.measure.media.memory import MemoryGroup, memory_group
from perpacket.measure.media.plan import MediaPlan, read_media_plan
from perpacket.measure.media.programs import CLIENTS_PER_PROCESS
from perpacket.measure.media.runs import MediaRun, MediaSetup
from perpacket.measure.web.files import PREFIX
from perpacket.measure.web.plan import RunPlan, parameters_of
from perpacket.measure.web.runner import (
    check_agents,
    facts,
    identity,
    may_sample,
    open_testbed,
    probed,
)
from perpacket.study.point import Point
from perpacket.study.runner import Run, SetupDescription

DESCRIPTORS_BESIDE = 64
SOCKETS_PER_CLIENT = 3
SOCKETS_PER_SESSION = 2
"""A client has its connection and two for datagrams, the server's end a connection and one."""

NO_GROUP = (
    "The server's memory was not limited, which takes a control group that can be written: "
    "multiple media were only dropped from the page cache before each run"
)

OpenTestbed = Callable[[RunPlan], AbstractContextManager[Testbed]]


class MediaRunner:
    """Prepares runs of media servers, and owns their testbed."""

    def __init__(self, open_testbed: OpenTestbed = open_testbed) -> None:
        """A runner that finds its testbed with `open_testbed`."""
        self._open = open_testbed
        self._setup = ActiveSetup[MediaSetup]()

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that its points may have."""
        return parameters_of(MediaPlan)

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point; raises `ConfigurationError` when its parameters are wrong."""
        return MediaRun(point, read_media_plan(point), self._setup)

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        """Set up the testbed and the media of `points`.

        Raises `MachineLacks` when no testbed can be had or the media have no room, `RunFailed` when
        they cannot be made, and `ConfigurationError` when the parameters of a point are wrong.
        """
        plans = {point.name: read_media_plan(point) for point in points}
        left_out = impossible(plans)
        possible = [plan for name, plan in plans.items() if name not in left_out]
        if not possible:
            raise MachineLacks(
                f"nothing of this study can run here: {next(iter(left_out.values()))}"
            )
        with ExitStack() as stack:
            testbed = stack.enter_context(self._open(possible[0]))
            check_agents(testbed)
            server = testbed.server
            media = stack.enter_context(disk.media_files(server, possible))
            memory = stack.enter_context(memory_group(server, f"{PREFIX}{server.holder()}"))
            known = probed(server)
            setup = MediaSetup(testbed, media, memory, may_sample(known, possible))
            slowed = any(media.read_delay_ms(plan) for plan in possible)
            disk_fact = {"slow_disk": "emulated" if slowed else "none or the machine's own"}
            found = facts(testbed, None, known)
            found["limits"] = [*testbed.limits, *_sentences(media, memory, possible)]
            found["disk_read_ms"] = media.read_ms
            with self._setup.use(setup):
                yield SetupDescription(identity(testbed, None) | disk_fact, found, left_out)


def _sentences(media: disk.Media, memory: MemoryGroup, plans: list[MediaPlan]) -> list[str]:
    """The report's sentences about the disk and the memory."""
    from_disk = [plan for plan in plans if plan.distribution == "multiple"]
    if not from_disk:
        return []
    return media.sentences(from_disk) + ([] if memory.can_limit else [NO_GROUP])


def impossible(plans: Mapping[str, MediaPlan]) -> dict[str, str]:
    """The points that cannot run here, and why."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    reasons: dict[str, str] = {}
    for name, plan in plans.items():
        clients = SOCKETS_PER_CLIENT * min(plan.clients, CLIENTS_PER_PROCESS)
        needed = max(clients, SOCKETS_PER_SESSION * plan.clients) + DESCRIPTORS_BESIDE
        # The agent raises the limit itself where it may; machines over ssh have their own.
        may_raise = os.geteuid() == 0 or plan.testbed == "ssh" or hard == resource.RLIM_INFINITY
        if needed > hard and not may_raise:
            reasons[name] = (
                f"{plan.clients} streams need up to {needed} files open in a process, and {hard} "
                "are allowed here: raise the hard limit (`ulimit -Hn`)"
            )
    return reasons
