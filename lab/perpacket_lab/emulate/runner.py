"""Emulations as points of a study. Each seed has another start of the window and memory layout.

Points that differ only in the size of the second level share one emulation, which models all of
these sizes in one pass. Each kernel has a guest of its own. If a kernel cannot be had, its points
are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket_lab.emulate import debian_kernels, report, runs
from perpacket_lab.emulate.caches import Shape, shape
from perpacket_lab.emulate.guest_changes import GuestChange
from perpacket_lab.emulate.hardware import ONE, Hardware
from perpacket_lab.emulate.moved_lines import COUNTS
from perpacket_lab.emulate.session import Guest, Session, open_session, prepared_session
from perpacket_lab.emulate.settings import Memory, Scenario, Settings
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import FUNCTIONS
from perpacket_lab.study.runner_interfaces import Run, RunOutcome, SetupDescription

FRAMES_PER_S = 1400
"""Frames that a run carries in a second, warm-up, connections and restored state included: the
mean of the kept run in docs/documents, 1.6 million frames in 19.3 minutes on an AMD EPYC."""

FRAMES_PER_REQUEST = 13
"""Frames of a request for 10 KB, with its acknowledgments, for the expected time."""

UNITS = {"bulk": "sent", "web-tls": "sent", "nginx": "request", "web": "request"}
"""The unit of work of servers: a request, or a frame that the card sent; of other servers, a frame
that it received. Kernels acknowledge differently, so the frames of both directions are no unit."""

PER_PACKET = "_per_packet"
LEAST_SHARE = 0.0005
"""The least share of the instructions of a function that a result has."""


STEERING = Path(__file__).parent / "guest" / "steering"
"""Scripts that steer the packets of the server's card, by the name of the setting."""


MachineKey = tuple[str, Hardware]
"""The kernel of a plan, empty for the default one, and the hardware."""


def named(machine: MachineKey) -> str:
    """The name of a machine in the facts of a run."""
    kernel, hardware = machine
    if hardware == ONE:
        return kernel or "default"
    own = f"{hardware.processors} processors, {hardware.queues} queues"
    return f"{kernel or 'default'}, {own}"


