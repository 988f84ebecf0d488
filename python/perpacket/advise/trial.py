"""A trial: changes measured on live traffic in interleaved windows, and undone.

    begin: check, journal, guardian | block: four windows, sides in random order | ... | restore

An option of a server is tried on second servers (`twin.py`), in blocks of six windows. Each change
is tried alone. With `factorial` every combination of the changes is a side, and the
effects and interactions of a two-level design are computed.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from perpacket import server_cost
from perpacket.advise import (
    added,
    catalogue,
    guards,
    journal,
    servers,
    settings,
    slope,
    twin,
    windows,
)
from perpacket.advise.effect import (
    ALL,
    BEFORE,
    CHANGED,
    ITSELF,
    PATH,
    CostVerdict,
    Effects,
    Window,
    counted_in,
    effects,
    half_width,
    quantities,
    unit_of,
)
from perpacket.advise.journal import Undone
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings import Setting
from perpacket.advise.settings.commands import DONE, Command
from perpacket.advise.slope import Slope
from perpacket.advise.windows import Load
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed

if TYPE_CHECKING:
    from perpacket.analysis.factorial import Allocation

NOTHING = "nothing"
"""The name of a change without effect: an A/A trial."""

MOST_COMBINED = 4
"""The most changes of a factorial trial: they have 16 combinations, in 32 windows a block."""


MOST_OTHER_TRAFFIC = 0.1
"""The largest share of packets of other clients that a trial on a twin accepts. The work for these
clients uses the same processors, but is not the twin's."""

OTHER_TRAFFIC_S = 0.3
"""The time before the trial's own load, in which other packets are counted."""

MOST_REPEATED = 3
"""The most blocks that are measured again because a window had no traffic, or no slice of the
profile. On a busy machine, a server or the profiler may wait for a processor for a whole window."""


NO_GUARDS = "`--no-guards` measures a harmful change to the end"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a trial."""

    changes: tuple[str, ...] = ()
    """The changes, such as `tso=off`; `nothing` for an A/A trial."""
    pid: int | None = None
    interface: str = ""
    load: Load | None = None
    """The trial's own load; None to use existing traffic."""
    url: str = ""
    """The URL of an HTTP load, which options of servers need."""
    requests: str = ""
    cpus: str = ""
    blocks: int = 10
    window_s: float = 1.0
    settle_s: float = 0.2
    until: float | None = None
    """The trial continues until half the interval of the ratio is at most this share."""
    most_s: float = 600.0
    factorial: bool = False
    keep_if: str = ""
    do: str = ""
    undo: str = ""
    slope: str = ""
    """The layer at which a known cost is added."""
    seed: int = 1
    confidence: float = 0.95
    is_guarded: bool = True
    """Whether a change that harms the users ends the trial, as `guards.py` describes."""

    @property
    def counted(self) -> str:
        """The processor time that is a cost: of all programs if the user's command runs."""
        return ALL if self.do else PATH

    def check_slope(self) -> None:
        """Refuse options that a slope would ignore."""
        ignored = {
            "CHANGE": self.changes,
            "--do": self.do,
            "--undo": self.undo,
            "--factorial": self.factorial,
            "--keep-if": self.keep_if,
        }
        for name, value in ignored.items():
            if value:
                raise ConfigurationError(
                    f"--slope {self.slope} and {name}: a slope adds a known cost and tries no "
                    "change",
                    parameter=name,
                    hint="run two commands, one for the slope",
                )


@dataclass(frozen=True, slots=True)
class Target:
    """A change with its setting, or with the option of a twin server; an A/A trial has neither."""

    text: str
    setting: Setting | None = None
    value: str = ""
    option: str = ""
    """The option of the server, for a twin."""
    permanent: str = ""
    """Instructions for a permanent change, read before the trial opens the namespace."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one change."""

    change: str
    effects: Effects
    windows: tuple[Window, ...]
    notes: tuple[str, ...]
    is_decided: bool
    """Whether the interval became as narrow as the plan requires."""
    kept: str = ""
    """Instructions for a permanent change, if the change was kept."""


