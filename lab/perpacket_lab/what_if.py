"""The runs of `perpacket study run what-if`: changes of the catalogue under generated loads.

    set up:  testbed | which changes can be applied here | journal, guardian
    a run:   apply the point's changes | server, load, window | restore

Each run is a run of `measure.web` with some changes applied before its server starts. Points with
the changes `best` run after all other points. The results of the other points select these changes.
The windows that select a change are therefore not the windows that measure its gain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from perpacket.advise import catalogue, journal, servers, settings
from perpacket.advise.journal import TrialSettings
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings import Setting
from perpacket.advise.trial import NOTHING
from perpacket.analysis.claim import Relation, Verdict, judge
from perpacket.analysis.statistics import DEFAULT_CONFIDENCE
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.hosts.local import LocalHost
from perpacket_lab.analysis.estimates import IDLE, Estimates
from perpacket_lab.analysis.tried_changes import BEST, PARAMETER, corrected
from perpacket_lab.measure.hosts.network import DEVICE
from perpacket_lab.measure.measured_run import Measurement
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.programs import Answer
from perpacket_lab.measure.summary import number, numbers, sum_of
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.measure.web.web_run import WebRun, WebSetup
from perpacket_lab.measure.web.web_runner import WebRunner
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import Rows
from perpacket_lab.study.runner_interfaces import SecondStage, SetupDescription

SEPARATOR = "+"
"""Separates the changes of one point."""

MOST_CHOSEN = 3
"""The most changes that a point with the changes `best` has."""

COST = "cost.cpu_us_per_unit"
"""The quantity that selects these changes."""

KIB = 1024

HEADER_BYTES = 14 + 20 + 32
"""The headers of a frame: Ethernet, IPv4, and TCP with timestamps."""

SERVERS = {"perpacket": servers.SERVE_WEB, "nginx": servers.NGINX}
"""The catalogue's name of each server of a plan."""

Costs = dict[str, object]
"""The keys `cost` and `layers` of an observation."""


class WhatIfPlan(WebPlan):
    """A run of a web server or the bulk sender with changes of the catalogue."""

    changes: str = Field(alias=PARAMETER, default="")
    """The changes, such as `tso=off+gro=on`; `best` for the best ones of other points."""

    @property
    def unchanged(self) -> WhatIfPlan:
        """The same run without changes."""
        return self.model_copy(update={"changes": ""})


@dataclass(frozen=True, slots=True)
class WhatIfSetup(WebSetup):
    """The testbed, and the session that applies and restores settings."""

    session: TrialSettings | None = None
    """None if no change of the study is a setting."""
    numbers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The steps of the session that apply a change."""
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The changes that were selected for each point with the changes `best`."""

    @contextmanager
    def applied(self, changes: Sequence[str]) -> Iterator[None]:
        """Apply these changes inside the context."""
        steps = [number for text in changes for number in self.numbers.get(text, ())]
        if self.session is None or not steps:
            yield
            return
        try:
            self.session.apply(steps)
            yield
        finally:
            self.session.restore(steps)


class WhatIfRun(WebRun):
    """A prepared run with changes."""

    plan: WhatIfPlan

    def measure(self, setup: WebSetup) -> Measurement:
        """Apply the changes, measure, and restore."""
        assert isinstance(setup, WhatIfSetup)
        plan = self.plan
        changes = setup.chosen[self.point.name] if plan.changes == BEST else split(plan.changes)
        self.plan = with_options(plan, changes)
        with setup.applied(changes):
            result, raw = super().measure(setup)
        profile, loads = raw["profile"], raw["load"]
        assert isinstance(profile, dict)
        assert isinstance(loads, list)
        cost = costs(result, profile, loads)
        return {**result, **cost, "changes": SEPARATOR.join(changes)}, raw