class PointPlan(BaseModel):
    """The parameters of one run; the alias is the name in the point."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    kind: Literal["stream", "file"] = Field(alias="load.kind", default="stream")
    """The bulk sender, or clients that request one file."""
    server: str = Field(alias="server.kind", default="")
    """The server; by default the bulk sender or `serve web`, as `kind` requires."""
    connections: int = Field(alias="load.connections", default=1)
    rate_mbps: float = Field(alias="load.rate_mbps", default=0)
    size_bytes: int = Field(alias="load.size_bytes", default=0)
    keep_alive: bool = Field(alias="load.keep_alive", default=True)
    latency_ms: float = Field(alias="network.latency_ms", default=0)
    """Added latency, one way."""
    l1: str = Field(alias="memory.l1", default="64K:2")
    l2_kib: int = Field(alias="memory.l2_kib", default=256)
    l2_ways: int = Field(alias="memory.l2_ways", default=16)
    policy: Literal["non-inclusive", "inclusive", "exclusive"] = Field(
        alias="memory.policy", default="non-inclusive"
    )
    prefetch: Literal["none", "next-line"] = Field(alias="memory.prefetch", default="none")
    processors: int = Field(alias="machine.processors", default=0)
    """The server's processors, with coherent caches; 0 for the machine with one processor."""
    queues: int = Field(alias="machine.queues", default=1)
    steering: str = Field(alias="server.steering", default="none")
    """The script of `guest/steering` that runs before the server starts, or `none`."""
    turn_instructions: int = Field(alias="emulator.turn_instructions", default=20_000)
    frames: int = Field(alias="run.frames", default=6000)
    requests: int = Field(alias="run.requests", default=0)
    """If not 0, the number of requests to count instead of frames."""
    warmup: int = Field(alias="run.warmup", default=0)
    """The frames, or requests, before the window; 0 for a number that grows with connections."""
    kernel: str = Field(alias="emulator.kernel", default="")
    """A kernel of Debian, such as `6.12`; by default that of Debian's package."""
    by: Literal["layer", "function", "structure"] = Field(alias="emulator.by", default="layer")
    offloads: bool = Field(alias="emulator.offloads", default=False)
    """Whether TSO, GSO and GRO stay as the driver sets them."""
    server_options: str = Field(alias="server.options", default="")
    changes: str = Field(alias="trial.changes", default="")
    """Changes of the catalogue, such as `tso=off+gro=on`."""

    @property
    def l2(self) -> Shape:
        """The shape of the second level."""
        return shape("memory.l2_kib", f"{self.l2_kib}K:{self.l2_ways}")

    @property
    def server_name(self) -> str:
        """The server, as `Scenario` names it."""
        return self.server or ("bulk" if self.kind == "stream" else "web")

    def settings(self, sizes: tuple[Shape, ...]) -> Settings:
        """The emulation that models these second levels; raises `ConfigurationError`."""
        return Settings(
            Scenario(
                self.server_name,
                self.connections,
                self.size_bytes,
                self.latency_ms,
                self.rate_mbps,
                self.offloads,
                keep_alive=self.keep_alive,
                server_options=self.server_options,
            ),
            Memory(
                l1=(shape("memory.l1", self.l1),),
                l2=sizes,
                policy=self.policy,
                next_line=self.prefetch == "next-line",
            ),
            frames=self.frames,
            warmup_frames=0 if self.requests else self.warmup,
            requests=self.requests,
            warmup_requests=self.warmup if self.requests else 0,
            changes=tuple(filter(None, self.changes.split("+"))),
            variants=1,
            by=self.by,
            turn_instructions=self.turn_instructions,
            setup=self.setup,
            hardware=self.hardware,
        )

    @property
    def hardware(self) -> Hardware:
        """The machine of the point; raises `ConfigurationError`."""
        return Hardware(self.processors, self.queues)

    @property
    def machine(self) -> MachineKey:
        """The kernel and the hardware of the point."""
        return self.kernel, self.hardware

    @property
    def setup(self) -> Path | None:
        """The script of the steering; raises `ConfigurationError` that lists the names."""
        if self.steering == "none":
            return None
        script = STEERING / f"{self.steering}.sh"
        if not script.is_file():
            names = sorted(file.stem for file in STEERING.glob("*.sh"))
            raise ConfigurationError(
                f"server.steering {self.steering}: expected none, {', '.join(names)}",
                parameter="server.steering",
            )
        return script

    def one_pass(self) -> PointPlan:
        """The plan without its second level. Points that differ only in that share an emulation."""
        return self.model_copy(update={"l2_kib": 0, "l2_ways": 0})


def plan_of(point: Point) -> PointPlan:
    """The plan of a point; raises `ConfigurationError` that names the parameter."""
    from perpacket_lab.measure.plan import validated

    plan = validated(PointPlan, point)
    plan.settings((plan.l2,))
    return plan


@dataclass(slots=True)
class Passes:
    """The emulations of a study, by their common plan. Each runs when a point first needs it."""

    sessions: Mapping[MachineKey, Session]
    """The sessions by the machines of plans."""
    sizes: Mapping[PointPlan, tuple[Shape, ...]]
    stop: Event
    _done: dict[tuple[PointPlan, int], Mapping[str, Any]]

    def counts(self, plan: PointPlan, seed: int) -> Mapping[str, Any]:
        """The counts of a plan's emulation."""
        shared = plan.one_pass()
        key = (shared, seed)
        if key not in self._done:
            settings = replace(plan.settings(self.sizes[shared]), seed=seed)
            found = self.sessions[plan.machine]
            self._done[key] = runs.variant(
                found.emulator,
                found.plugin,
                found.machine,
                settings,
                seed - 1,
                files=found.files,
                stop=self.stop,
            )
        return self._done[key]


class EmulatedPointRun:
    """One run of one point."""

    def __init__(
        self, plan: PointPlan, seed: int, runner: EmulatedRunner, expected_ms: int
    ) -> None:
        """Run `plan` as the variant of `seed`, which takes about so long."""
        self._plan, self._seed, self._runner = plan, seed, runner
        self._expected_ms = expected_ms

    def run(self) -> RunOutcome:
        """The costs per packet by layer; raises `RunFailed`, or `Interrupted` after `cancel`."""
        passes = self._runner.passes
        if passes is None:
            raise RunFailed("an emulation began without a machine: this is a fault of perpacket")
        counts = passes.counts(self._plan, self._seed)
        return RunOutcome(result=result(self._plan, passes, counts))

    def progress(self) -> tuple[int, int]:
        """Nothing done, because nothing is known before the end, and the expected milliseconds."""
        return 0, self._expected_ms

    def cancel(self) -> None:
        """Make `run` stop soon."""
        if self._runner.passes is not None:
            self._runner.passes.stop.set()