@dataclass
class Outcome:
    """The results of a trial, and the settings' state afterwards."""

    trials: list[Trial] = field(default_factory=list)
    combinations: tuple[Window, ...] = ()
    """The windows of a factorial trial; `side` has a bit for each change."""
    changes: tuple[str, ...] = ()
    counted: str = PATH
    """The processor time that is a cost, as `Plan.counted`."""
    slope: Slope | None = None
    notes: tuple[str, ...] = ()
    """Notes on the results that do not concern a single change."""
    undone: list[Undone] = field(default_factory=list)
    is_interrupted: bool = False


Report = Callable[[str, float], None]
"""A function that gets a sentence on the results so far, and the finished share of the windows."""


def targets(plan: Plan, scope: NetworkScope) -> list[Target]:
    """The changes of a plan; raises `ConfigurationError` or `MachineLacks` if one is impossible."""
    found = [target_of(text, plan, scope) for text in plan.changes]
    if plan.do or plan.undo:
        command = Command(scope, plan.do, plan.undo)
        command.check(DONE)
        found.append(Target(plan.do, command, DONE))
    if not found:
        raise ConfigurationError(
            "no change was named",
            allowed="for example `perpacket trial gro=on --interface eth0`, or --do and --undo",
        )
    if plan.factorial and not 2 <= len(found) <= MOST_COMBINED:
        raise ConfigurationError(
            f"--factorial with {len(found)} changes: expected 2 to {MOST_COMBINED}",
            parameter="--factorial",
        )
    return found


def target_of(text: str, plan: Plan, scope: NetworkScope) -> Target:
    """One change of the catalogue with its setting, or the option of the server."""
    if text == NOTHING:
        return Target(text)
    change, value = catalogue.find(text)
    if change.setting is not None:
        setting = settings.open(change.setting, scope)
        if setting.is_readable and setting.read() == setting.normal(value):
            raise ConfigurationError(
                f"{text}: the setting has this value already",
                parameter="CHANGE",
                value=text,
                hint=f"`{NOTHING}` compares windows without a change",
            )
        permanent = (setting.permanent(value) or "repeat the command") if plan.keep_if else ""
        return Target(text, setting, value, permanent=permanent)
    if plan.pid is None or not plan.url:
        raise ConfigurationError(
            f"{text} is an option of a server, which is tried on a second server: expected --pid "
            "and --url",
            parameter="CHANGE",
            value=text,
            hint="for example --pid $(pidof -s nginx) --url http://127.0.0.1/",
        )
    server = servers.find(plan.pid)
    option = change.option(server.kind, value)
    if option is None:
        raise ConfigurationError(
            f"{text}: it is no option of {server.kind} (process {plan.pid})",
            parameter="CHANGE",
            value=text,
        )
    return Target(text, option=option)


def options_of(changes: Sequence[Target]) -> tuple[str, ...]:
    """The options of a server among some changes."""
    return tuple(target.option for target in changes if target.option)


def run(plan: Plan, report: Report = lambda text, share: None) -> Outcome:
    """Carry out a trial. Ctrl-C restores everything and ends the trial with its results so far."""
    scope = NetworkScope.of(plan.pid, plan.interface)
    if plan.slope:
        return run_slope(plan, scope, report)
    found = targets(plan, scope)
    if plan.load is not None:
        plan.load.check(plan.pid)
    outcome = Outcome(changes=tuple(target.text for target in found), counted=plan.counted)
    steps = [(target.setting, target.value) for target in found if target.setting is not None]
    with ExitStack() as stack:
        session = stack.enter_context(journal.begin(steps)) if steps else None
        if session is not None:
            outcome.undone = session.undone
        runner = _TrialRunner(plan, scope, session)
        try:
            if plan.factorial:
                outcome.combinations = runner.combined(found, report)
                outcome.notes = runner.notes
            else:
                for target in found:
                    outcome.trials.append(runner.alone(target, steps, report))
        except KeyboardInterrupt:
            outcome.is_interrupted = True
            outcome.trials += runner.partial
    return outcome