class WhatIfRunner(WebRunner):
    """Prepares runs with changes."""

    plan_type: ClassVar[type[WebPlan]] = WhatIfPlan
    run_type: ClassVar[type[WebRun]] = WhatIfRun

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        """Set up the testbed, and the session with every setting of `points`.

        Leaves out the points whose changes cannot be applied here. Raises what `WebRunner.set_up`
        and `journal.begin` raise.
        """
        plans = {point.name: validated(WhatIfPlan, point) for point in points}
        with super().set_up(points) as described, ExitStack() as stack:
            testbed = self.setup().direct
            lacks = {name: lack for name, plan in plans.items() if (lack := lack_of(plan, testbed))}
            texts = {
                text
                for name, plan in plans.items()
                if name not in lacks and plan.changes != BEST
                for text in split(plan.changes)
            }
            steps: list[tuple[Setting, str]] = []
            numbers_of: dict[str, list[int]] = {}
            for text in sorted(texts):
                for step in settings_of(text, testbed):
                    numbers_of.setdefault(text, []).append(len(steps))
                    steps.append(step)
            session = stack.enter_context(journal.begin(steps)) if steps else None
            own = self.setup()
            setup = WhatIfSetup(
                **{each.name: getattr(own, each.name) for each in fields(WebSetup)},
                session=session,
                numbers=numbers_of,
            )
            stack.enter_context(self.using(setup))
            stage = second_stage(points, plans, setup.chosen)
            left_out = {**lacks, **described.left_out}
            yield replace(described, left_out=left_out, second_stage=stage)


def split(changes: str) -> tuple[str, ...]:
    """The changes of a plan, without those that change nothing."""
    return tuple(text for text in changes.split(SEPARATOR) if text not in ("", NOTHING))


def with_options(plan: WhatIfPlan, changes: Sequence[str]) -> WhatIfPlan:
    """The plan with the options of its server that are among the changes."""
    options = [plan.server_options, *(option_of(text, plan) or "" for text in changes)]
    return plan.model_copy(update={"server_options": " ".join(filter(None, options))})


def option_of(text: str, plan: WhatIfPlan) -> str | None:
    """The option of the plan's server for a change; None if the change is no option of it."""
    change, value = catalogue.find(text)
    kind = SERVERS.get(plan.server_kind, "") if plan.is_web else ""
    return change.option(kind, value)


def lack_of(plan: WhatIfPlan, testbed: Testbed) -> str:
    """The reason why the changes of a plan cannot be tried here; empty if they can."""
    for text in () if plan.changes == BEST else split(plan.changes):
        try:
            if option_of(text, plan) is not None:
                continue
            change, _ = catalogue.find(text)
            if change.setting is None:
                return f"{text}: it is no option of this server"
            for setting, value in settings_of(text, testbed):
                setting.check(value)
                if setting.read() == setting.normal(value):
                    return f"{text}: the setting has this value already"
        except (MachineLacks, ConfigurationError, RunFailed) as error:
            return f"{text}: {error}"
    return ""


def settings_of(text: str, testbed: Testbed) -> list[tuple[Setting, str]]:
    """The settings of a change and their value; none for an option of a server.

    Raises `MachineLacks` on hosts without a network namespace of their own, because they have the
    settings of the machine.
    """
    change, value = catalogue.find(text)
    if change.setting is None:
        return []
    both = change.setting["kind"] in settings.BOTH_ENDS
    hosts = [testbed.server, *(testbed.clients if both else ())]
    return [(settings.open(change.setting, scope_of(host)), value) for host in hosts]


def scope_of(host: Host) -> NetworkScope:
    """The network namespace of a host, and its interface."""
    if not isinstance(host, LocalHost) or host.namespace is None:
        raise MachineLacks(
            f"{host.name} has no network namespace of its own, and the study changes no setting of "
            "a machine",
            "be root, and run it with `--testbed namespaces`",
        )
    return NetworkScope(DEVICE, Path(f"/proc/self/fd/{host.namespace}"))


def second_stage(
    points: Sequence[Point],
    plans: Mapping[str, WhatIfPlan],
    chosen: dict[str, tuple[str, ...]],
) -> SecondStage:
    """The stage of the points with the best changes and their baselines; fills `chosen` first."""
    best = [point for point in points if plans[point.name].changes == BEST]
    names = frozenset(point.name for point in best)
    beside = frozenset(point.against for point in best if point.against is not None)
    return SecondStage(
        names | beside, lambda rows: chosen.update(choices(points, plans, names, rows))
    )