class EmulatedRunner:
    """Prepares emulations; the guest is booted when it is not in the cache folder."""

    def __init__(self) -> None:
        """A runner without a machine."""
        self.passes: Passes | None = None
        self._first: dict[tuple[PointPlan, int], PointPlan] = {}
        """The plan that was first prepared of those that share an emulation."""

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that the runner's points may have."""
        from perpacket_lab.measure.plan import parameters_of

        return parameters_of(PointPlan)

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point; raises `ConfigurationError` for wrong parameters."""
        if seed < 1:
            raise ConfigurationError(f"seed {seed}: expected 1 or more", parameter="seed")
        plan = plan_of(point)
        return EmulatedPointRun(plan, seed, self, self.expected_ms(plan, seed))

    def expected_ms(self, plan: PointPlan, seed: int) -> int:
        """The expected time of an emulation; 0 if another plan shares the emulation and has it."""
        if self._first.setdefault((plan.one_pass(), seed), plan) != plan:
            return 0
        settings = plan.settings((plan.l2,))
        frames = settings.warmup + settings.frames
        if settings.requests:
            frames = FRAMES_PER_REQUEST * (settings.warmup + settings.requests)
        return round(1000 * frames / FRAMES_PER_S)

    def open_session(
        self, name: str, changes: Sequence[GuestChange] = (), hardware: Hardware = ONE
    ) -> Session:
        """The prepared machine of a kernel, booted now if the cache has none.

        Raises `MachineLacks` when this machine cannot emulate it.
        """
        kernel = Path(f"{debian_kernels.SCHEME}{name}") if name else None
        return open_session(Guest(kernel, changes=changes, hardware=hardware), lambda text: None)

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        """Open the prepared machines; raises `MachineLacks` when this machine cannot emulate."""
        sizes: dict[PointPlan, tuple[Shape, ...]] = {}
        changes: dict[MachineKey, dict[str, GuestChange]] = {}
        left_out: dict[str, str] = {}
        plans = {point.name: plan_of(point) for point in points}
        for name, plan in plans.items():
            shared = plan.one_pass()
            sizes[shared] = tuple(dict.fromkeys((*sizes.get(shared, ()), plan.l2)))
            try:
                own = changes_of(plan)
            except ConfigurationError as error:
                left_out[name] = str(error)
            else:
                changes.setdefault(plan.machine, {}).update({change.text: change for change in own})
        if points and len(left_out) == len(points):
            raise MachineLacks(next(iter(left_out.values())))
        sessions, lacks = self.open_sessions(changes)
        left_out |= {
            name: str(lacks[plan.machine]) for name, plan in plans.items() if plan.machine in lacks
        }
        self.passes = Passes(sessions, sizes, Event(), {})
        limits = report.limits_of_caches(any(plan.processors for plan in plans.values()))
        try:
            facts = {named(machine): session.facts for machine, session in sessions.items()}
            identity = facts["default"] if facts.keys() == {"default"} else {"kernels": facts}
            yield SetupDescription(identity, {"limits": limits}, left_out)
        finally:
            self.passes = None

    def open_sessions(
        self, changes: Mapping[MachineKey, Mapping[str, GuestChange]]
    ) -> tuple[dict[MachineKey, Session], dict[MachineKey, MachineLacks | RunFailed]]:
        """The sessions of machines with their changes, and why other machines have none.

        Raises if no machine has one.
        """
        sessions: dict[MachineKey, Session] = {}
        lacks: dict[MachineKey, MachineLacks | RunFailed] = {}
        for machine, own in changes.items():
            name, hardware = machine
            more = {} if hardware == ONE else {"hardware": hardware}
            try:
                sessions[machine] = self.open_session(name, tuple(own.values()), **more)
            except (MachineLacks, RunFailed) as lack:
                lacks[machine] = lack
        if not sessions:
            raise next(iter(lacks.values()))
        return sessions, lacks


class PreparedRunner(EmulatedRunner):
    """Emulates only if a machine is prepared, and boots none; for studies that also measure."""

    def open_session(
        self, name: str, changes: Sequence[GuestChange] = (), hardware: Hardware = ONE
    ) -> Session:
        """The prepared machine; raises `MachineLacks` when there is none."""
        if name:
            raise MachineLacks(f"emulator.kernel {name}: only the default kernel may be prepared")
        if hardware != ONE:
            raise MachineLacks(
                "a study that also measures emulates the machine with one processor alone",
                "run the experiment in a study of its own",
            )
        return prepared_session(changes)


def changes_of(plan: PointPlan) -> list[GuestChange]:
    """The changes of a plan; raises `ConfigurationError` if the guest cannot have one."""
    settings = plan.settings((plan.l2,))
    changes = [GuestChange.of(text, settings.scenario) for text in settings.changes]
    for change in changes:
        if change.kernel_option:
            raise ConfigurationError(
                f"{change.text}: it needs a guest of its own, and a study boots none"
            )
    return changes


def result(plan: PointPlan, passes: Passes, counts: Mapping[str, Any]) -> dict[str, object]:
    """The values of an observation, which are the document's values without intervals."""
    sizes = passes.sizes[plan.one_pass()]
    document = report.report(plan.settings(sizes), [counts], {})
    label = str(plan.l2)
    ways = {way: values(cost, label) for way, cost in document["directions"].items()}
    (variant,) = document["by_variant"]
    unit = UNITS.get(plan.server_name, "received")
    number = variant["requests"] if unit == "request" else variant["packets"][unit]
    packets_per_unit = sum(variant["packets"].values()) / max(1, number)
    return {
        "backend": "emulated",
        "packets_sent": document["packets"]["sent"],
        "packets_received": document["packets"]["received"],
        "guest_window_s": document["guest_window_s"][0],
        "turn_instructions": plan.turn_instructions,
        "unit": unit,
        "packets_per_unit": packets_per_unit,
        **values(document["total"], label, packets_per_unit),
        "layers": {
            name: values(cost, label, packets_per_unit) for name, cost in document["layers"].items()
        },
        "kinds": {name: values(cost, label) for name, cost in document["kinds"].items()},
        "directions": ways,
        **functions(variant, number),
        **moved(document, label),
    }