def run_slope(plan: Plan, scope: NetworkScope, report: Report) -> Outcome:
    """Measure windows with different amounts of an added cost, and fit the slope."""
    plan.check_slope()
    cost = added.cost_at(plan.slope, scope, plan.url)
    if plan.load is not None:
        plan.load.check(plan.pid)
    amounts = (0, *cost.amounts)
    outcome = Outcome(changes=tuple(f"{amount} {cost.what}" for amount in cost.amounts))
    found: list[Window] = []
    with ExitStack() as stack:
        runner = _TrialRunner(plan, scope, None)
        lacks = stack.enter_context(runner.profiling())
        if lacks:
            raise MachineLacks(f"--slope {plan.slope}: {lacks[0]}", "be root")
        switch = stack.enter_context(added.adding(cost, outcome.undone))
        try:
            runner.blocks(
                len(amounts),
                lambda side: switch(amounts[side]),
                found,
                report,
                f"slope of {plan.slope}",
            )
        except KeyboardInterrupt:
            outcome.is_interrupted = True
        outcome.notes = runner.notes
    try:
        outcome.slope = slope.fit(plan.slope, cost.what, found, amounts, plan.confidence)
    except RunFailed:
        if not outcome.is_interrupted:
            raise
    return outcome


def commands(plan: Plan) -> Iterator[str]:
    """The commands of a trial, as `--dry-run` prints them; this changes nothing."""
    scope = NetworkScope.of(plan.pid, plan.interface)
    if plan.slope:
        plan.check_slope()
        yield from added.cost_at(plan.slope, scope, plan.url).commands()
        return
    for target in targets(plan, scope):
        if target.setting is not None:
            present = target.setting.read()
            yield f"change: {target.setting.command(target.value)}"
            yield f"undo:   {target.setting.command(present)}"
        elif target.option:
            option = target.option.rstrip(";")
            yield f"start a second server like process {plan.pid}, with `{option}`"
        else:
            yield "change nothing"
    if plan.url:
        yield f"load:   {plan.url}, in windows on both sides in turn"


def allocation(outcome: Outcome) -> tuple[Allocation, str]:
    """The effects of a factorial trial on the logarithm of the cost, and the unit of work."""
    from perpacket.analysis.factorial import allocate
    from perpacket.analysis.two_level import full

    design = full(outcome.changes)
    found = outcome.combinations
    sides = [
        sum(1 << number for number, sign in enumerate(signs) if sign > 0) for signs in design.runs
    ]
    responses = [log_costs(found, side, outcome.counted) for side in sides]
    least = min(map(len, responses))
    return allocate(design, [one[:least] for one in responses]), unit_of(found)