def choices(
    points: Sequence[Point], plans: Mapping[str, WhatIfPlan], chosen: frozenset[str], rows: Rows
) -> dict[str, tuple[str, ...]]:
    """The changes of each point in `chosen`, selected from the rows of the other points.

    A point that has run keeps its changes, so that all its runs have the same.
    """
    by_point = {}
    for name in chosen:
        earlier = next(iter(rows.get(name, {}).values()), None)
        if earlier is not None:
            by_point[name] = split(str(earlier["changes"]))
            continue
        alone = [
            point
            for point in points
            if point.against is not None
            and point.name not in chosen
            and plans[point.name].unchanged == plans[name].unchanged
        ]
        if not any(point.name in rows for point in alone):
            raise ConfigurationError(
                f"point {name}: no change was measured under its load, so none can be chosen",
                hint="run the whole study, without --only",
            )
        by_point[name] = cheapest(alone, plans, rows)
    return by_point


def cheapest(
    alone: Sequence[Point], plans: Mapping[str, WhatIfPlan], rows: Rows
) -> tuple[str, ...]:
    """The changes that were clearly cheaper than none, the cheapest first, at most `MOST_CHOSEN`.

    Of two values of one change, only the cheaper one is in the list.
    """
    estimates = Estimates(rows, corrected(DEFAULT_CONFIDENCE, len(alone)))
    ratios = []
    for point in alone:
        ratio = estimates.ratio(point.name, str(point.against), COST)
        if (
            ratio is not None
            and judge(ratio, Relation.RATIO) is Verdict.LOWER
            and split(plans[point.name].changes)
        ):
            ratios.append((ratio.value, plans[point.name].changes))
    best: dict[str, str] = {}
    for _, text in sorted(ratios):
        best.setdefault(text.partition("=")[0], text)
    return tuple(list(best.values())[:MOST_CHOSEN])


def costs(result: Mapping[str, object], profile: Answer, loads: Sequence[Answer]) -> Costs:
    """The processor time of a unit of work, in total and by layer.

    A unit is a request, or a KiB of payload if there are no requests. Work and time are counted in
    the same window. `serve web` counts its requests. For another server, the number of requests is
    the payload that it sent divided by the payload of a response. The layer `other` includes user
    code of other programs, which is not a cost of the load. Raises `RunFailed` if no work was done.
    """
    frames = number(numbers(profile.get("packets")).get("sent", 0))
    sent = number(numbers(profile.get("bytes")).get("sent", 0)) - HEADER_BYTES * frames
    requests = sum_of(loads, "requests")
    each = sum_of(loads, "bytes") / requests if requests else KIB
    counted = profile.get("requests")
    units = sent / each if counted is None else number(counted)
    if units <= 0:
        raise RunFailed("the server sent nothing in the window, so a unit of work has no cost")
    segments = number(result["segments_per_s"]) * number(result["window_s"]) / units
    others = numbers(numbers(result.get("categories")).get("other_programs"))
    others_us = 1e6 * number(others.get("cpu_s") or 0) / units
    layers: dict[str, object] = {}
    total = 0.0
    for name, layer in numbers(result["layers"]).items():
        assert isinstance(layer, dict)
        own = number(layer.get("cpu_ns_per_segment", 0)) * segments / 1000
        own = max(0.0, own - others_us) if name == "other" else own
        layers[name] = {**layer, "cpu_us_per_unit": own}
        total += own if name != IDLE else 0.0
    packets = number(result["packets_per_s"]) * number(result["window_s"]) / units
    cost = {
        "unit": "request" if requests else "KiB",
        "cpu_us_per_unit": total,
        "packets_per_unit": packets,
        "cpu_ns_per_packet": 1000 * total / packets,
    }
    return {"layers": layers, "cost": cost}