def functions(variant: Mapping[str, Any], units: int) -> dict[str, object]:
    """The instructions of the larger functions by unit of work, if functions were counted."""
    own: Mapping[str, int] = variant["instructions"]["functions"]
    least = LEAST_SHARE * sum(variant["instructions"]["layer_kinds"].values())
    large = {name: number / max(1, units) for name, number in own.items() if number >= least}
    return {FUNCTIONS: large} if large else {}


def moved(document: Mapping[str, Any], label: str) -> dict[str, object]:
    """The lines that moved between processors, for the second level `label`; none without them."""
    sharing = document.get("sharing")
    if sharing is None:
        return {}
    found: dict[str, object] = {key: sharing[key][label]["value"] for key in COUNTS}
    key = "moved_lines_per_packet"
    parts = {name: one[key][label]["value"] for name, one in sharing.get("parts", {}).items()}
    parts["layers"] = {name: one[key][label]["value"] for name, one in sharing["layers"].items()}
    parts["structures"] = {
        one["structure"]: one[key][label]["value"] for one in sharing.get("structures", [])
    }
    found["moved"] = parts
    found["causes"] = {name: one[label]["value"] for name, one in sharing["causes"].items()}
    return found


def values(
    cost: Mapping[str, Any], label: str, packets_per_unit: float | None = None
) -> dict[str, float]:
    """The values of a cost for the second level `label`, by the names of results.

    With `packets_per_unit`, each value is there also by unit of work.
    """
    found: dict[str, float] = {"share": cost["share"]}
    for key, value in cost.items():
        if not key.endswith((PER_PACKET, "_per_request")):
            continue
        if isinstance(value, Mapping):
            found[key] = (value.get(label) or next(iter(value.values())))["value"]
        else:
            found[key] = value
    if packets_per_unit is not None:
        for key in [key for key in found if key.endswith(PER_PACKET)]:
            by_unit = found[key] * packets_per_unit
            found[f"{key.removesuffix(PER_PACKET)}_per_unit"] = by_unit
    return found