class _TrialRunner:
    """Measures windows of the sides of a trial."""

    def __init__(
        self,
        plan: Plan,
        scope: NetworkScope,
        session: journal.TrialSettings | None,
    ) -> None:
        self.plan, self.scope, self.session = plan, scope, session
        self.notes = tuple(windows.limits_of(scope, plan.pid))
        self.partial: list[Trial] = []
        self.has_twin = False

    @contextmanager
    def profiling(self, twins: Sequence[twin.Twin] = ()) -> Iterator[list[str]]:
        """Run the profiler of the server and its twins; yields notes on the data that it lacks."""
        plan, beside = self.plan, [one.pid for one in twins]
        with windows.profiler(plan.pid, plan.requests, plan.cpus, beside) as (running, lacks):
            self.profiler = running
            self.notes = tuple(dict.fromkeys((*self.notes, *lacks)))
            yield lacks

    def alone(self, target: Target, steps: Sequence[tuple[Setting, str]], report: Report) -> Trial:
        """Try one change."""
        plan = self.plan
        index = next(
            (number for number, (setting, _) in enumerate(steps) if setting is target.setting), None
        )
        found: list[Window] = []
        options = options_of([target])
        with ExitStack() as stack:
            twins = [self._twin(stack, one) for one in ((), options)] if options else []
            stack.enter_context(self.profiling(twins))
            urls = [one.url for one in twins]

            def switch(side: int) -> str:
                if self.session is not None and index is not None:
                    change = self.session.apply if side else self.session.restore
                    change([index])
                return urls[side] if side < len(urls) else ""

            sides = ITSELF + 1 if twins else CHANGED + 1
            try:
                decided = self.blocks(sides, switch, found, report, target.text)
            except KeyboardInterrupt:
                self._keep_partial(target, found)
                raise
        trial = self._trial(target, found, decided)
        verdict = trial.effects.verdict
        if index is not None and self.session is not None:
            if plan.keep_if == verdict.value and target.setting is not None:
                self.session.keep(index)
                return replace(trial, kept=target.permanent or "repeat the command")
            self.session.restore([index])
        return trial

    def _keep_partial(self, target: Target, found: list[Window]) -> None:
        """Store the result of an interrupted trial, if its windows are enough for an effect."""
        counts = Counter(one.block for one in found)
        length = 2 * (ITSELF + 1 if target.option else CHANGED + 1)
        whole = [one for one in found if counts[one.block] == length]
        if whole:
            self.partial = [self._trial(target, whole, decided=False)]

    def _trial(self, target: Target, found: Sequence[Window], decided: bool) -> Trial:
        computed = effects(found, self.plan.confidence, counted=self.plan.counted)
        notes = (*self.notes, *differences(computed, own_load=self.plan.load is not None))
        return Trial(target.text, computed, tuple(found), notes, decided)

    def combined(self, changes: Sequence[Target], report: Report) -> tuple[Window, ...]:
        """Try every combination of the changes; each combination of server options has a twin."""
        bits = range(len(changes))
        sides = [
            [changes[bit] for bit in bits if side >> bit & 1] for side in range(1 << len(bits))
        ]
        settings_only = [target for target in changes if target.setting is not None]
        found: list[Window] = []
        with ExitStack() as stack:
            twins: dict[tuple[str, ...], twin.Twin] = {}
            if options_of(changes):
                for options in dict.fromkeys(map(options_of, sides)):
                    twins[options] = self._twin(stack, options)
            stack.enter_context(self.profiling(list(twins.values())))

            def switch(side: int) -> str:
                if self.session is not None:
                    wanted = {settings_only.index(one) for one in sides[side] if one.setting}
                    self.session.restore(set(range(len(settings_only))) - wanted)
                    self.session.apply(sorted(wanted))
                return twins[options_of(sides[side])].url if twins else ""

            self.blocks(len(sides), switch, found, report, "combinations")
        return tuple(found)

    def _twin(self, stack: ExitStack, options: Sequence[str]) -> twin.Twin:
        """A twin with these options, which runs until `stack` closes."""
        assert self.plan.pid is not None
        server = servers.find(self.plan.pid)
        self.has_twin = True
        if note := twin.group_note(self.plan.pid, os.getpid()):
            self.notes = tuple(dict.fromkeys((*self.notes, note)))
        return stack.enter_context(twin.running(server, options, self.plan.url, self.scope))

    def blocks(
        self,
        sides: int,
        switch: Callable[[int], str],
        found: list[Window],
        report: Report,
        what: str,
    ) -> bool:
        """Measure blocks until there are enough; returns whether the required width was reached."""
        plan = self.plan
        others = 0.0 if plan.load is None else self._packets_per_s()
        began_s = time.monotonic()
        block = repeated = 0
        while True:
            whole = len(found)
            try:
                for place_in_block, side in enumerate(windows.order(sides, block, plan.seed), 1):
                    url = switch(side)
                    found.append(self._window(block, side, url))
                    if plan.is_guarded and sides <= ITSELF + 1 and (reason := guards.harm(found)):
                        switch(BEFORE)
                        raise guards.Harmful(f"{what}: stopped and undone: {reason}", NO_GUARDS)
                    if len(found) == 1:
                        self._check_others(others, found[0])
                    done = (block + place_in_block / (2 * sides)) / plan.blocks
                    report(progress_text(what, found, plan, sides), min(1.0, done))
            except (windows.NoTraffic, windows.NoSlice) as error:
                repeated += 1
                if repeated > MOST_REPEATED:
                    raise
                del found[whole:]
                self.notes = (*self.notes, f"a block was measured again: {error}")
                continue
            block += 1
            if block == 1:
                self._require_load(found)
            if plan.until is None:
                if block >= plan.blocks:
                    return True
                continue
            ratio = effects(found, plan.confidence, counted=plan.counted).cost.ratio
            if ratio is not None and half_width(ratio) <= plan.until:
                return True
            if time.monotonic() - began_s > plan.most_s:
                return False

    def _require_load(self, found: Sequence[Window]) -> None:
        """End the trial if its first block shows that the server is idle, or others are busy."""
        if counted_in(found, self.plan.counted) == PATH:
            layers = Counter[str]()
            for window in found:
                layers.update(window.layers)
            seconds = sum(window.seconds for window in found)
            server_cost.of_layers(layers, seconds).require_load("the first windows of the trial")

    def _packets_per_s(self) -> float:
        """The traffic without the trial's own load."""
        begin_s = time.time()
        time.sleep(OTHER_TRAFFIC_S)
        slices = self.profiler.within(windows.Span(begin_s, begin_s + OTHER_TRAFFIC_S))
        found = windows.measured(0, 0, slices, None)
        return found.packets / found.seconds

    def _check_others(self, others: float, loaded: Window) -> None:
        """Raise an error, or add a note, if other traffic runs beside the trial's load."""
        all_per_s = loaded.packets / loaded.seconds
        if others <= MOST_OTHER_TRAFFIC * all_per_s:
            return
        text = (
            f"there are {others:,.0f} packets/s without the trial's load, and {all_per_s:,.0f} "
            "packets/s with it"
        )
        if self.has_twin:
            raise RunFailed(
                f"{text}: the work for other clients would be charged to the requests of the trial",
                "stop the other load, or try the option on a machine without other clients",
            )
        self.notes = (
            *self.notes,
            f"{text}: the processor time per request includes the work for other clients",
        )

    def _window(self, block: int, side: int, url: str) -> Window:
        plan = self.plan
        loaded = None
        if plan.load is not None:
            loaded = plan.load.run(plan.settle_s, plan.window_s, url)
            interval = loaded.interval
        else:
            begin_s = time.time() + plan.settle_s
            time.sleep(plan.settle_s + plan.window_s)
            interval = windows.Span(begin_s, begin_s + plan.window_s)
        found = windows.measured(block, side, self.profiler.within(interval), loaded)
        if not found.packets:
            raise windows.NoTraffic(
                "no packet was counted in a window: a trial needs traffic",
                "add a load (--url or --stream), or --pid to count in that process's network",
            )
        return found


def progress_text(what: str, found: Sequence[Window], plan: Plan, sides: int) -> str:
    """`tso=off: window 12, 1.31 [1.22, 1.41] times the cost`."""
    text = f"{what}: window {len(found)}"
    if what not in plan.changes or len(found) < 2 * sides:
        return text
    ratio = effects(found, plan.confidence, counted=plan.counted).cost.ratio
    return text if ratio is None else f"{text}, {ratio.text(3)} times the cost"


def differences(found: Effects, own_load: bool) -> list[str]:
    """Sentences on differences of the traffic between the sides, which qualify the verdict."""
    notes = []
    by_key = {one.quantity.key: one for one in found.others}
    packets = by_key.get("packets_per_unit")
    if packets is not None and packets.ratio is not None and not packets.ratio.contains(1.0):
        notes.append(
            f"packets a {found.unit}: {packets.before:.3g} before, {packets.changed:.3g} changed: "
            "a packet is not the same work on both sides, so the verdict compares the cost of a "
            f"{found.unit}"
        )
    rate = by_key.get("units_per_s")
    if not own_load and rate is not None and rate.ratio is not None and not rate.ratio.contains(1):
        notes.append(
            f"the traffic differs between the sides: {rate.before:,.0f} {rate.quantity.title} "
            f"before, {rate.changed:,.0f} changed; a verdict may be about the traffic"
        )
    return notes


def is_cheaper(trial: Trial) -> bool:
    """Whether the trial shows that the change saves processor time."""
    return trial.effects.verdict is CostVerdict.CHEAPER


def log_costs(found: Sequence[Window], side: int, counted: str) -> list[float]:
    """The logarithm of the cost of a unit in each window of a side, in the order of blocks."""
    cost = quantities(unit_of(found), counted_in(found, counted))[0]
    values = [cost.over([window]) for window in found if window.side == side]
    return [math.log(value) for value in values if value]
